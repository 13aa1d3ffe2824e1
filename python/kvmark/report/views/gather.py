"""Runs and their analysis, gathered into the answers of a report, with their provenance."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from kvmark.analysis.compare.bounds import objective_figures
from kvmark.analysis.summary import chart_data
from kvmark.analysis.summary.faults import Segment, fault_spans
from kvmark.analysis.summary.imported import Curve, imported_curves, imported_steps
from kvmark.analysis.summary.metrics import merged_times, response_quantiles
from kvmark.analysis.summary.run import quantile_curve, summarize, system_text
from kvmark.analysis.summary.servers import server_usages
from kvmark.analysis.verdict.cases import SequenceRow, sequence_rows
from kvmark.analysis.verdict.judge import Judge, Verdict, judge
from kvmark.interrupts import check
from kvmark.records import Case, ImportedRecord, Run, TimeName, by_case
from kvmark.records.case import RunEnvironment
from kvmark.report.model import units
from kvmark.report.model.answers import RunAnswer, SequenceAnswer, StoreFacts
from kvmark.report.model.page import Fact, Provenance
from kvmark.report.model.tables import escape_markdown
from kvmark.report.model.units import listed
from kvmark.report.views.sequence import repetitions
from kvmark.report.views.text_charts import TIMELINE_MARGIN

if TYPE_CHECKING:
    from kvmark.analysis.study import StudyResults

_NO_FACTS: Final = StoreFacts(None, None, None)
MOST_DRAWN: Final = 8
"""Most runs on a page that has figures for each run."""
MOST_CURVES: Final = 50
"""Most runs whose curves one figure can distinguish."""
NO_COMMIT: Final = "not recorded"
"""The commit of runs made without --commit."""
_SHORT_COMMIT: Final = 12
_DAY: Final = len("2026-11-21")
_MOST_CHARACTERS: Final = 400
_TIMES: Final[tuple[TimeName, ...]] = ("response", "service")


def run_answer(
    run: Run,
    verdict: Verdict | None = None,
    *,
    page_runs: int | None = None,
    text_width: int | None = None,
) -> RunAnswer:
    """One run; its verdict is computed unless it is given.

    ``page_runs`` is the number of runs on the page that needs figures, ``text_width`` the width of
    the terminal that needs charts; without them, the answer has neither.

    Raises:
        RecordsError: the run's files can't be read.
        KeyboardInterrupt: the user has asked to stop.
    """
    check()
    # Summary, curves and quantiles read the same histograms.
    run = run.with_histogram_cache()
    imported = run.manifest.imported
    verdict = verdict or judge(run)
    answer = (
        _imported_answer(run, imported, verdict) if imported else _measured_answer(run, verdict)
    )
    if page_runs is not None:
        answer = with_figures(answer, run, page_runs)
    if text_width is None:
        return answer
    if imported is not None:
        return replace(answer, time_steps=imported_steps(imported))
    timelines = chart_data.timelines(run, text_width - TIMELINE_MARGIN)
    return replace(answer, time_steps=chart_data.response_steps(run), timelines=timelines)


def _measured_answer(run: Run, verdict: Verdict) -> RunAnswer:
    summary, manifest = summarize(run), run.manifest
    phases = [phase for phase in manifest.engine.phases if phase.stopped_by != "skipped"]
    plan = {name: part for name, part in manifest.plan.items() if name != "seeds"}
    return RunAnswer(
        title=f"{summary.name} on {summary.system} {summary.version}".strip(),
        request=(*plan_facts(manifest.plan), *_dataset_facts(run)),
        summary=summary,
        verdict=verdict,
        phases=tuple(Segment(phase.name, phase.start_ns, phase.end_ns) for phase in phases),
        intervals=run.intervals.filter(pl.col("operation") == "TOTAL"),
        provenance=Provenance(
            facts=(
                *_facts(run),
                Fact("Seeds", _compact(manifest.plan.get("seeds", {}))),
                *(Fact(f"Server {one.name}", one.source) for one in manifest.observed),
            ),
            command=manifest.command,
            documents={
                "Plan": plan,
                "Configuration of the system": manifest.engine.system.configuration,
                "Servers": manifest.testbed,
                "Host": {name: part for name, part in manifest.host.items() if not _plain(part)},
            },
            top=origin_facts([run]),
        ),
        faults=fault_spans(run),
        around_faults=chart_data.around_faults(run, summary.faults),
        objectives=objective_figures(run, verdict),
        servers=server_usages(run),
    )


def _imported_answer(run: Run, imported: ImportedRecord, verdict: Verdict) -> RunAnswer:
    summary, manifest, origin = summarize(run), run.manifest, imported.origin
    system = f"{summary.system} {summary.version}".strip()
    on = f" on {system}" if system else ""
    whole = (pl.col("operation") == "TOTAL") & (pl.col("end_ns") > pl.col("start_ns"))
    return RunAnswer(
        title=f"{summary.name}{on}, {_made(imported)}",
        request=tuple(_imported_request(imported, system)),
        summary=summary,
        verdict=verdict,
        phases=(),
        intervals=run.intervals.filter(whole),
        provenance=Provenance(
            facts=(
                Fact("Imported", manifest.created),
                *(Fact(name, version) for name, version in manifest.versions.items()),
                Fact("File", f"{origin.file}, {units.whole(origin.size_bytes)} bytes"),
                Fact("SHA-256", origin.sha256),
                Fact("Recognised as", origin.format),
            ),
            command=manifest.command,
            documents={"Settings in the file": origin.said},
        ),
        imported=imported,
    )


def _imported_request(imported: ImportedRecord, system: str) -> Iterator[Fact]:
    yield Fact("System", system or "unknown")
    if imported.audit is None:
        yield Fact("Measured by", tool_name(imported) or "unknown")
    if len(imported.cases) == 1 and imported.cases[0].labels:
        yield Fact("Case", imported.cases[0].name)
    for name, text in imported.origin.said.items():
        short = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
        yield Fact(name.replace("_", " ").capitalize(), short)
    yield from (Fact("Note", note) for note in imported.notes)


def _made(imported: ImportedRecord) -> str:
    """How the figures came here."""
    if imported.audit is not None:
        return f"audit of {imported.audit.tool}"
    return f"imported{origin_text(imported.origin.tool)}"


def tool_name(imported: ImportedRecord) -> str:
    """The tool that measured, with its version; empty if unknown."""
    return f"{imported.origin.tool or ''} {imported.origin.version or ''}".strip()


def origin_text(tool: str | None) -> str:
    """The tool after *imported*."""
    return f" from {tool}" if tool else ""


def with_figures(answer: RunAnswer, run: Run, page_runs: int) -> RunAnswer:
    """The answer with the data of its figures on a page of this number of runs."""
    imported = answer.imported
    if page_runs > MOST_DRAWN:
        answer = replace(answer, intervals=pl.DataFrame())
    elif imported is None:
        answer = replace(
            answer,
            resources=chart_data.resource_course(run),
            failures=chart_data.failure_course(run),
            attempts=chart_data.attempt_course(run),
            hits=chart_data.hit_course(run),
            spread=chart_data.time_spread(run),
        )
    if page_runs <= MOST_CURVES:
        curves = imported_curves(imported) if imported else tuple(_run_curves(run))
        answer = replace(answer, curves=curves)
    if page_runs == 1 or imported is not None:
        return answer
    return replace(answer, response_quantiles=response_quantiles(run))


def run_answers(runs: Iterable[Run], count: int, judged: Judge = judge) -> list[RunAnswer]:
    """The answers of ``count`` runs for one page; ``judged`` returns the verdict on a run.

    Runs are read one after the other, and none stays in memory.

    Raises:
        RecordsError: a run's files can't be read.
        KeyboardInterrupt: the user has asked to stop.
    """
    cached = (run.with_histogram_cache() for run in runs)
    return [run_answer(run, judged(run), page_runs=count) for run in cached]


def _run_curves(run: Run) -> Iterator[Curve]:
    totals = [total for phase in run.counted for total in run.totals(phase.index)]
    for operation in dict.fromkeys(total.operation for total in totals if total.outcome == "ok"):
        for time in _TIMES:
            if points := quantile_curve(merged_times([run], time, operation)):
                yield Curve(operation, time, points)


def sequence_answer(runs: Sequence[Run], judged: Judge = judge) -> SequenceAnswer:
    """The YCSB sequence of all its runs; ``judged`` returns the verdict on a run.

    Raises:
        ValueError: there is no run.
        RecordsError: a run's files can't be read.
    """
    if not runs:
        raise ValueError("a sequence needs at least one run")
    rows = sequence_rows(runs, judged)
    stores = dict.fromkeys(row.case.store for row in rows)
    facts, first = _store_facts(runs), runs[0].manifest
    cases = {case.title: of_case for case, of_case in by_case(runs).items()}
    plans = {
        f"Plan of {title}, first repetition": of_case[0].manifest.plan
        for title, of_case in cases.items()
    }
    return SequenceAnswer(
        title=f"YCSB on {', '.join(stores)}",
        question=_sequence_question(rows, first.plan),
        rows=rows,
        curves=tuple(_sequence_curves(rows)),
        provenance=Provenance(
            facts=(
                *_facts(runs[0]),
                Fact("Runs", f"{units.whole(len(runs))}, each with own seeds"),
            ),
            command=first.command,
            documents={
                **plans,
                "Configuration of the system": first.engine.system.configuration,
                "Servers": first.testbed,
                "Host": first.host,
                "Runs of each case": {
                    title: [run.id for run in of_case] for title, of_case in cases.items()
                },
            },
            top=origin_facts(runs),
        ),
        caution=unequal_durability(facts),
        stores=facts,
    )


def _store_facts(runs: Sequence[Run]) -> Mapping[str, StoreFacts]:
    """The facts of each store, as far as there are some."""
    by_store: dict[str, list[Run]] = {}
    for run in runs:
        by_store.setdefault(run.manifest.engine.system.system, []).append(run)
    facts = {store: _facts_of_store(own) for store, own in by_store.items()}
    if len(facts) > 1:
        # One process measures all: peaks of older records have memory of the other engines.
        facts = {store: replace(one, peak_memory_bytes=None) for store, one in facts.items()}
    return {store: one for store, one in facts.items() if one != _NO_FACTS}


def _facts_of_store(runs: Sequence[Run]) -> StoreFacts:
    engines = [run.manifest.engine for run in runs]
    durabilities = {engine.system.configuration.get("durability") for engine in engines}
    embedded = [one for one in engines if one.capabilities and one.capabilities.embedded]
    phases = [phase for engine in embedded for phase in engine.phases]
    counters = [phase.statistics.get("disk_bytes") for phase in phases]
    disk_bytes = [counter.after for counter in counters if counter and counter.after]
    memory_bytes = [phase.process.max_resident_bytes or 0 for phase in phases]
    return StoreFacts(
        durability=durabilities.pop() if len(durabilities) == 1 else None,
        disk_bytes=int(max(disk_bytes, default=0)) or None,
        peak_memory_bytes=max(memory_bytes, default=0) or None,
    )


def unequal_durability(stores: Mapping[str, StoreFacts]) -> str:
    """A sentence on stores whose acknowledged writes survive different failures, if they do."""
    levels = {store: facts.durability for store, facts in stores.items() if facts.durability}
    if len(set(levels.values())) < 2:
        return ""
    named = listed(f"{level} on {store}" for store, level in levels.items())
    return f"The durability of writes differs, and their speed with it: {named}."


def _sequence_question(rows: Sequence[SequenceRow], plan: Mapping[str, Any]) -> str:
    """The cases of a sequence and their numbers of repetitions."""
    workloads = listed(dict.fromkeys(row.case.workload for row in rows))
    sizes = listed(units.whole(n) for n in sorted({row.case.records for row in rows}))
    counts, _ = repetitions(rows)
    times = "once" if counts == "1" else f"{counts} times"
    load = "; ".join(fact.text for fact in _load_facts(plan))
    return f"{workloads} with {sizes} records; {load}; each case {times}."


def _sequence_curves(rows: Sequence[SequenceRow]) -> Iterator[Curve]:
    """The curves of each case at its largest number of records."""
    sizes: dict[Case, list[SequenceRow]] = {}
    for row in rows:
        sizes.setdefault(replace(row.case, records=0), []).append(row)
    several_stores = len({row.case.store for row in rows}) > 1
    for case, of_case in sizes.items():
        row = max(of_case, key=lambda one: one.case.records)
        panel = (case if several_stores else replace(case, store="")).title
        counts = (row.figures.response_counts, row.figures.service_counts)
        curves = zip(_TIMES, map(quantile_curve, counts), strict=True)
        yield from (Curve(panel, time, points) for time, points in curves if points)


def study_provenance(
    study: str, definition: Mapping[str, Any], results: StudyResults
) -> Provenance:
    """The first run as an example of all, and the runs of each case."""
    runs = results.runs
    facts = [Fact("Study", study), Fact("Runs", units.whole(len(runs)))]
    ids = {row.title: list(row.figures.runs) for row in results.rows if row.figures}
    documents: dict[str, object] = {"Study": dict(definition), "Runs of each case": ids}
    if not runs:
        return Provenance(tuple(facts), (), documents)
    first = runs[0].manifest
    facts += [
        Fact("System", "; ".join(dict.fromkeys(map(_durable_system, runs)))),
        Fact("Begun", min(run.manifest.created for run in runs)),
        *(Fact(name, version) for name, version in first.versions.items()),
        Fact("Host", _compact(first.host)),
    ]
    documents |= {
        "Plan of the first case": first.plan,
        "Configuration of the system": first.engine.system.configuration,
        "Host": first.host,
        "Servers of the first case": first.testbed,
    }
    return Provenance(tuple(facts), first.command, documents, origin_facts(runs))


def origin_facts(runs: Sequence[Run]) -> tuple[Fact, ...]:
    """Date, commit, machine, system and servers; empty for imported runs."""
    runs = [run for run in runs if run.manifest.imported is None]
    if not runs:
        return ()
    days = sorted({run.manifest.created[:_DAY] for run in runs})
    return (
        Fact("Measured", days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"),
        Fact("Commit", ", ".join(_commits(runs)) or NO_COMMIT),
        Fact("Machine", "; ".join(dict.fromkeys(machine_text(run.manifest.host) for run in runs))),
        Fact("System", "; ".join(dict.fromkeys(map(_durable_system, runs)))),
        *_server_settings(runs),
    )


def origin_sentence(runs: Sequence[Run]) -> str:
    """The runs of a block, their machine and their command, as Markdown."""
    first, last = runs[0], runs[-1]
    ids = f"run {first.id}" if len(runs) == 1 else f"{len(runs)} runs, {first.id} to {last.id}"
    versions = dict.fromkeys(run.manifest.versions.get("kvmark", "unknown") for run in runs)
    commits = [f"commit {', '.join(_commits(runs))}"] if _commits(runs) else []
    parts = [
        f"From {ids}", listed(dict.fromkeys(map(system_text, runs))), *commits,
        f"kvmark {', '.join(versions)}", machine_text(last.manifest.host),
    ]  # fmt: skip
    commands = dict.fromkeys(shlex.join(run.manifest.command) for run in runs)
    made_by = "" if len(commands) > 1 else f" Made by `{next(iter(commands))}`."
    return f"{escape_markdown('; '.join(parts))}.{made_by}"


def _server_settings(runs: Sequence[Run]) -> Iterator[Fact]:
    """The servers that kvmark started, and the settings that differ between runs."""
    environments = [RunEnvironment.of(run.manifest) for run in runs]
    texts = list(dict.fromkeys(one.server_words for one in environments if one.servers))
    if len(texts) == 1:
        yield Fact("Servers", texts[0])
    elif texts:
        different = []
        for place in dict.fromkeys(place for one in environments for place in one.servers):
            levels = dict.fromkeys(one.servers.get(place, "unknown") for one in environments)
            if len(levels) > 1:
                different.append(f"{place.removeprefix('servers.')} {', or '.join(levels)}")
        yield Fact("Servers", f"not the same for all runs: {'; '.join(different)}")


def _durable_system(run: Run) -> str:
    """The system, its version and the durability of its writes, as far as it is known."""
    durability = run.manifest.engine.system.configuration.get("durability")
    return f"{system_text(run)}, durability {durability}" if durability else system_text(run)


def _commits(runs: Sequence[Run]) -> list[str]:
    commits = dict.fromkeys(run.manifest.commit for run in runs)
    return [commit[:_SHORT_COMMIT] for commit in commits if commit]


def machine_text(host: Mapping[str, Any]) -> str:
    """A machine's cores, memory and kernel."""
    parts = [f"{host.get('cores', '?')} cores of {host.get('processor', 'an unknown processor')}"]
    if isinstance(host.get("memory_bytes"), int):
        parts.append(units.size(host["memory_bytes"]))
    if host.get("kernel"):
        parts.append(f"kernel {host['kernel']}")
    return ", ".join(parts)


