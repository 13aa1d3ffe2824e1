"""Runs at a rate judged by objectives: what they measured, and whether everything held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvmark.analysis import Level, Reason, Verdict, judge, save_verdict
from kvmark.analysis.summary.run import throughput
from kvmark.analysis.verdict.objectives import figure
from kvmark.errors import AnswerIsNo
from kvmark.experiment.designs.capacity.search import Outcome, RateRun, Stage
from kvmark.records import Records, Run, recover
from kvmark.spec.metric import Metric
from kvmark.spec.objective import Objective

__all__ = ["judged", "measured_rate"]

_NOT_KEPT_UP: Final = frozenset({"offered_rate_not_reached", "dropped"})
"""Above these rules' first threshold the rate was not carried."""
_ERRORS: Final = frozenset({"errors", "timeouts", "overloaded", "unavailable"})
_FAILED: Final = frozenset({"nothing_measured", "abandoned"})
_GENERATOR: Final = frozenset({"schedule_late", "generator_saturated"})
_FEW: Final = 0.01
_ALL_ERRORS: Final = Metric("errors")


def measured_rate(records: Records, run: str) -> float:
    """Closes a run and says its successful operations per second."""
    closed, _ = _closed(records, run)
    return _throughput([closed])


def judged(
    records: Records,
    runs: Sequence[str],
    rate: float,
    stage: Stage,
    objectives: Sequence[Objective],
    clients: int,
) -> RateRun:
    """Closes and judges runs at one rate as one: histograms are merged, shares pooled.

    What a verdict says against the rate counts when it says so of most runs.

    Raises:
        AnswerIsNo: a run is INVALID for a reason that no other rate would mend.
        KvmarkError: its records can't be written or read.
    """
    closed = [_closed(records, name) for name in runs]
    for run, verdict in closed:
        _raise_if_useless(run, verdict)
    figures = [figure([run for run, _ in closed], objective) for objective in objectives]
    own_errors = any(objective.metric == _ALL_ERRORS for objective in objectives)
    verdicts = [verdict for _, verdict in closed]
    missed = [one.sentence for one in figures if one.held is False]
    reasons = [*_refused(verdicts, own_errors=own_errors), *missed]
    lacking = [one.lacking for one in figures if one.lacking]
    return RateRun(
        rate=rate,
        stage=stage,
        run=runs[-1],
        outcome=_outcome(verdicts, reasons, lacking),
        reasons=tuple(reasons or lacking),
        figures={one.objective.text: one.value for one in figures},
        throughput=_throughput([run for run, _ in closed]),
        notes=tuple(
            _sentence(reason)
            for verdict in verdicts
            for reason in verdict.reasons
            if reason.code == "concurrency_limit"
        ),
        clients=clients,
        held_back=_waited_for_client([run for run, _ in closed]) >= _told_by(objectives),
    )


def _waited_for_client(runs: Sequence[Run]) -> float:
    """The share of operations that were issued late because all clients were busy."""
    groups = [group for run in runs for phase in run.counted for group in phase.groups]
    issued = sum(group.issued for group in groups)
    return sum(group.late_busy for group in groups) / issued if issued else 0.0


def _told_by(objectives: Sequence[Objective]) -> float:
    """The least share of operations that can put a figure beyond its bound: 1 % for p99."""
    quantiles = [one.metric.q for one in objectives if one.metric.quantile is not None]
    return min((1 - q for q in quantiles), default=_FEW)


def _closed(records: Records, name: str) -> tuple[Run, Verdict]:
    run = recover(records.root / name)
    verdict = judge(run)
    save_verdict(records, run, verdict)
    return run, verdict


def _outcome(
    verdicts: Sequence[Verdict], reasons: Sequence[str], lacking: Sequence[str]
) -> Outcome:
    if not reasons:
        return "too few" if lacking else "holds"
    late = [any(map(_is_late, verdict.reasons)) for verdict in verdicts]
    return "generator" if _most(late) else "missed"


def _is_late(reason: Reason) -> bool:
    return reason.code in _GENERATOR and reason.level is not Level.NOTE


def _most(held: Sequence[bool]) -> bool:
    return sum(held) * 2 > len(held)


def _refused(verdicts: Sequence[Verdict], *, own_errors: bool) -> list[str]:
    """Sentences of the reasons that most runs' verdicts give against the rate."""
    found: dict[str, list[Reason]] = {}
    for verdict in verdicts:
        for reason in verdict.reasons:
            if _is_refused(reason, own_errors=own_errors):
                found.setdefault(reason.code, []).append(reason)
    return [_sentence(same[0]) for same in found.values() if len(same) * 2 > len(verdicts)]


def _is_refused(reason: Reason, *, own_errors: bool) -> bool:
    """Whether a reason says that the system didn't carry the rate."""
    if reason.level is Level.NOTE:
        return False
    if reason.code in _ERRORS:
        return reason.level is Level.INVALID and not own_errors
    if reason.code in _GENERATOR:
        return reason.level is Level.INVALID
    return reason.code in _NOT_KEPT_UP | _FAILED


def _raise_if_useless(run: Run, verdict: Verdict) -> None:
    known = _NOT_KEPT_UP | _ERRORS | _FAILED | _GENERATOR
    for reason in verdict.reasons:
        if reason.level is Level.INVALID and reason.code not in known:
            said = _sentence(reason)
            raise AnswerIsNo(f"run {run.id} is INVALID: {said}; {reason.advice}")


def _throughput(runs: Sequence[Run]) -> float:
    rates = [throughput(run, run.counted[0]).value for run in runs if run.counted]
    return sum(rates) / len(rates) if rates else 0.0


def _sentence(reason: Reason) -> str:
    said = reason.sentence.removesuffix(".")
    return f"{said[:1].lower()}{said[1:]}"
