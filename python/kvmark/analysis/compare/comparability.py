"""Comparability of two sides: the differences besides the compared one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Literal

from kvmark.analysis.summary.sums import busy_shares, waiting_for_core
from kvmark.analysis.verdict.rules import RULES
from kvmark.analysis.verdict.run_conditions import fixed_work_ns, same_machine
from kvmark.records import Run
from kvmark.records.case import PLACES, RunEnvironment, described
from kvmark.records.model import counting_changes

Kind = Literal["plan", "system", "environment"]
"""Where a difference is: in the plan, in the system's version and settings, or in its servers."""
_UNKNOWN: Final = "an unknown version"
_DURABILITY: Final = "system.durability"
"""What acknowledged writes survive. No other difference matters as much: it is named first."""
_OF_ANY_STORE: Final = ("servers.nodes", "servers.cores", "servers.memory", "servers.proxy")
"""What servers of unlike stores have in common. A heap or a Java is one store's own."""

_IMPORTED: Final = (
    "The plan, the machine and the servers of an imported run are unknown: check that both sides"
    " did the same work."
)
_MOST_LISTED: Final = 6
_MOST_NAMED: Final = 2
#: A generator this busy, and this much busier than on the other side, may be what is compared.
_BUSY: Final = 0.5
_BUSIER: Final = 0.1
_WAITED_MORE: Final = 0.02


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that isn't the same on both sides."""

    kind: Kind
    #: Where it stands, such as `groups[0].clients`.
    place: str
    baseline: str
    candidate: str


@dataclass(frozen=True, slots=True)
class Caution:
    """Something beside the figures that may explain a change."""

    code: str
    sentence: str


def differences(baseline: Sequence[Run], candidate: Sequence[Run]) -> tuple[Difference, ...]:
    """The differences of all runs to the first one, in plan, system and servers, each place once.

    What is known of the servers of one run only is no difference, nor is it of imports.
    """
    if not baseline:
        return ()
    first = _described(baseline[0])
    found: dict[str, Difference] = {}
    for run in (*baseline[1:], *candidate):
        other = _described(run)
        places = dict.fromkeys([*first, *other])
        if baseline[0].manifest.imported or run.manifest.imported:
            places = {place: None for place in first if place in other}
        for place in places:
            before, after = first.get(place, "nothing"), other.get(place, "nothing")
            if before != after and place not in found:
                kind: Kind = "system" if place.startswith("system") else "plan"
                found[place] = Difference(kind, place, before, after)
        found |= {
            one.place: one
            for one in environment_differences(baseline[0], run)
            if one.place not in found
        }
    if "system.name" in found:
        # Another store has other options and settings throughout: its name says it all.
        kept = ("system.name", "system.version", _DURABILITY, *_OF_ANY_STORE)
        found = {place: one for place, one in found.items() if one.kind == "plan" or place in kept}
    return tuple(sorted(found.values(), key=lambda one: one.place != _DURABILITY))


def differences_text(found: Sequence[Difference]) -> str:
    """The settings that differ, with both values; the first six of many."""
    texts = [f"{one.place} {one.baseline} against {one.candidate}" for one in found]
    more = len(texts) - _MOST_LISTED
    return "; ".join(texts[:_MOST_LISTED]) + (f"; and {more} more" if more > 0 else "")


def difference_names(
    baseline: Sequence[Run], candidate: Sequence[Run], unlike: Sequence[Difference]
) -> tuple[str, str]:
    """Each side by the first settings in which the sides, but not their own runs, differ."""
    within = {one.place for side in (baseline, candidate) for one in differences(side, ())}
    # The system and its version are named anyway.
    within |= {"system.name", "system.version"}
    named = [one for one in unlike if one.place not in within][:_MOST_NAMED]
    names = [one.place.removeprefix("system.").replace("_", " ") for one in named]
    before = (f"{name} {one.baseline}" for name, one in zip(names, named, strict=True))
    after = (f"{name} {one.candidate}" for name, one in zip(names, named, strict=True))
    return ", ".join(before), ", ".join(after)


def environment_differences(before: Run, after: Run) -> tuple[Difference, ...]:
    """What differs between the servers of two runs, as far as it is known of both."""
    one, other = (RunEnvironment.of(run.manifest).servers for run in (before, after))
    return tuple(
        Difference("environment", place, text, other[place])
        for place, text in one.items()
        if place in other and other[place] != text
    )


