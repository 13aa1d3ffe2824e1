"""What is said of a sequence's time: before it begins, while it goes on, and at its end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kvmark.frontends.ycsb.rounds import CaseCourse, Course, Limit
from kvmark.frontends.ycsb.sequence import YcsbSequence
from kvmark.frontends.ycsb.steps import LOADS, Step, YcsbStudy
from kvmark.plan.compile import compile_run
from kvmark.records import Manifest, Records
from kvmark.report.format import units

_MOST: Final = 0.5
"""A workload that takes more of the time is named."""
_WORTH_S: Final = 10.0
"""What takes less time in all needs no advice while it goes on."""
_SURE_S: Final = 3.0
"""A step's speed is taken for what it will be after so long."""
_NAMED: Final = 4


def announced(study: YcsbStudy, course: Course) -> str:
    """What will be done, and how long it takes at most."""
    count = len(course.cases)
    each = f"{count} cases, each" if count > 1 else "One case,"
    text = f"{each} {_times(course.first_stage)}"
    if course.within is not None:
        aim = f"± {100 * course.within:g} % of its throughput"
        text += f", then as often as {aim} needs, {_times(course.most)} at most"
    if course.budget_s is None:
        return f"{text}; no limit of time."
    text += f"; {units.span(course.budget_s)} at most for the whole (--budget)."
    timed = sum(case.workload not in (*LOADS, "delete") for case in course.cases)
    once_s = (study.more.get("duration_ns") or 0) / 1e9 * timed
    if once_s > course.budget_s:
        text += f" Their --duration alone makes that {units.span(once_s)}: each case runs once."
    return text


class Teller:
    """Says something while a sequence goes on, each thing once."""

    def __init__(self, sequence: YcsbSequence, records: Records) -> None:
        self._sequence, self._rounds, self._records = sequence, sequence.rounds, records
        self._told_cost = False
        self._stage = 0
        self._hopeless: Limit | None = None

    def tell(self, step: Step, limit: Limit | None, say: Callable[[str], None]) -> None:
        """A step begins, or an interval of it ended."""
        self._say = say
        if limit is None:
            self._begin()
        else:
            self._watch(step, limit)

    def _begin(self) -> None:
        if self._stage == 0:
            self._say(announced(self._sequence.study, self._rounds.course()))
        expected_s = None if self._told_cost else self._rounds.expected_s()
        if expected_s is not None:
            self._told_cost = True
            self._tell_cost(expected_s, self._manifests())
        if self._stage not in (0, self._rounds.stage):
            self._say(self._second_stage())
        self._stage = self._rounds.stage

    def _watch(self, step: Step, limit: Limit) -> None:
        if limit is self._hopeless or limit.elapsed_s < _SURE_S or not limit.is_hopeless:
            return
        self._hopeless = limit
        whole = "end never" if limit.projected_s == math.inf else units.span(limit.projected_s)
        whole = whole if limit.projected_s == math.inf else f"take {whole}"
        plan = compile_run(self._sequence.study.spec(step, step.records))
        option = _option(self._manifests(), _kinds_of(plan.model_dump(mode="json")))
        self._say(
            f"{step.title}: at {units.significant(limit.rate_per_s)} ops/s it would {whole}, which"
            f" is more than is left of the budget, so it is ended after {units.span(limit.share_s)}"
            f" (--budget none lets it go on).{option}"
        )

    def _manifests(self) -> list[Manifest]:
        """Of the runs that have ended."""
        return [
            self._records.open(one.run).manifest if one.carried is None else one.carried.manifest
            for one in self._sequence.outcomes
            if one.run is not None
        ]

    def _tell_cost(self, expected_s: Mapping[str, float], told: Sequence[Manifest]) -> None:
        course, once_s = self._rounds.course(), sum(expected_s.values())
        short = course.budget_s is not None and once_s * course.first_stage > course.budget_s
        longest = _longest(expected_s, told)
        if once_s >= _WORTH_S and (short or longest):
            about = f"One repetition of each case takes about {units.span(once_s)}."
            self._say(" ".join(filter(None, (about, longest))))

    def _second_stage(self) -> str:
        course = self._rounds.course()
        more = sum(case.wanted > course.first_stage for case in course.cases)
        left = self._rounds.left()
        return (
            f"The first stage took {units.span(course.used_s)}; {_cases(more, len(course.cases))}"
            f" for {_aim(course)}: about {units.span(left[0] if left else 0.0)}."
        )


