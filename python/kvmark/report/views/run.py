"""One run: its facts, tables and sentences; imported figures as their tool wrote them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from rich.text import Text

from kvmark.analysis.summary.chart_data import Stretch
from kvmark.analysis.summary.faults import FaultEffect
from kvmark.analysis.summary.run import AttemptSummary, PhaseSummary, SweepSummary
from kvmark.analysis.summary.servers import ServerUsage
from kvmark.foreign_text import printable
from kvmark.records import FigureRecord, ImportedRecord, Judgement
from kvmark.records.files import LOST_WRITES
from kvmark.records.model import TIMES, VALUE, LostWritesRecord
from kvmark.report.model import units
from kvmark.report.model.answers import RunAnswer
from kvmark.report.model.page import Fact
from kvmark.report.model.tables import Grid, Table, sentence_lines, stacked
from kvmark.report.model.units import counts_text, listed
from kvmark.report.views.audit import audit_facts, audit_grid, audit_headline
from kvmark.report.views.gather import origin_text, tool_name
from kvmark.report.views.sequence import SUCCESSFUL, add_times, operations_grid
from kvmark.report.views.text_charts import steps_lines, timeline_lines
from kvmark.report.views.verdicts import caveat_texts, run_caveats

_NS_PER_S: Final = 1e9
_FAULT_END: Final = (
    "A fault lasts until its server is back, the rate is 80 % of that before again, and no more"
    " arrivals wait than before."
)
_AROUND_FAULTS_NOTES: Final = (
    "From counts from the begin of the measurement.",
    _FAULT_END,
    "An interval that a fault touches is the fault's.",
    SUCCESSFUL,
)
_AROUND_FAULTS_TIMES: Final = {"p50": "p50", "p99": "p99", "p999": "p99.9", "max": "max"}
_ERRORS: Final = "The tool's standard errors are in the run's JSON export."

ImportedColumn = tuple[str, str, str]
"""Quantity, unit and statistic."""
ImportedRow = tuple[tuple[int, str | None], dict[ImportedColumn, FigureRecord]]
"""Case and operation, and the figures of both."""


def run_text(run: RunAnswer, width: int) -> Text:
    """One run for a terminal: its request, the reasons for its verdict, and operations."""
    title = f"{run.title} · {run.summary.id} · {run.summary.created}"
    return stacked(
        width,
        Text(printable(title), "bold"),
        fact_lines((*run.request, *run_facts(run)), width),
        run_sentence(run),
        *caveat_texts(run_caveats([run]), width),
        *run_grids(run),
    )


def charts_text(run: RunAnswer, width: int) -> Text:
    """The charts of a run's response times and of its course; empty without data."""
    # Which operations another tool counted is unknown.
    counted = "Operations that ended ok" if run.imported is None else "Operations"
    charts = [] if run.time_steps is None else [steps_lines(run.time_steps, width, counted)]
    return stacked(width, *charts, *(timeline_lines(each, width) for each in run.timelines))


def fact_lines(facts: Sequence[Fact], width: int) -> list[Text]:
    """Facts with their labels in a column."""
    column = max((len(fact.label) for fact in facts), default=0) + 2
    lines: list[Text] = []
    for fact in facts:
        first, *others = sentence_lines(fact.text, max(width - column, 20))
        label = Text().append(f"{printable(fact.label):<{column}}", "dim")
        lines += [label.append(first), *(Text(" " * column).append(other) for other in others)]
    return lines


def run_grids(run: RunAnswer) -> tuple[Grid, ...]:
    """All tables of a run, in order."""
    if run.imported is not None:
        audit = () if run.imported.audit is None else (audit_grid(run.imported.audit),)
        return (*audit, *_imported_grids(run.imported))
    phases = run.summary.phases
    titles = [f"Operations of phase {phase.phase}, {phase.name}" for phase in phases]
    if len(phases) == 1:
        titles = ["Operations"]
    grids = tuple(map(operations_grid, phases, titles))
    around = (around_faults_grid(run.around_faults),) if run.around_faults else ()
    servers = (servers_grid(run.servers),) if run.servers else ()
    return (*grids, *around, *lost_writes_grids(run), *servers)