def _facts(run: Run) -> Iterator[Fact]:
    manifest, engine = run.manifest, run.manifest.engine
    yield Fact("System", _durable_system(run))
    yield Fact("Begun", manifest.created)
    yield from (Fact(name, version) for name, version in manifest.versions.items())
    yield Fact("Host", _compact(manifest.host))
    if engine.clock is not None:
        stamp, step = units.with_unit(engine.clock.stamp_ns), engine.clock.resolution_ns
        yield Fact("Clock", f"{engine.clock.source}, {stamp} a stamp, step {units.with_unit(step)}")
    if manifest.closed_by == "recovered":
        yield Fact("Closed", "recovered from the logs of a killed run")


def _plain(value: object) -> bool:
    return isinstance(value, str | int | float)


def _compact(values: Mapping[str, Any]) -> str:
    """The plain values of a mapping, without nested ones."""
    plain = {name: value for name, value in values.items() if _plain(value)}
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in plain.items())


def plan_facts(plan: Mapping[str, Any]) -> tuple[Fact, ...]:
    """The workload, load and phases of a plan."""
    phases = ", ".join(map(_phase, plan.get("phases", ())))
    facts = [Fact("Workload", _workload(plan)), *_load_facts(plan), Fact("Phases", phases)]
    if plan.get("timeout_ns"):
        facts.append(Fact("Timeout", units.with_unit(plan["timeout_ns"])))
    return tuple(facts)


