"""The tables of one run: its operations, and how the service went around planned faults."""

from __future__ import annotations

from collections.abc import Sequence

from kvmark.analysis import PhaseSummary, Stretch
from kvmark.report.format import units
from kvmark.report.format.grid import Cell, Column, Grid
from kvmark.report.model.answers import RunAnswer
from kvmark.report.views.imported import imported_grids
from kvmark.report.views.sequence import SUCCESSFUL, operations_grid

__all__ = ["around_faults_grid", "run_grids"]

_QUANTILES = {"p50": "p50", "p99": "p99", "p999": "p99.9"}
_NS_PER_S = 1e9
_FAULT_NOTE = (
    "A fault lasts until its server is back, the rate is 80 % of that before again, and no more"
    " arrivals wait than before."
)


def run_grids(run: RunAnswer) -> tuple[Grid, ...]:
    """All tables of a run, in the order in which they are shown."""
    if run.imported is not None:
        return tuple(imported_grids(run.imported))
    phases = run.summary.phases
    grids = [operations_grid(phase, _title(phase, several=len(phases) > 1)) for phase in phases]
    if run.around_faults:
        grids.append(around_faults_grid(run.around_faults))
    return tuple(grids)


def around_faults_grid(stretches: Sequence[Stretch]) -> Grid:
    """The service before, during and after each fault, a row each."""
    unit = units.time_unit(each.response.shown_ns("p99") for each in stretches)
    return Grid(
        title="Around the faults",
        columns=(
            Column("stretch", number=False, key=True),
            Column("from, s"),
            Column("length, s"),
            Column("ops/s"),
            Column("failed, %"),
            *(Column(name, f"response time, {unit.name}") for name in _QUANTILES.values()),
            Column("max", f"response time, {unit.name}"),
        ),
        rows=tuple(_row(each, unit, stretches[0].start_ns) for each in stretches),
        notes=(
            "From counts from the begin of the measurement.",
            _FAULT_NOTE,
            "An interval that a fault touches is the fault's.",
            SUCCESSFUL,
        ),
    )


def _row(stretch: Stretch, unit: units.TimeUnit, begin_ns: int) -> tuple[Cell, ...]:
    completed = stretch.succeeded + stretch.failed
    failed = stretch.failed / completed * 100 if completed else None
    length_ns = stretch.end_ns - stretch.start_ns
    times = [stretch.response.shown_ns(name) for name in _QUANTILES]
    return (
        Cell(stretch.name),
        Cell(units.significant((stretch.start_ns - begin_ns) / _NS_PER_S)),
        Cell(units.significant(length_ns / _NS_PER_S)),
        Cell(units.significant(stretch.throughput), "strong"),
        Cell(units.significant(failed)),
        *(Cell(units.duration(time, unit)) for time in (*times, stretch.response.max_ns)),
    )


def _title(phase: PhaseSummary, *, several: bool) -> str:
    """A run with one counted phase needs no name for it."""
    return f"Operations of phase {phase.phase}, {phase.name}" if several else "Operations"