def servers_grid(servers: Sequence[ServerUsage]) -> Grid:
    """What observed servers used in each counted phase."""
    table = Table("Observed servers", servers)
    table.key("server", lambda one: one.name)
    if len({one.phase for one in servers}) > 1:
        table.key("phase", lambda one: one.phase)
    columns: dict[str, Callable[[ServerUsage], str]] = {
        "busy cores": lambda one: units.significant(one.busy_cores),
        "of": lambda one: units.whole(one.cores),
        "busiest core, %": lambda one: _percent(one.busiest_core),
        "memory": lambda one: _size(one.resident_bytes),
        "disk, /s": lambda one: _size(one.disk_bytes_per_s),
        "network, /s": lambda one: _size(one.network_bytes_per_s),
        "GC, %": lambda one: _percent(one.gc_share),
        "compactions": lambda one: units.whole(one.compactions),
        "evicted": lambda one: units.whole(one.evicted_keys),
    }
    for heading, text in columns.items():
        if any(text(one) != units.ABSENT for one in servers):
            table.number(heading, text)
    return table.grid()


def _size(count: float | None) -> str:
    return units.ABSENT if count is None else units.size(round(count))


def _percent(share: float | None) -> str:
    return units.significant(None if share is None else share * 100)


def around_faults_grid(stretches: Sequence[Stretch]) -> Grid:
    """The service before, during and after each fault."""
    origin_ns = stretches[0].start_ns

    def failed(each: Stretch) -> float | None:
        completed = each.succeeded + each.failed
        return each.failed / completed * 100 if completed else None

    table = Table("Around the faults", stretches)
    table.key("stretch", lambda each: each.name)
    table.number("from", lambda each: units.with_unit(each.start_ns - origin_ns))
    table.number("length", lambda each: units.with_unit(each.end_ns - each.start_ns))
    table.number("ops/s", lambda each: each.throughput, tone="strong")
    table.number("failed, %", failed)
    add_times(table, "response time", _AROUND_FAULTS_TIMES, lambda each: each.response)
    return table.grid(_AROUND_FAULTS_NOTES)


def run_sentence(run: RunAnswer) -> str:
    """Throughput, the response time of the most frequent operation, and the verdict."""
    if run.imported is not None:
        audit = run.imported.audit
        return audit_headline(audit, run.verdict) if audit else _imported_sentence(run.imported)
    level = run.verdict.judgement.value
    count = sum(reason.level.value == level for reason in run.verdict.reasons)
    why = {0: "", 1: ", for one reason"}.get(count, f", for {count} reasons")
    verdict = f"The run is {level}{why}."
    phases = (_phase_sentence(phase) for phase in run.summary.phases)
    return " ".join([*lead_sentences(run), *phases, verdict])


def lead_sentences(run: RunAnswer) -> tuple[str, ...]:
    """What was asked of the run: its objectives, the writes that it lost, and its faults."""
    invalid = ""
    if run.verdict.judgement is Judgement.INVALID:
        invalid = f", but the run is INVALID: {run.verdict.reasons[0].code.replace('_', ' ')}"
    sweep, leads = run.summary.sweep, [f"{one.headline}{invalid}." for one in run.objectives]
    if sweep is not None and sweep.records:
        number = f"{units.whole(sweep.lost)} of" if sweep.lost else "None of"
        records = f"{units.whole(sweep.records)} records that were read back"
        when = _when_lost(sweep.lost_writes, run.summary.faults)
        but = "" if sweep.lost else invalid
        leads.append(f"{number} {records} had lost an acknowledged write{when}{but}.")
    for effect in run.summary.faults:
        if effect.without_service_ns:
            outage = units.with_unit(effect.without_service_ns)
            leads.append(f"No service for at least {outage} after '{effect.text}'.")
    return tuple(leads)


def _when_lost(lost: LostWritesRecord | None, faults: Sequence[FaultEffect]) -> str:
    """When the lost writes were acknowledged, and when the faults began."""
    if lost is None:
        return ""
    ends = (_instant(lost.acknowledged_from_ns), _instant(lost.acknowledged_until_ns))
    texts = [f", acknowledged between {ends[0]} s and {ends[1]} s of the run"]
    texts += [f"'{fault.text}' began at {_instant(fault.begun_ns)} s" for fault in faults]
    return "; ".join(texts)


def _instant(ns: int) -> str:
    """Seconds since the run's begin, to the millisecond."""
    return f"{ns / _NS_PER_S:,.3f}"