def _dataset_facts(run: Run) -> Iterator[Fact]:
    """The saved dataset with which the servers began, if any."""
    dataset = RunEnvironment.of(run.manifest).servers.get("servers.dataset", "none")
    if dataset != "none":
        yield Fact("Dataset", f"the servers began with {dataset}")


def _workload(plan: Mapping[str, Any]) -> str:
    dataset = plan.get("dataset", {})
    if dataset.get("values") == "sized":
        return f"{plan.get('name', '')}, keys and values as long as they were"
    records = f"{plan.get('name', '')}, {units.whole(dataset.get('count'))} records"
    count, length = _fields(plan)
    values = dataset.get("values")
    size = _values(values) if isinstance(values, Mapping) else ""
    if length and "lines" not in (values or ()):
        size = f" of {length} bytes{size}"
    return f"{records} of {count} {'field' if count == 1 else 'fields'}{size}" if count else records


def _values(values: Mapping[str, Any]) -> str:
    """Values that compress, or come from a file, with the number that distinguishes it."""
    if "compressible" in values:
        return f", {values['compressible']['share']:.4g} of their bytes compressible"
    lines = values["lines"]
    column = f", column {lines['column']}" if lines["column"] else ""
    return f" from {lines['name']}{column} ({units.whole(lines['count'])} lines)"


