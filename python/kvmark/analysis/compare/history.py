"""A metric over the runs of a case, and where its level moved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kvmark.analysis.compare import comparability
from kvmark.analysis.summary.metrics import run_value
from kvmark.analysis.summary.run import system_text
from kvmark.records import Run, by_case
from kvmark.spec.metric import Metric
from kvmark.stats import change_points, could_be_seen, least_points

#: More points are no clearer, and permutations take the square of their time.
MOST_POINTS = 300


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One run."""

    run: str
    created: str
    commit: str | None
    tags: tuple[str, ...]
    value: float


@dataclass(frozen=True, slots=True)
class Moved:
    """A place where the level moved: it is new from ``index`` on."""

    index: int
    #: As a share of the level before.
    change: float
    p_value: float
    better: bool
    #: What else changed there, a sentence each.
    beside: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recounted:
    """A place from which on the engine counts differently than in the run before."""

    index: int
    sentence: str


@dataclass(frozen=True, slots=True)
class EnvironmentChange:
    """A place from which on the servers of the runs are others than in the run before."""

    index: int
    differences: tuple[comparability.Difference, ...]


@dataclass(frozen=True, slots=True)
class History:
    """The runs of a case in the order of their time."""

    title: str
    metric: Metric
    points: tuple[HistoryPoint, ...]
    moves: tuple[Moved, ...]
    #: With fewer runs no change is found, however large.
    least_runs: int
    #: The smallest change half-way that 8 of 10 such histories would show, as a share; none with
    #: too few runs.
    could_be_seen: float | None
    recounted: tuple[Recounted, ...] = ()
    #: Where the servers changed, whether the level moved there or not.
    environments: tuple[EnvironmentChange, ...] = ()


def histories(runs: Iterable[Run], metric: Metric) -> tuple[History, ...]:
    """The history of each case, without runs that have no such figure.

    Each run is read once and in turn, so ``runs`` can open them one by one.

    Raises:
        RecordsError: a run's files can't be read.
    """
    found: list[Run] = []
    values: dict[str, float | None] = {}
    for run in runs:
        values[run.id] = run_value(run, metric)
        # Histograms are most of a manifest, and a history can have thousands of runs.
        engine = run.manifest.engine.model_copy(update={"totals": ()})
        found.append(Run(run.path, run.manifest.model_copy(update={"engine": engine})))
    cases = by_case(sorted(found, key=lambda run: run.manifest.created))
    made = (
        _history(case.title, [(run, value) for run in same if (value := values[run.id])], metric)
        for case, same in cases.items()
    )
    return tuple(history for history in made if history.points)


def _history(title: str, used: Sequence[tuple[Run, float]], metric: Metric) -> History:
    used = used[-MOST_POINTS:]
    points = tuple(
        HistoryPoint(
            run.id, run.manifest.created, run.manifest.commit, run.manifest.tags, value
        )
        for run, value in used
    )  # fmt: skip
    values = [point.value for point in points]
    steps = list(pairwise(run for run, _ in used))
    moves = tuple(
        Moved(one.index, one.ratio - 1, one.p_value, better, _beside(*steps[one.index - 1]))
        for one in change_points(values)
        for better in [(one.ratio > 1) == metric.more_is_better]
    )
    return History(
        title,
        metric,
        points,
        moves,
        least_runs=least_points(),
        could_be_seen=could_be_seen(values, [move.index for move in moves]),
        recounted=tuple(
            Recounted(index, caution.sentence)
            for index, (before, after) in enumerate(steps, start=1)
            for caution in comparability.recounted([before], [after])
        ),
        environments=tuple(
            EnvironmentChange(index, changes)
            for index, step in enumerate(steps, start=1)
            if (changes := comparability.environment_differences(*step))
        ),
    )


def _beside(before: Run, after: Run) -> tuple[str, ...]:
    """Changes of machine, kvmark and system between two runs, with the rules of counting."""
    changes = [one.sentence for one in comparability.cautions([before], [after])
               if one.code not in {"counting", "generator", "imported"}]  # fmt: skip
    one, other = system_text(before), system_text(after)
    if one != other:
        changes.append(f"The system changed: {one} against {other}.")
    return tuple(changes)
