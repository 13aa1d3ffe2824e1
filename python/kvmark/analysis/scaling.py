"""Throughput over the number of clients, nodes or machines: the scaling law, or why there is none.

Runs that differ in nothing but that number make one law; other runs make other laws. If the data
can't support a law, caveats are reported instead, each with a code and a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from kvmark.analysis.summary.run import throughput
from kvmark.analysis.verdict.cases import is_repeated, verdict_of
from kvmark.analysis.verdict.judge import judge
from kvmark.errors import UsageError
from kvmark.records import Judgement, Run
from kvmark.stats import Estimate, UslFit, fit_usl, mean_interval

LEAST_LEVELS: Final = 5
"""Three parameters need a fourth level to have an error at all; with a fifth it says something."""
LEAST_SPAN: Final = 4.0
"""The largest level over the smallest: below it a straight line fits as well as any law."""
_MISFIT_P: Final = 0.01
_MOST_SCATTER: Final = 0.15
_RISING: Final = 1.1
_CURVE_STEPS: Final = 80

Claim = Literal["peak", "predicted peak", "law", "nothing"]
"""What a fit supports: a peak among the levels, one beyond them, a law without a peak, nothing."""


Code = Literal[
    "few_levels", "narrow_span", "shared_cores", "one_machine", "no_decline", "beyond_levels",
    "off_the_law", "rising_efficiency", "left_out", "unrepeated", "doubtful",
]  # fmt: skip
_ADVICE: Final[Mapping[Code, str]] = {
    "few_levels": "measure at least five levels, each about twice the one before",
    "narrow_span": "measure levels further apart",
    "shared_cores": "give each node a machine, or at least cores, of its own",
    "one_machine": "give each node a machine of its own",
    "no_decline": "measure higher levels if there is reason to expect a decline",
    "beyond_levels": "measure at the predicted peak and beyond it",
    "off_the_law": "look at the runs of that level, and what limits them there",
    "rising_efficiency": "look whether the smallest level was warm, and waited for anything",
    "left_out": "see why with kvmark show, and run them again",
    "unrepeated": "make the missing repetitions (--resume), or raise their number",
    "doubtful": "see why with kvmark show",
}


@dataclass(frozen=True, slots=True)
class Caveat:
    """What stands between the figures and a claim."""

    code: Code
    #: One sentence.
    sentence: str

    @property
    def advice(self) -> str:
        """What to do about it."""
        return _ADVICE[self.code]


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """What was measured at one level. Throughput is successful operations per second."""

    level: float
    throughput: Estimate
    #: Throughput ÷ what the smallest level's would be in proportion, a share.
    efficiency: float
    #: Throughput of the law; none without one.
    law: float | None
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScalingLaw:
    """One case over its levels."""

    title: str
    #: What the levels count: clients, nodes, machines.
    over: str
    points: tuple[ScalingPoint, ...]
    #: None if the levels don't support one.
    fit: UslFit | None
    claim: Claim
    caveats: tuple[Caveat, ...]
    #: Points (level, ops/s) of the law's line; empty without one.
    curve: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Observation:
    """Throughput in ops/s at a level, of a run where it is known."""

    level: float
    throughput: float
    run: str = ""


def scaling_laws(runs: Sequence[Run], over: str = "clients") -> tuple[ScalingLaw, ...]:
    """The laws of runs of the closed model, one for each case, in the order of the first runs.

    ``over`` is `clients`, `nodes`, or a factor of the study that the runs belong to, whose levels
    are counts. INVALID runs, those that ended before their measurement among them, are left out and
    named, and so are levels with fewer repetitions than their design's minimum.

    Raises:
        UsageError: a run offered a rate, doesn't know its level, or is another tool's.
        RecordsError: a run's files can't be read.
    """
    cases: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        cases.setdefault(_case(run, over), []).append(run)
    # What all of several cases have, their titles need not name.
    common = frozenset.intersection(*map(frozenset, cases)) if len(cases) > 1 else frozenset()
    return tuple(
        _law_of(", ".join([part for part in case if part not in common] or case), over, same)
        for case, same in cases.items()
    )


def _law_of(title: str, over: str, runs: Sequence[Run]) -> ScalingLaw:
    verdicts = {run.id: judge(run) for run in runs}
    left_out = [run for run in runs if verdicts[run.id].judgement is Judgement.INVALID]
    levels: dict[float, list[Run]] = {}
    for run in runs:
        if verdicts[run.id].judgement is not Judgement.INVALID:
            levels.setdefault(_level(run, over), []).append(run)
    few = [run for same in levels.values() if not is_repeated(same) for run in same]
    used = {level: same for level, same in levels.items() if is_repeated(same)}
    measured = [
        Observation(level, throughput(run, run.counted[0]).value, run.id)
        for level, same in used.items()
        for run in same
    ]
    # The SUSPECT runs of levels whose runs together are SUSPECT.
    suspect = Judgement.SUSPECT
    doubtful = [
        run
        for same in used.values()
        if verdict_of(same, (verdicts[run.id] for run in same)).judgement is suspect
        for run in same
        if verdicts[run.id].judgement is suspect
    ]
    caveats = [
        *_named(left_out, len(runs), "left_out", "left out because INVALID"),
        *_named(few, len(runs), "unrepeated", "left out because their level has too few of them"),
        *_named(doubtful, len(runs), "doubtful", "SUSPECT, and in the figures"),
        *_sharing([run for same in used.values() for run in same if over == "nodes"]),
    ]
    return scaling_law(title, over, measured, tuple(caveats))


def scaling_law(
    title: str, over: str, measured: Sequence[Observation], caveats: tuple[Caveat, ...] = ()
) -> ScalingLaw:
    """The law of observations at several levels, or the reasons why there is none.

    Raises:
        ValueError: a level is below 1 or a throughput isn't above 0.
    """
    points = _points(measured)
    found = (*caveats, *_insufficient(points, over))
    if {"few_levels", "narrow_span", "shared_cores"} & {one.code for one in found}:
        return ScalingLaw(title, over, points, None, "nothing", found)
    fit = fit_usl([one.level for one in measured], [one.throughput for one in measured])
    points = tuple(replace(point, law=fit.throughput(point.level)) for point in points)
    claim = _claim(fit, points[-1].level)
    found = (*found, *_of_fit(fit, points, over))
    return ScalingLaw(title, over, points, fit, claim, found, _curve(fit, points, claim))


def _curve(
    fit: UslFit, points: Sequence[ScalingPoint], claim: Claim
) -> tuple[tuple[float, float], ...]:
    """The law at even steps of a logarithmic axis, from the first level to the last or the peak."""
    first, last = points[0].level, points[-1].level
    if claim == "predicted peak" and fit.peak is not None:
        last = fit.peak.value * 1.25
    steps = (first * (last / first) ** (step / _CURVE_STEPS) for step in range(_CURVE_STEPS + 1))
    return tuple((n, fit.throughput(n)) for n in steps)


def _claim(fit: UslFit, top: float) -> Claim:
    if fit.peak is None or not fit.kappa.low:
        return "law"
    return "peak" if fit.peak.value <= top else "predicted peak"


def _points(measured: Sequence[Observation]) -> tuple[ScalingPoint, ...]:
    levels: dict[float, list[Observation]] = {}
    for one in sorted(measured, key=lambda one: one.level):
        levels.setdefault(one.level, []).append(one)
    means = {
        level: mean_interval([one.throughput for one in same], "ops/s")
        for level, same in levels.items()
    }
    first = next((mean.value / level for level, mean in means.items()), 1.0)
    return tuple(
        ScalingPoint(
            level=level,
            throughput=mean,
            efficiency=mean.value / level / first,
            law=None,
            runs=tuple(one.run for one in levels[level] if one.run),
        )
        for level, mean in means.items()
    )


def _insufficient(points: Sequence[ScalingPoint], over: str) -> Iterator[Caveat]:
    """Whether the levels can support a law at all."""
    if len(points) < LEAST_LEVELS:
        sentence = (
            f"{len(points)} level{'' if len(points) == 1 else 's'} of {over} can't bear a law,"
            f" which needs at least {LEAST_LEVELS}"
        )
        if len(points) > 1:
            low, high = points[0], points[-1]
            sentence += (
                f"; from {low.level:g} to {high.level:g} {over} throughput is"
                f" {high.throughput.value / low.throughput.value:.3g} times as high, in proportion"
                f" it would be {high.level / low.level:.3g} times"
            )
        yield Caveat("few_levels", f"{sentence}.")
    elif points[-1].level < LEAST_SPAN * points[0].level:
        sentence = f"{points[0].level:g} to {points[-1].level:g} {over} is less than a factor of"
        yield Caveat("narrow_span", f"{sentence} {LEAST_SPAN:g}: any curve would fit.")


def _of_fit(fit: UslFit, points: Sequence[ScalingPoint], over: str) -> Iterator[Caveat]:
    """What a fit and its points say against the law."""
    top = points[-1].level
    if not fit.kappa.low:
        yield Caveat(
            "no_decline",
            "No peak is claimed: the interval of κ holds 0, so that a law without a decline fits as"
            " well.",
        )
    elif fit.peak is not None and fit.peak.value > top:
        yield Caveat(
            "beyond_levels",
            f"The peak lies beyond the {top:,.0f} {over} measured: it is a prediction, and runs"
            " there would show whether it holds.",
        )
    misfit = fit.misfit_p is not None and fit.misfit_p < _MISFIT_P
    if misfit or fit.scatter > _MOST_SCATTER:
        repeated = " more than repetitions differ," if misfit else ""
        yield Caveat(
            "off_the_law",
            f"The figures scatter by {fit.scatter:.0%} around the law,{repeated} most at"
            f" {fit.worst_level:,.0f} {over} ({fit.worst:+.0%}): something else than contention"
            " and coherency is at work.",
        )
    best = max(points, key=lambda point: point.efficiency)
    if best.efficiency >= _RISING:
        yield Caveat(
            "rising_efficiency",
            f"At {best.level:g} {over} each does {best.efficiency:.2f} times what each of"
            f" {points[0].level:g} does, which the law knows no reason for.",
        )


def _named(
    runs: Sequence[Run], of: int, code: Literal["left_out", "unrepeated", "doubtful"], how: str
) -> Iterator[Caveat]:
    if runs:
        are = "run is" if len(runs) == 1 else "runs are"
        more = f" and {len(runs) - 3} more" if len(runs) > 3 else ""
        shown = ", ".join(run.id for run in runs[:3])
        yield Caveat(code, f"{len(runs)} of {of} {are} {how}: {shown}{more}.")


def _sharing(runs: Sequence[Run]) -> Iterator[Caveat]:
    """Nodes of one machine: more of them bring no cores with them."""
    nodes = max((_nodes(run) for run in runs), key=len, default=[])
    cores = [core for node in nodes for core in node.get("cores") or ()]
    if len(nodes) < 2:
        return
    if all(node.get("cores") for node in nodes) and len(set(cores)) == len(cores):
        own = "The nodes have cores of their own and share their machine's memory, disk and caches."
        yield Caveat("one_machine", own)
    else:
        yield Caveat(
            "shared_cores",
            "The nodes share one machine's cores: a node more brings no core more, and the figures"
            " say nothing about scaling over nodes.",
        )


def _nodes(run: Run) -> list[Mapping[str, Any]]:
    return list((run.manifest.testbed or {}).get("nodes") or ())


def _level(run: Run, over: str) -> float:
    """How many there were."""
    if over == "clients":
        return float(sum(_clients(run).values()))
    if over == "nodes" and _nodes(run):
        return float(len(_nodes(run)))
    label = run.manifest.study.get("levels", {}).get(over)
    try:
        level = float(str(label).replace(",", ""))
    except ValueError:
        level = math.nan
    if level >= 1:
        return level
    raise UsageError(
        f"run {run.id} doesn't say how many {over} there were: scaling is over clients, over the"
        " nodes of a testbed, or over a factor of a study whose levels are counts"
    )


def _clients(run: Run) -> dict[str, int]:
    """Clients of each group that was to be measured, where all belong to the closed model."""
    if run.manifest.imported is not None:
        raise UsageError(f"run {run.id} is another tool's and tells no clients: leave it out")
    found = {}
    for group in run.manifest.measured_groups:
        if group["arrival"]["process"] != "closed":
            raise UsageError(
                f"run {run.id} offered a rate, which its throughput then follows: scaling needs"
                " runs of the closed model, without --rate"
            )
        found[str(group["name"])] = int(group["clients"])
    return found


def _case(run: Run, over: str) -> tuple[str, ...]:
    """All that must be the same within a law, as words."""
    manifest = run.manifest
    clients, nodes = _clients(run), _nodes(run)
    system = manifest.engine.system
    parts = [
        str(manifest.plan.get("name", "")),
        f"{system.system} {system.version}".strip(),
        f"{manifest.plan.get('dataset', {}).get('count', 0):,} records",
    ]
    if over != "clients":
        parts.append(f"{sum(clients.values()):,} clients")
    if over != "nodes" and len(nodes) > 1:
        parts.append(f"{len(nodes)} nodes")
    if len(clients) > 1:
        parts.append(" and ".join(clients))
    levels = run.manifest.study.get("levels", {})
    others = {name: level for name, level in sorted(levels.items()) if name != over}
    # A factor's level may stand among the parts in other words.
    described = {"clients", "nodes", "records", "workload"}
    return (
        *parts,
        *(
            f"{name} {level}"
            for name, level in others.items()
            if not (name in described and any(str(level) in part for part in parts))
        ),
    )
