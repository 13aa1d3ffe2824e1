"""Throughput over the number of clients, nodes or machines: the scaling law, or why there is none.

Runs that differ in nothing but that number make one law; other runs make other laws. If the data
can't support a law, caveats are reported instead, each with a code and a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from kvmark.analysis.summary.aggregate import verdict_of
from kvmark.analysis.summary.run import throughput
from kvmark.analysis.verdict.case_verdict import is_repeated
from kvmark.analysis.verdict.judge import Verdict, judge
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
    "few_levels",
    "narrow_span",
    "shared_cores",
    "one_machine",
    "no_decline",
    "beyond_levels",
    "off_the_law",
    "rising_efficiency",
    "left_out",
    "unrepeated",
    "doubtful",
]
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
    shared = _common(list(cases))
    return tuple(
        _law_of(", ".join(_differing(case, shared)), over, its) for case, its in cases.items()
    )


def _law_of(title: str, over: str, runs: Sequence[Run]) -> ScalingLaw:
    verdicts = {run.id: judge(run) for run in runs}
    left_out = [run for run in runs if verdicts[run.id].judgement is Judgement.INVALID]
    valid = [run for run in runs if verdicts[run.id].judgement is not Judgement.INVALID]
    few = _unrepeated(valid, over)
    used = [run for run in valid if run not in few]
    measured = [Observation(_level(run, over), _rate(run), run.id) for run in used]
    doubtful = _doubtful(used, verdicts, over)
    caveats = [
        *_named(left_out, len(runs), "left_out", "left out because INVALID"),
        *_named(few, len(runs), "unrepeated", "left out because their level has too few of them"),
        *_named(doubtful, len(runs), "doubtful", "SUSPECT, and in the figures"),
        *_sharing(used, over),
    ]
    return scaling_law(title, over, measured, tuple(caveats))


def scaling_law(
    title: str, over: str, measured: Sequence[Observation], caveats: tuple[Caveat, ...] = ()
) -> ScalingLaw:
    """The law of observations at several levels, or the reasons why there is none.

    Raises:
        ValueError: a level is below 1 or a throughput isn't above 0.
    """
    found = (*caveats, *_too_little(measured, over))
    if {"few_levels", "narrow_span", "shared_cores"} & {one.code for one in found}:
        return ScalingLaw(title, over, _points(measured, None), None, "nothing", found)
    fit = fit_usl([one.level for one in measured], [one.throughput for one in measured])
    points = _points(measured, fit)
    top = points[-1].level
    found = (*found, *_of_fit(fit, over, top), *_rising(points, over))
    return ScalingLaw(title, over, points, fit, _claim(fit, top), found, _curve(fit, points))


def _curve(fit: UslFit, points: Sequence[ScalingPoint]) -> tuple[tuple[float, float], ...]:
    """The law at even steps of a logarithmic axis, from the first level to the last or the peak."""
    first, last = points[0].level, points[-1].level
    if _claim(fit, last) == "predicted peak" and fit.peak is not None:
        last = fit.peak.value * 1.25
    steps = (first * (last / first) ** (step / _CURVE_STEPS) for step in range(_CURVE_STEPS + 1))
    return tuple((n, fit.throughput(n)) for n in steps)


def _claim(fit: UslFit, top: float) -> Claim:
    if fit.peak is None or not fit.kappa.low:
        return "law"
    return "peak" if fit.peak.value <= top else "predicted peak"


def _points(measured: Sequence[Observation], fit: UslFit | None) -> tuple[ScalingPoint, ...]:
    levels: dict[float, list[Observation]] = {}
    for one in sorted(measured, key=lambda one: one.level):
        levels.setdefault(one.level, []).append(one)
    means = {
        level: mean_interval([one.throughput for one in its], "ops/s")
        for level, its in levels.items()
    }
    first = next(((level, mean.value) for level, mean in means.items()), (1.0, 1.0))
    return tuple(
        ScalingPoint(
            level=level,
            throughput=means[level],
            efficiency=means[level].value / level / (first[1] / first[0]),
            law=None if fit is None else fit.throughput(level),
            runs=tuple(one.run for one in its if one.run),
        )
        for level, its in levels.items()
    )


def _too_little(measured: Sequence[Observation], over: str) -> list[Caveat]:
    """Whether the levels can support a law at all."""
    levels = sorted({one.level for one in measured})
    if len(levels) < LEAST_LEVELS:
        count = f"{len(levels)} level{'' if len(levels) == 1 else 's'} of {over}"
        said = f"{count} can't bear a law, which needs at least {LEAST_LEVELS}"
        return [Caveat("few_levels", f"{said}{_ratio(measured, levels, over)}.")]
    if levels[-1] < LEAST_SPAN * levels[0]:
        return [
            Caveat(
                "narrow_span",
                f"{levels[0]:g} to {levels[-1]:g} {over} is less than a factor of"
                f" {LEAST_SPAN:g}: any curve would fit.",
            )
        ]
    return []


def _ratio(measured: Sequence[Observation], levels: Sequence[float], over: str) -> str:
    """What the ends of a few levels say all the same."""
    if len(levels) < 2:
        return ""
    low, high = (
        mean_interval([one.throughput for one in measured if one.level == level], "").value
        for level in (levels[0], levels[-1])
    )
    return (
        f"; from {levels[0]:g} to {levels[-1]:g} {over} throughput is {high / low:.3g} times as"
        f" high, in proportion it would be {levels[-1] / levels[0]:.3g} times"
    )


def _of_fit(fit: UslFit, over: str, top: float) -> list[Caveat]:
    """What a fit says against itself."""
    found = []
    if not fit.kappa.low:
        found.append(
            Caveat(
                "no_decline",
                "No peak is claimed: the interval of κ holds 0, so that a law without a decline"
                " fits as well.",
            )
        )
    elif fit.peak is not None and fit.peak.value > top:
        found.append(
            Caveat(
                "beyond_levels",
                f"The peak lies beyond the {top:,.0f} {over} measured: it is a prediction, and runs"
                " there would show whether it holds.",
            )
        )
    misfit = fit.misfit_p is not None and fit.misfit_p < _MISFIT_P
    if misfit or fit.scatter > _MOST_SCATTER:
        repeated = " more than repetitions differ," if misfit else ""
        found.append(
            Caveat(
                "off_the_law",
                f"The figures scatter by {fit.scatter:.0%} around the law,{repeated} most at"
                f" {fit.worst_level:,.0f} {over} ({fit.worst:+.0%}): something else than contention"
                " and coherency is at work.",
            )
        )
    return found


def _rising(points: Sequence[ScalingPoint], over: str) -> list[Caveat]:
    best = max(points, key=lambda point: point.efficiency)
    if best.efficiency < _RISING:
        return []
    return [
        Caveat(
            "rising_efficiency",
            f"At {best.level:g} {over} each does {best.efficiency:.2f} times what each of"
            f" {points[0].level:g} does, which the law knows no reason for.",
        )
    ]


def _by_level(runs: Sequence[Run], over: str) -> list[list[Run]]:
    levels: dict[float, list[Run]] = {}
    for run in runs:
        levels.setdefault(_level(run, over), []).append(run)
    return list(levels.values())


def _unrepeated(runs: Sequence[Run], over: str) -> list[Run]:
    """The runs of levels that have fewer of them than their design's minimum."""
    return [run for same in _by_level(runs, over) if not is_repeated(same) for run in same]


