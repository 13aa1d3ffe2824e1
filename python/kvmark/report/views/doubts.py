"""Reasons of verdicts, each told once with all the places where it holds, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvmark.analysis import CaseVerdict, Judgement, Level, Reason, Verdict
from kvmark.records import Case
from kvmark.report.format import units
from kvmark.report.model.answers import RunAnswer, SequenceAnswer
from kvmark.report.views.plan_words import listed

Levels = Mapping[str, str]
_Named = tuple[str, Verdict | CaseVerdict, Levels]
"""A run or a case by name, its verdict, and its level of each factor, if it has any."""
_MOST_NAMED = 5
_GRAVEST_FIRST = (Level.INVALID, Level.SUSPECT, Level.NOTE)


@dataclass(frozen=True, slots=True)
class _Occurrence:
    """A case or a run, and what the reason says of it."""

    name: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason as the first place has it, and every place where it holds."""

    reason: Reason
    #: Empty when there is only one place, which needs no name.
    places: tuple[_Occurrence, ...]
    #: Which of all places these are, in words.
    held: str

    @property
    def where(self) -> str:
        """The places, where the reason is told once: its figures are those of the first."""
        differ = len({place.sentence for place in self.places}) > 1
        return f"{self.held} (figures of the first)" if differ else self.held

    @property
    def evidence(self) -> str:
        """The numbers behind the reason, in words."""
        return ", ".join(
            f"{name.replace('_', ' ')} {_text(value)}"
            for name, value in self.reason.evidence.items()
        )


def of_sequence(answer: SequenceAnswer) -> list[Doubt]:
    """The doubts about a sequence's cases, gravest first."""
    cases = [(row.case.title, row.figures.verdict, _levels(row.case)) for row in answer.rows]
    return _gathered(cases, "cases")


def of_runs(runs: Sequence[RunAnswer]) -> list[Doubt]:
    """The doubts about runs, gravest first."""
    return _gathered([(run.summary.id, run.verdict, {}) for run in runs], "runs")


def of_cases(verdicts: Sequence[_Named]) -> list[Doubt]:
    """The doubts about cases with names, gravest first."""
    return _gathered(verdicts, "cases")


def summed_up(doubts: Sequence[Doubt], counts: Mapping[Judgement, int], things: str) -> str:
    """The verdicts in a sentence: `46 of 52 cases are SUSPECT: too_short (46); 6 are VALID`.

    Nothing where nothing was judged.
    """
    told: list[str] = []
    total = sum(counts.values())
    for judgement in (Judgement.INVALID, Judgement.SUSPECT, Judgement.VALID):
        count = counts.get(judgement, 0)
        if count:
            of = "" if told else f" of {units.whole(total)} {things}"
            number = f"all {units.whole(total)} {things}" if count == total else f"{count}{of}"
            number = f"the one {things.removesuffix('s')}" if total == 1 else number
            verb = "is" if count == 1 else "are"
            told.append(f"{number} {verb} {judgement.value}{_because(doubts, judgement)}")
    return "; ".join(told)


def _because(doubts: Sequence[Doubt], judgement: Judgement) -> str:
    """The reasons of a judgement and in how many places each holds, the most frequent first."""
    graves = [doubt for doubt in doubts if doubt.reason.level.value == judgement.value]
    if not graves:
        return ""
    often = {doubt.reason.code: len({one.name for one in doubt.places}) or 1 for doubt in graves}
    codes = sorted(often, key=lambda code: -often[code])
    return ": " + ", ".join(f"{code} ({units.whole(often[code])})" for code in codes)


def _gathered(verdicts: Sequence[_Named], things: str) -> list[Doubt]:
    """Reasons of the same level and code together."""
    reasons: dict[tuple[Level, str], list[tuple[str, Reason]]] = {}
    for name, verdict, _ in verdicts:
        for reason in verdict.reasons:
            reasons.setdefault((reason.level, reason.code), []).append((name, reason))
    levels = {name: levels for name, _, levels in verdicts}
    doubts = [_doubt(found, levels, things) for found in reasons.values()]
    return sorted(doubts, key=lambda doubt: _GRAVEST_FIRST.index(doubt.reason.level))


def _doubt(found: Sequence[tuple[str, Reason]], levels: Mapping[str, Levels], things: str) -> Doubt:
    reason = found[0][1]
    if len(levels) == 1:
        return Doubt(reason, (), "")
    names = list(dict.fromkeys(name for name, _ in found))
    theirs = [levels[name] for name in names]
    held = group_words(names, theirs, list(levels.values()), things)
    return Doubt(reason, tuple(_Occurrence(name, one.sentence) for name, one in found), held)


def _levels(case: Case) -> Levels:
    """What tells a case of a sequence from others, by what it is called in a table."""
    rate = "" if case.target_rate is None else f"{case.target_rate:,.10g} ops/s"
    return {
        "workload": case.workload, "store": case.store, "records": units.whole(case.records),
        "target": rate, "other": case.apart,
    }  # fmt: skip


def _text(value: float | int | str) -> str:
    return units.significant(value) if isinstance(value, float) else str(value)


def group_words(
    names: Sequence[str], levels: Sequence[Levels], everyone: Sequence[Levels], things: str
) -> str:
    """Some of all cases: `all 24 with scenario 2`, or the first of them by their names.

    ``things`` is what all of them are, such as ``cases``. Cases without levels have their names.
    """
    count = units.whole(len(names))
    if len(names) == len(everyone):
        return f"all {count} {things}"
    if len(names) > 1 and (common := _common(levels, everyone)):
        return f"all {count} with {common}"
    others = [one for one in everyone if one not in levels]
    if len(others) < len(names) and (common := _common(others, everyone)):
        return f"all but the {units.whole(len(others))} with {common}"
    told, more = "; ".join(names[:_MOST_NAMED]), len(names) - _MOST_NAMED
    return f"{told} and {units.whole(more)} more" if more > 0 else told


def _common(group: Sequence[Levels], everyone: Sequence[Levels]) -> str:
    """The levels that these cases have and no other has all of; nothing where there are none."""
    if not group or not everyone[0]:
        return ""
    chosen: dict[str, list[str]] = {}
    for factor in everyone[0]:
        theirs = list(dict.fromkeys(one[factor] for one in group))
        if len(theirs) < len({one[factor] for one in everyone}):
            chosen[factor] = theirs
    if _matched(chosen, everyone) != len(group):
        return ""
    for factor in list(chosen):
        without = {name: theirs for name, theirs in chosen.items() if name != factor}
        if _matched(without, everyone) == len(group):
            chosen = without
    return ", ".join(f"{name} {listed(theirs)}" for name, theirs in chosen.items())


def _matched(chosen: Mapping[str, Sequence[str]], everyone: Sequence[Levels]) -> int:
    return sum(all(one[name] in theirs for name, theirs in chosen.items()) for one in everyone)