def lost_writes_grids(run: RunAnswer) -> tuple[Grid, ...]:
    """The first lost writes, if any."""
    sweep = run.summary.sweep
    if sweep is None or sweep.lost_writes is None:
        return ()
    table = Table("Lost writes", sweep.lost_writes.first)
    table.key("key", lambda write: write.key)
    table.word("found", lambda write: write.found)
    table.word("field", lambda write: units.whole(write.field))
    table.word("phase", lambda write: write.phase)
    table.number("written, s", lambda write: _instant(write.written_at_ns))
    table.number("acknowledged, s", lambda write: _instant(write.acknowledged_at_ns))
    shown, lost = units.whole(len(sweep.lost_writes.first)), units.whole(sweep.lost)
    note = f"The first {shown} of {lost}, in seconds since the run's begin."
    return (table.grid((f"{note} All: {run.summary.id}/{LOST_WRITES}.",)),)


def _phase_sentence(phase: PhaseSummary) -> str:
    throughput = f"Throughput is {units.estimate(phase.throughput)} ops/s"
    operations = [row for row in phase.operations if not row.part and row.count]
    most = max(operations, key=lambda row: row.count, default=None)
    if most is None:
        return f"{throughput}."
    quantiles = [(name, most.response.shown_ns(name)) for name in ("p50", "p99")]
    times = [f"{units.with_unit(ns)} at {name}" for name, ns in quantiles if ns is not None]
    if not times:
        return f"{throughput}."
    return f"{throughput}; the response time of {most.operation} is {listed(times)}."


def run_facts(run: RunAnswer) -> tuple[Fact, ...]:
    """The results of a run's counted phases."""
    summary, facts = run.summary, []
    if summary.warm_up_ms is not None:
        facts.append(Fact("Warm-up", units.with_unit(summary.warm_up_ms * 1e6)))
    facts += [fact for phase in summary.phases for fact in _phase_facts(phase)]
    facts += [Fact("Fault", _fault(effect)) for effect in summary.faults]
    if summary.sweep is not None:
        facts += _sweep_facts(summary.sweep)
    if run.imported is not None and run.imported.audit is not None:
        return tuple(audit_facts(run.imported.audit))
    # Figures of several cases are in a table.
    if run.imported is not None and len(run.imported.cases) == 1:
        figures = _case_figures(run.imported)
        single = _single_values(figures)
        chosen = (figure for figure in figures if figure.quantity in single)
        facts += [Fact(_quantity_title(one.quantity), _figure_text(one)) for one in chosen]
    return tuple(facts)


def _phase_facts(phase: PhaseSummary) -> Iterator[Fact]:
    yield Fact("Throughput", f"{units.estimate(phase.throughput)} ops/s")
    yield Fact("Runtime", units.with_unit(phase.runtime_ms * 1e6))
    if phase.rows is not None:
        yield Fact("Records", f"{units.whole(phase.rows)} returned by reads or written in batches")
    if phase.hit_ratio is not None:
        yield Fact("Hit ratio", f"{units.significant(phase.hit_ratio * 100, 4)} %")
    if phase.attempts is not None:
        yield Fact("Attempts", _attempts(phase.attempts))
    if phase.errors:
        yield Fact("Errors", counts_text(phase.errors))
    if phase.generator_lag is not None and phase.generator_lag.count:
        lag = phase.generator_lag
        times = {name: lag.shown_ns(name) for name in ("p50", "p99")}
        texts = [f"{name} {units.with_unit(ns)}" for name, ns in times.items() if ns is not None]
        yield Fact("Generator lag", ", ".join([*texts, f"{units.whole(lag.count)} reads sampled"]))
    if phase.cpu_ns_per_operation is not None:
        yield Fact("Processor", f"{units.with_unit(phase.cpu_ns_per_operation)} per operation")
    if phase.max_resident_bytes is not None:
        yield Fact("Peak memory", units.size(phase.max_resident_bytes))


def _attempts(attempts: AttemptSummary) -> str:
    more, lost = units.whole(attempts.retried), units.whole(attempts.given_up)
    mean = units.significant(attempts.per_operation)
    return f"{mean} per operation, {more} failed and repeated, {lost} operations given up"


def _fault(effect: FaultEffect) -> str:
    """The fault, the least time without service, the time to recover, and the errors."""
    outage = f"no service for at least {units.with_unit(effect.without_service_ns)}"
    texts = [outage if effect.without_service_ns else "some service in every interval"]
    if effect.recovery_ns:
        texts.append(f"80 % of the rate before again after {units.with_unit(effect.recovery_ns)}")
    elif effect.recovery_ns is not None:
        texts.append("the rate never below 80 % of that before")
    if effect.errors:
        texts.append(counts_text(effect.errors))
    return f"{effect.text}: {', '.join(texts)}"