def _doubtful(runs: Sequence[Run], verdicts: Mapping[str, Verdict], over: str) -> list[Run]:
    """The SUSPECT runs of levels whose runs together are SUSPECT."""
    suspect = Judgement.SUSPECT
    return [
        run
        for same in _by_level(runs, over)
        if verdict_of(same, (verdicts[run.id] for run in same)).judgement is suspect
        for run in same
        if verdicts[run.id].judgement is suspect
    ]


def _named(
    runs: Sequence[Run], of: int, code: Literal["left_out", "unrepeated", "doubtful"], said: str
) -> list[Caveat]:
    found = [run.id for run in runs]
    if not found:
        return []
    are = "run is" if len(found) == 1 else "runs are"
    shown = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    return [Caveat(code, f"{len(found)} of {of} {are} {said}: {shown}.")]


def _sharing(runs: Sequence[Run], over: str) -> list[Caveat]:
    """Nodes of one machine: more of them bring no cores with them."""
    if over != "nodes":
        return []
    nodes = max((_nodes(run) for run in runs), key=len, default=[])
    if len(nodes) < 2:
        return []
    cores = [core for node in nodes for core in node.get("cores") or ()]
    bound = all(node.get("cores") for node in nodes)
    if bound and len(set(cores)) == len(cores):
        return [
            Caveat(
                "one_machine",
                "The nodes have cores of their own and share their machine's memory, disk and"
                " caches.",
            )
        ]
    return [
        Caveat(
            "shared_cores",
            "The nodes share one machine's cores: a node more brings no core more, and the figures"
            " say nothing about scaling over nodes.",
        )
    ]


def _nodes(run: Run) -> list[Mapping[str, Any]]:
    nodes = (run.manifest.testbed or {}).get("nodes") or []
    return list(nodes)


def _level(run: Run, over: str) -> float:
    """How many there were."""
    if over == "clients":
        return float(sum(_clients(run).values()))
    if over == "nodes" and _nodes(run):
        return float(len(_nodes(run)))
    told = _study_levels(run).get(over)
    try:
        level = float(str(told).replace(",", ""))
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


def _rate(run: Run) -> float:
    return throughput(run, run.counted[0]).value


def _study_levels(run: Run) -> Mapping[str, Any]:
    levels: Mapping[str, Any] = run.manifest.study.get("levels", {})
    return levels


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
    levels = _study_levels(run)
    told = [f"{name} {level}" for name, level in sorted(levels.items()) if name != over]
    return (*parts, *(one for one in told if not _said(one, parts)))


def _said(told: str, parts: Sequence[str]) -> bool:
    """Whether a factor's level stands among the parts in other words."""
    name, _, level = told.partition(" ")
    return name in {"clients", "nodes", "records", "workload"} and any(level in p for p in parts)


def _common(cases: Sequence[tuple[str, ...]]) -> frozenset[str]:
    """What all of several cases have, which their titles need not say."""
    if len(cases) < 2:
        return frozenset()
    return frozenset(cases[0]).intersection(*map(frozenset, cases[1:]))


def _differing(case: tuple[str, ...], shared: frozenset[str]) -> tuple[str, ...]:
    return tuple(part for part in case if part not in shared) or case
