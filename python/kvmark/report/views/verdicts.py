"""Verdicts in sentences: their counts, and each reason once with the cases or runs it affects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from rich.text import Text

from kvmark.analysis.verdict.cases import CaseVerdict
from kvmark.analysis.verdict.judge import Verdict
from kvmark.analysis.verdict.rules import Level, Reason
from kvmark.records import Judgement
from kvmark.report.model import units
from kvmark.report.model.answers import RunAnswer, SequenceAnswer
from kvmark.report.model.page import Caveat, Place
from kvmark.report.model.tables import sentence_lines
from kvmark.report.model.units import listed

Levels = Mapping[str, str]
Named = tuple[str, Verdict | CaseVerdict, Levels]
"""A run or a case by name, its verdict, and its level of each factor, if any."""
_MOST_NAMED = 5
_SEVERITY = (Level.INVALID, Level.SUSPECT, Level.NOTE)


def verdict_counts(verdicts: Iterable[Verdict | CaseVerdict]) -> dict[Judgement, int]:
    """The number of verdicts by judgement, zeros included."""
    counts = dict.fromkeys(Judgement, 0)
    for verdict in verdicts:
        counts[verdict.judgement] += 1
    return counts


def counts_sentence(counts: Mapping[Judgement, int], subject: Literal["case", "run"]) -> str:
    """The number of cases or runs by verdict."""
    total = sum(counts.values())
    present = {judgement.value: count for judgement, count in counts.items() if count}
    if len(present) == 1:
        (only,) = present
        return (
            f"The one {subject} is {only}." if total == 1 else f"All {total} {subject}s are {only}."
        )
    numbers = (f"{count} {'is' if count == 1 else 'are'} {name}" for name, count in present.items())
    return f"Of {total} {subject}s {listed(numbers)}."


def sequence_caveats(answer: SequenceAnswer) -> tuple[Caveat, ...]:
    """The verdict reasons of a sequence's cases."""
    cases = []
    for row in answer.rows:
        case = row.case
        rate = "" if case.target_rate is None else f"{case.target_rate:,.10g} ops/s"
        levels = {
            "workload": case.workload, "store": case.store, "records": units.whole(case.records),
            "target": rate, "other": case.apart,
        }  # fmt: skip
        cases.append((case.title, row.figures.verdict, levels))
    return caveats(cases, "cases")


def run_caveats(runs: Sequence[RunAnswer]) -> tuple[Caveat, ...]:
    """The verdict reasons of runs."""
    return caveats([(run.summary.id, run.verdict, {}) for run in runs], "runs")


def caveats(verdicts: Sequence[Named], subjects: Literal["cases", "runs"]) -> tuple[Caveat, ...]:
    """The reasons of all verdicts in order of severity, one per level and code."""
    reasons: dict[tuple[Level, str], list[tuple[str, Reason]]] = {}
    for name, verdict, _ in verdicts:
        for reason in verdict.reasons:
            reasons.setdefault((reason.level, reason.code), []).append((name, reason))
    levels = {name: of_name for name, _, of_name in verdicts}
    merged = [_merged(group, levels, subjects) for group in reasons.values()]
    return tuple(sorted(merged, key=lambda caveat: _SEVERITY.index(caveat.reason.level)))


def _merged(
    group: Sequence[tuple[str, Reason]], levels: Mapping[str, Levels], subjects: str
) -> Caveat:
    first = group[0][1]
    if len(levels) == 1:
        return Caveat(first, (), "")
    names = list(dict.fromkeys(name for name, _ in group))
    scope = scope_text(names, [levels[name] for name in names], list(levels.values()), subjects)
    return Caveat(first, tuple(Place(name, reason.sentence) for name, reason in group), scope)


def caveat_texts(caveats: Sequence[Caveat], width: int) -> list[Text]:
    """Every reason for a terminal: level, scope and sentence, then the advice."""
    return [Text("\n").join(_caveat_lines(caveat, width)) for caveat in caveats]


def _caveat_lines(caveat: Caveat, width: int) -> list[Text]:
    reason, level = caveat.reason, caveat.reason.level
    scope = f", {caveat.where}" if caveat.scope else ""
    sentence = f"{level.value} {reason.code}{scope}: {reason.sentence}"
    lines = sentence_lines(sentence, width, "dim" if level is Level.NOTE else "")
    lines[0].stylize("bold", 0, len(level.value))
    return [*lines, *sentence_lines(f"Advice: {reason.advice}.", width, "dim", "  ")]


def scope_text(
    names: Sequence[str], levels: Sequence[Levels], all_levels: Sequence[Levels], subjects: str
) -> str:
    """A part of all cases: `all 24 with scenario 2`, or the first of them by name.

    ``subjects`` is a plural noun, such as ``cases``. Cases without levels are named.
    """
    count = units.whole(len(names))
    if len(names) == len(all_levels):
        return f"all {count} {subjects}"
    if len(names) > 1 and (common := _common(levels, all_levels)):
        return f"all {count} with {common}"
    others = [each for each in all_levels if each not in levels]
    if len(others) < len(names) and (common := _common(others, all_levels)):
        return f"all but the {units.whole(len(others))} with {common}"
    first, rest = "; ".join(names[:_MOST_NAMED]), len(names) - _MOST_NAMED
    return f"{first} and {units.whole(rest)} more" if rest > 0 else first


def _common(group: Sequence[Levels], all_levels: Sequence[Levels]) -> str:
    """The levels that exactly these cases have; empty without any."""
    if not group or not all_levels[0]:
        return ""
    chosen: dict[str, list[str]] = {}
    for factor in all_levels[0]:
        labels = list(dict.fromkeys(each[factor] for each in group))
        if len(labels) < len({each[factor] for each in all_levels}):
            chosen[factor] = labels
    if _matches(chosen, all_levels) != len(group):
        return ""
    for factor in list(chosen):
        without = {name: labels for name, labels in chosen.items() if name != factor}
        if _matches(without, all_levels) == len(group):
            chosen = without
    return ", ".join(f"{name} {listed(labels)}" for name, labels in chosen.items())


def _matches(chosen: Mapping[str, Sequence[str]], all_levels: Sequence[Levels]) -> int:
    return sum(all(each[name] in labels for name, labels in chosen.items()) for each in all_levels)