def cautions(baseline: Sequence[Run], candidate: Sequence[Run]) -> tuple[Caution, ...]:
    """What else was not alike: kvmark and how it counts, machines, how free the generator was.

    Of imports nothing of that is known.
    """
    if any(run.manifest.imported for run in (*baseline, *candidate)):
        return (Caution("imported", _IMPORTED),)
    return (
        *recounted(baseline, candidate),
        *_versions(baseline, candidate),
        *_machines(baseline, candidate),
        *_machine_speed(baseline, candidate),
        *_generators(baseline, candidate),
    )


def recounted(baseline: Sequence[Run], candidate: Sequence[Run]) -> tuple[Caution, ...]:
    """Whether engines that count differently measured two sides, as far as that is known."""
    known = [run.manifest.engine.counting for run in (*baseline, *candidate)]
    numbers = sorted({number for number in known if number is not None})
    if len(numbers) < 2:
        return ()
    first, last = numbers[0], numbers[-1]
    sentence = f"The runs were measured by engines that count differently ({first} against {last})"
    return (Caution("counting", f"{sentence}: {counting_changes(first, last)}."),)


def _described(run: Run) -> dict[str, str]:
    """What makes the run its case, and the settings of its system; of an import what is known."""
    system = run.manifest.engine.system
    settings = {
        f"system.{name}": value
        for name, value in system.configuration.items()
        if name not in PLACES
    }
    places = {**described(run.manifest), "system.version": system.version, **settings}
    if run.manifest.imported is None:
        return places
    return {place: text for place, text in places.items() if text and place != "name"}


def _versions(baseline: Sequence[Run], candidate: Sequence[Run]) -> Iterator[Caution]:
    for name in ("kvmark", "engine"):
        before, after = (
            " and ".join(sorted({run.manifest.versions.get(name, _UNKNOWN) for run in side}))
            for side in (baseline, candidate)
        )
        if before != after:
            sentence = f"The sides were driven by different versions of {name}: "
            yield Caution("versions", f"{sentence}{before} against {after}.")
            return


def _machines(baseline: Sequence[Run], candidate: Sequence[Run]) -> Iterator[Caution]:
    """All places in which the machines differ, as far as they are known of every run."""
    first, *rest = (RunEnvironment.of(run.manifest).host for run in (*baseline, *candidate))
    changes = []
    for place, text in first.items():
        others = sorted({one[place] for one in rest if place in one} - {text})
        if others:
            name = place.removeprefix("host.").replace("_", " ")
            changes.append(f"{name} {text} against {', '.join(others)}")
    if changes:
        sentence = f"The sides ran on different machines: {'; '.join(changes)}."
        yield Caution("machines", sentence)


def _machine_speed(baseline: Sequence[Run], candidate: Sequence[Run]) -> Iterator[Caution]:
    if len({same_machine(run) for run in (*baseline, *candidate)}) > 1:
        return
    before, after = fixed_work_ns(baseline), fixed_work_ns(candidate)
    if before is None or after is None or None in (before.low, after.low):
        return
    slow, fast = (before, after) if before.value > after.value else (after, before)
    apart = slow.value / fast.value - 1
    if RULES["machine_speed"].level(apart) is not None and (slow.low or 0) > (fast.high or 0):
        side = "baseline" if slow is before else "candidate"
        yield Caution(
            "machine_speed",
            "The machine itself, or what the runs leave of its caches, was slower on the"
            f" {side}'s side: the same work took {apart:.0%} more processor time.",
        )


def _generators(baseline: Sequence[Run], candidate: Sequence[Run]) -> Iterator[Caution]:
    sides = [[(run, phase) for run in side for phase in run.counted]
             for side in (baseline, candidate)]  # fmt: skip
    busy = [[max(busy_shares(*one).values(), default=None) for one in side] for side in sides]
    side, near, far = _unlike(busy)
    if near >= _BUSY and near - far > _BUSIER:
        yield Caution(
            "generator",
            f"The generator was nearer to its ceiling on the {side}'s side: its busiest worker"
            f" used {near:.0%} of a core, against {far:.0%}.",
        )
    waits = [[waiting_for_core(phase) for _, phase in side] for side in sides]
    side, more, less = _unlike([[one and one[0] / one[1] for one in each] for each in waits])
    if more - less > _WAITED_MORE:
        yield Caution(
            "generator",
            f"On the {side}'s side the workers were ready and had no core {more:.1%} of the"
            f" time, against {less:.1%}.",
        )


def _unlike(sides: Sequence[Sequence[float | None]]) -> tuple[str, float, float]:
    """The side with the higher mean of its known values, both means; 0 where one is unknown."""
    known = [[value for value in side if value is not None] for side in sides]
    if not all(known):
        return "", 0.0, 0.0
    baseline, candidate = map(fmean, known)
    if baseline > candidate:
        return "baseline", baseline, candidate
    return "candidate", candidate, baseline
