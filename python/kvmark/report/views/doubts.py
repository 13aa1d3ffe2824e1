"""Reasons of verdicts, each told once with all the places where it holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvmark.analysis import CaseVerdict, Level, Reason, Verdict
from kvmark.report.format import units
from kvmark.report.model.answers import RunAnswer, SequenceAnswer

Named = tuple[str, Verdict | CaseVerdict]
"""A run or a case by name, and its verdict."""
_GRAVEST_FIRST = (Level.INVALID, Level.SUSPECT, Level.NOTE)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A case or a run, and what the reason says of it."""

    name: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason as the first place has it, and every place where it holds."""

    reason: Reason
    #: Empty when there is only one place, which needs no name.
    places: tuple[Occurrence, ...]
    #: Whether the reason holds everywhere.
    everywhere: bool

    @property
    def evidence(self) -> str:
        """The numbers behind the reason, in words."""
        return ", ".join(
            f"{name.replace('_', ' ')} {_text(value)}"
            for name, value in self.reason.evidence.items()
        )


def of_sequence(answer: SequenceAnswer) -> list[Doubt]:
    """The doubts about a sequence's cases, gravest first."""
    return _gathered([(row.case.title, row.figures.verdict) for row in answer.rows])


def of_runs(runs: Sequence[RunAnswer]) -> list[Doubt]:
    """The doubts about runs, gravest first."""
    return _gathered([(run.summary.id, run.verdict) for run in runs])


def of_cases(verdicts: Sequence[Named]) -> list[Doubt]:
    """The doubts about cases with names, gravest first."""
    return _gathered(verdicts)


def _gathered(verdicts: Sequence[Named]) -> list[Doubt]:
    """Reasons of the same level and code together."""
    reasons: dict[tuple[Level, str], list[tuple[str, Reason]]] = {}
    for name, reason in _each(verdicts):
        reasons.setdefault((reason.level, reason.code), []).append((name, reason))
    doubts = [_doubt(found, len(verdicts)) for found in reasons.values()]
    return sorted(doubts, key=lambda doubt: _GRAVEST_FIRST.index(doubt.reason.level))


def _each(verdicts: Iterable[Named]) -> Iterable[tuple[str, Reason]]:
    return ((name, reason) for name, verdict in verdicts for reason in verdict.reasons)


def _doubt(found: Sequence[tuple[str, Reason]], total: int) -> Doubt:
    places = tuple(Occurrence(name, reason.sentence) for name, reason in found) if total > 1 else ()
    return Doubt(found[0][1], places, everywhere=len({name for name, _ in found}) == total)


def _text(value: float | int | str) -> str:
    return units.significant(value) if isinstance(value, float) else str(value)