def said(course: Course, manifests: Sequence[Manifest]) -> tuple[str, ...]:
    """Sentences for the end: what the budget left out, and what took most of the time."""
    return tuple(filter(None, (*_left_out(course), _longest(course.once_s(), manifests))))


def _left_out(course: Course) -> Iterable[str]:
    cut = [case for case in course.cases if case.cut]
    if cut:
        yield (
            f"The budget ended {_listed(cut)} before all operations were done: throughput, times"
            " and runtime are those of the part that was."
        )
    few = [case for case in course.cases if case.repetitions < course.first_stage]
    fewer = [case for case in course.cases if case.repetitions < case.wanted and case not in few]
    if course.budget_s is None or not (few or fewer):
        return
    told = f"The budget of {units.span(course.budget_s)} was too short"
    if few:
        counts = sorted({case.repetitions for case in few})
        ran = _times(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]} times"
        told += (
            f": {_listed(few)} ran {ran} instead of {course.first_stage}, so that the ±"
            " is wide or is that of a single run"
        )
    if fewer:
        told += f"{';' if few else ':'} {_cases(len(fewer), len(course.cases))} for {_aim(course)}"
    whole_s = course.used_s + course.lacking_s
    yield f"{told}; --budget {_option_span(whole_s)} would do."


def _longest(seconds: Mapping[str, float], manifests: Sequence[Manifest]) -> str:
    """The workload that takes most of the time, and the option that would help."""
    name = max(seconds, key=seconds.__getitem__)
    share = seconds[name] / (sum(seconds.values()) or 1.0)
    if share <= _MOST or len(seconds) == 1:
        return ""
    own = [one for one in manifests if one.spec.get("sequence", {}).get("workload") == name]
    kinds = _kinds_of(own[-1].plan) if own else frozenset()
    most = f"{_shown(name)} takes {100 * share:.0f} % of the time of a repetition."
    return f"{most}{_option(manifests, kinds)}"


def _option(manifests: Sequence[Manifest], kinds: frozenset[str]) -> str:
    """The driver's option that makes these kinds of operation quicker, where it has one."""
    stated = manifests[-1].engine.capabilities if manifests else None
    for speedup in stated.speedups if stated else ():
        if kinds and kinds <= set(speedup.kinds):
            return f" {speedup.option} in the URL of the system {speedup.meaning}."
    return ""


def _kinds_of(plan: Mapping[str, Any]) -> frozenset[str]:
    """The kind of operation that most of a plan is made of; none where there is no such kind."""
    weights: dict[str, float] = {}
    for phase in plan["phases"]:
        for active in phase["groups"] if phase["name"] == "measure" else ():
            for entry in plan["groups"][active["group"]]["mix"]:
                weights[entry["kind"]] = weights.get(entry["kind"], 0.0) + entry["weight"]
    most = max(weights, key=weights.__getitem__, default="")
    return frozenset([most])


def _aim(course: Course) -> str:
    return f"± {100 * (course.within or 0):g} %"


def _cases(count: int, of: int) -> str:
    return (
        f"{count} of {of} cases need more repetitions"
        if count != 1
        else f"one of {of} cases needs more repetitions"
    )


def _listed(cases: Sequence[CaseCourse]) -> str:
    names = [_name(case) for case in cases[:_NAMED]]
    if len(cases) > _NAMED:
        names = [*names[: _NAMED - 1], f"{len(cases) - _NAMED + 1} more cases"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _name(case: CaseCourse) -> str:
    rate = "" if case.target is None else f" at {units.significant(case.target)} ops/s"
    return f"{_shown(case.workload)} with {units.whole(case.records)} records{rate}"


def _shown(workload: str) -> str:
    return workload.upper() if len(workload) == 1 else workload


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _option_span(seconds: float) -> str:
    """A time that is enough, as it is written in an option."""
    minutes = math.ceil(seconds * 1.1 / 60)
    return f"{minutes}m" if minutes < 120 else f"{math.ceil(minutes / 60)}h"
