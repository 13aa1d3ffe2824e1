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
        every = units.every(total, f"{subject}s").capitalize()
        return f"{every} {'is' if total == 1 else 'are'} {only}."
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
    places: dict[tuple[Level, str], list[tuple[str, Reason]]] = {}
    for name, verdict, _ in verdicts:
        for reason in verdict.reasons:
            places.setdefault((reason.level, reason.code), []).append((name, reason))
    levels = {name: of_name for name, _, of_name in verdicts}
    merged = []
    for group in places.values():
        first = group[0][1]
        if len(levels) == 1:
            merged.append(Caveat(first, (), ""))
        else:
            names = list(dict.fromkeys(name for name, _ in group))
            scope = scope_text(names, levels, subjects)
            portion = f"{units.whole(len(names))} of {units.whole(len(levels))} {subjects}"
            sentences = (Place(name, reason.sentence) for name, reason in group)
            merged.append(Caveat(first, tuple(sentences), scope, portion))
    return tuple(sorted(merged, key=lambda caveat: _SEVERITY.index(caveat.reason.level)))


def caveat_texts(caveats: Sequence[Caveat], width: int) -> list[Text]:
    """Every reason for a terminal: level, scope and sentence, then the advice."""
    texts = []
    for caveat in caveats:
        reason, level = caveat.reason, caveat.reason.level
        scope = f", {caveat.where}" if caveat.scope else ""
        sentence = f"{level.value} {reason.code}{scope}: {reason.sentence}"
        lines = sentence_lines(sentence, width, "dim" if level is Level.NOTE else "")
        lines[0].stylize("bold", 0, len(level.value))
        lines += sentence_lines(f"Advice: {reason.advice}.", width, "dim", "  ")
        texts.append(Text("\n").join(lines))
    return texts


def scope_text(names: Sequence[str], levels: Mapping[str, Levels], subjects: str) -> str:
    """A part of all cases: `all 24 with scenario 2`, or the first of them by name.

    ``levels`` are those of all cases; without any, cases are named. ``subjects`` is a plural noun.
    """
    every = list(levels.values())
    if len(names) == len(every):
        return units.every(len(names), subjects)
    if len(names) > 1 and (common := _common([levels[name] for name in names], every)):
        return f"{units.every(len(names), 'with')} {common}"
    others = [each for name, each in levels.items() if name not in names]
    if len(others) < len(names) and (common := _common(others, every)):
        return f"all but the {units.whole(len(others))} with {common}"
    first, rest = "; ".join(names[:_MOST_NAMED]), len(names) - _MOST_NAMED
    return f"{first} and {units.whole(rest)} more" if rest > 0 else first


def _common(group: Sequence[Levels], all_levels: Sequence[Levels]) -> str:
    """The levels that exactly these cases have; empty without any."""
    if not group or not all_levels[0]:
        return ""

    def matches(chosen: Mapping[str, Sequence[str]]) -> bool:
        """Whether as many cases have these levels."""
        found = (
            all(each[name] in labels for name, labels in chosen.items()) for each in all_levels
        )
        return sum(found) == len(group)

    chosen: dict[str, list[str]] = {}
    for factor in all_levels[0]:
        labels = list(dict.fromkeys(each[factor] for each in group))
        if len(labels) < len({each[factor] for each in all_levels}):
            chosen[factor] = labels
    if not matches(chosen):
        return ""
    for factor in list(chosen):
        without = {name: labels for name, labels in chosen.items() if name != factor}
        if matches(without):
            chosen = without
    return ", ".join(f"{name} {listed(labels)}" for name, labels in chosen.items())