def _sweep_facts(sweep: SweepSummary) -> Iterator[Fact]:
    counts = (
        (sweep.intact, "intact"),
        (sweep.missing, "missing though acknowledged"),
        (sweep.incomplete, "without an acknowledged field"),
        (sweep.torn, "with a torn value"),
        (sweep.stale, "with another value than acknowledged"),
        (sweep.resurrected, "back after an acknowledged removal"),
        (sweep.unread, "could not be read"),
    )
    text = ", ".join(f"{units.whole(count)} {state}" for count, state in counts if count)
    of = f" of about {units.whole(sweep.written)}" if sweep.records < sweep.written else ""
    yield Fact("Read back", f"{units.whole(sweep.records)}{of} records written: {text or 'none'}")
    if sweep.unacknowledged:
        count = units.whole(sweep.unacknowledged)
        yield Fact("Uncertain", f"{count} records hold an unacknowledged write")
    limits = "a store that outlives a killed process may still lose writes when power is cut"
    yield Fact("What it shows", limits)


def _imported_sentence(imported: ImportedRecord) -> str:
    """The source of the figures, which have no verdict."""
    cases = len(imported.cases)
    of = f" of {units.whole(cases)} cases" if cases > 1 else ""
    source = f"{origin_text(tool_name(imported))}, file {imported.origin.file}"
    return f"{units.whole(len(imported.figures))} figures{of} imported{source}: not judged."


def _imported_grids(imported: ImportedRecord) -> Iterator[Grid]:
    """The figures of the cases, then those of their operations."""
    of_cases, title = _case_figures(imported), "Cases"
    if len(imported.cases) == 1:
        single, title = _single_values(of_cases), "All operations"
        of_cases = [figure for figure in of_cases if figure.quantity not in single]
    if of_cases:
        yield _imported_grid(imported, title, of_cases)
    if of_operations := [figure for figure in imported.figures if figure.operation is not None]:
        yield _imported_grid(imported, "Operations", of_operations)


def _case_figures(imported: ImportedRecord) -> list[FigureRecord]:
    return [figure for figure in imported.figures if figure.operation is None]


def _single_values(figures: Iterable[FigureRecord]) -> set[str]:
    """Quantities with one value and no statistics."""
    figures = list(figures)
    statistics = {figure.quantity for figure in figures if figure.statistic != VALUE}
    return {figure.quantity for figure in figures} - statistics


def _imported_grid(imported: ImportedRecord, title: str, figures: Sequence[FigureRecord]) -> Grid:
    """One row per case and operation, one column per quantity, unit and statistic."""
    rows: dict[tuple[int, str | None], dict[ImportedColumn, FigureRecord]] = {}
    single = _single_values(figures)
    for figure in figures:
        column = (figure.quantity, figure.unit, figure.statistic)
        rows.setdefault((figure.case, figure.operation), {})[column] = figure
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    # Columns of a band must be adjacent.
    quantities = list(dict.fromkeys(quantity for quantity, _, _ in columns))
    columns.sort(key=lambda column: quantities.index(column[0]))

    def label(name: str, row: ImportedRow) -> str:
        return imported.cases[row[0][0]].labels.get(name, units.ABSENT)

    def value(column: ImportedColumn, row: ImportedRow) -> str:
        figure = row[1].get(column)
        return units.ABSENT if figure is None else f"{figure.value:,}"

    table = Table(title, rows.items())
    if len(imported.cases) > 1:
        for name in dict.fromkeys(name for case in imported.cases for name in case.labels):
            table.key(name.replace("_", " "), partial(label, name))
    if any(operation is not None for _, operation in rows):
        table.key("operation", lambda row: row[0][1])
    for column in columns:
        quantity, unit, statistic = column
        heading = _quantity_title(quantity)
        if quantity in single:
            table.number(f"{heading} {unit}".strip(), partial(value, column))
        else:
            band = f"{heading}, {unit}" if unit else heading
            table.number(statistic, partial(value, column), band)
    return table.grid((_ERRORS,) if any(figure.error is not None for figure in figures) else ())


def _quantity_title(quantity: str) -> str:
    return f"{quantity} time" if quantity in TIMES else quantity


def _figure_text(figure: FigureRecord) -> str:
    error = "" if figure.error is None else f" ± {figure.error:,}"
    note = "" if figure.error is None else " (standard error)"
    return f"{figure.value:,}{error} {figure.unit}".strip() + note