def _fields(plan: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """The number of fields of a record, and their length if all have the same."""
    rows = [statement["rows"] for statement in plan.get("statements", ()) if statement.get("rows")]
    if not rows:
        fields = plan.get("dataset", {}).get("fields", {})
        return fields.get("count"), fields.get("length", {}).get("size")
    # Statements that insert rows have values; those that read have none.
    values = max((row["values"] for row in rows), key=len)
    lengths = {value["size"][edge] for value in values for edge in ("min", "max")}
    return len(values) or None, lengths.pop() if len(lengths) == 1 else None


def _load_facts(plan: Mapping[str, Any]) -> Iterator[Fact]:
    """The load of each measured group."""
    groups = list(plan.get("groups", ()))
    phases = [phase for phase in plan.get("phases", ()) if phase.get("name") == "measure"]
    active = {part["group"] for phase in phases for part in phase.get("groups", ())}
    measured = [group for index, group in enumerate(groups) if index in active] or groups
    for group in measured:
        label = "Load" if len(measured) == 1 else f"Load of {group.get('name', '')}"
        attempts = (group.get("retry") or {}).get("attempts")
        yield Fact(label, _load(group) + (f", at most {attempts} attempts" if attempts else ""))


def _load(group: Mapping[str, Any]) -> str:
    count, arrival = group.get("clients", 0), group.get("arrival", {})
    clients = f"{units.whole(count)} {'client' if count == 1 else 'clients'}"
    if arrival.get("process") == "closed":
        think_ns = arrival.get("think_time_ns", 0)
        pause = f", think time {units.with_unit(think_ns)}" if think_ns else ""
        return f"closed model, {clients}{pause}"
    if arrival.get("process") == "tape":
        speed, order = arrival.get("speed"), arrival.get("order")
        pace = "as fast as clients go" if speed is None else f"at {speed:g} times its speed"
        kept = "no order kept" if order == "none" else f"order kept within each {order}"
        notes = "".join(f"; {note}" for note in arrival.get("told", ()))
        return f"{arrival.get('trace')} {pace}, {clients} at most in flight, {kept}{notes}"
    rate = _rate(arrival.get("rates") or [{}])
    process = str(arrival.get("process", ""))
    law = {"constant": "evenly spaced", "poisson": "Poisson arrivals"}.get(process, process)
    return f"open model, {rate} ops/s, {law}, at most {clients} in flight"


def _rate(points: Sequence[Mapping[str, Any]]) -> str:
    """One rate, the two of a ramp, or the bounds of a curve."""
    if len(points) <= 2:
        return " to ".join(dict.fromkeys(units.significant(one.get("rate")) for one in points))
    low, high = (units.significant(pick(one["rate"] for one in points)) for pick in (min, max))
    return f"a curve between {low} and {high}"


def _phase(phase: Mapping[str, Any]) -> str:
    name = str(phase.get("name", "")).replace("_", "-")
    operations = sum(active.get("operations") or 0 for active in phase.get("groups", ()))
    ends = []
    if operations:
        ends.append(f"{units.whole(operations)} operations")
    if phase.get("until"):
        ends.append(_end_rule(phase["until"]))
    if phase.get("duration_ns"):
        most = " at most" if ends else ""
        ends.append(f"{units.with_unit(phase['duration_ns'])}{most}")
    return f"{name} {' or '.join(ends)}".strip()


def _end_rule(until: Mapping[str, Any]) -> str:
    """The rule that ends a phase before its time and operations."""
    if until.get("rule") == "stationary":
        return "until throughput is steady"
    bound = until.get("bound", 0)
    if until.get("rule") == "cassandra-stress":
        return f"until the relative standard error is {bound:g}"
    return f"until throughput is known to ± {100 * bound:g} %"
