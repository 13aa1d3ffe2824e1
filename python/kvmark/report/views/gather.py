"""Runs and their analysis, gathered into the answers that a report draws, with their origin."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import polars as pl

from kvmark.analysis import (
    YCSB_SOURCE,
    SequenceRow,
    Verdict,
    around_faults,
    failure_course,
    fault_spans,
    judge,
    merged_times,
    quantile_curve,
    resource_course,
    response_steps,
    summarize,
    time_spread,
    timelines,
    ycsb_sequence,
)
from kvmark.analysis.compare.metrics import response_quantiles
from kvmark.analysis.study import StudyRow
from kvmark.analysis.verdict.judge import Judge
from kvmark.interrupts import check
from kvmark.records import Case, Run, TimeName, by_case
from kvmark.records.case import RunEnvironment
from kvmark.report.format import units
from kvmark.report.format.grid import escape_markdown
from kvmark.report.model.answers import (
    MOST_CURVES,
    MOST_DRAWN,
    Curve,
    Fact,
    PhaseSpan,
    Provenance,
    RunAnswer,
    RunCourse,
    SequenceAnswer,
)
from kvmark.report.views import plan_words as asked
from kvmark.report.views.imported import imported_answer
from kvmark.report.views.plan_words import listed

NO_COMMIT = "not recorded"
"""What stands for the commit of runs that were made without --commit."""
_SHORT_COMMIT = 12
_DAY = len("2026-11-21")
_TIMES: tuple[TimeName, ...] = ("response", "service")


def origin_facts(runs: Sequence[Run]) -> tuple[Fact, ...]:
    """When, at which commit, on which machine; nothing of runs that others measured."""
    own = [run for run in runs if run.manifest.imported is None]
    if not own:
        return ()
    days = sorted({run.manifest.created[:_DAY] for run in own})
    return (
        Fact("Measured", days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"),
        Fact("Commit", ", ".join(_commits(own)) or NO_COMMIT),
        Fact("Machine", "; ".join(dict.fromkeys(map(_machine, own)))),
        Fact("System", ", ".join(_systems(own))),
        *_server_settings(own),
    )


def _server_settings(runs: Sequence[Run]) -> Iterator[Fact]:
    """The servers that kvmark started; where they differ between runs, each place that differs."""
    known = [RunEnvironment.of(run.manifest) for run in runs]
    words = list(dict.fromkeys(one.server_words for one in known if one.servers))
    if len(words) == 1:
        yield Fact("Servers", words[0])
    elif words:
        places = dict.fromkeys(place for one in known for place in one.servers)
        levels = {place: list(dict.fromkeys(one.servers.get(place, "unknown") for one in known))
                  for place in places}  # fmt: skip
        told = [f"{place.removeprefix('servers.')} {', or '.join(texts)}"
                for place, texts in levels.items() if len(texts) > 1]  # fmt: skip
        yield Fact("Servers", f"not the same for all runs: {'; '.join(told)}")


def origin_sentence(runs: Sequence[Run]) -> str:
    """Which runs a block is made of, where they ran and how they are made again, as Markdown."""
    first, last = runs[0], runs[-1]
    which = f"run {first.id}" if len(runs) == 1 else f"{len(runs)} runs, {first.id} to {last.id}"
    versions = dict.fromkeys(run.manifest.versions.get("kvmark", "unknown") for run in runs)
    commits = [f"commit {', '.join(_commits(runs))}"] if any(_commits(runs)) else []
    told = [
        f"From {which}", listed(_systems(runs)), *commits, f"kvmark {', '.join(versions)}",
        _machine(last),
    ]  # fmt: skip
    commands = dict.fromkeys(shlex.join(run.manifest.command) for run in runs)
    again = "" if len(commands) > 1 else f" Made by `{next(iter(commands))}`."
    return f"{escape_markdown('; '.join(told))}.{again}"


def _systems(runs: Sequence[Run]) -> list[str]:
    systems = (run.manifest.engine.system for run in runs)
    return list(dict.fromkeys(f"{one.system} {one.version}".strip() for one in systems))


def _commits(runs: Sequence[Run]) -> list[str]:
    commits = dict.fromkeys(run.manifest.commit for run in runs)
    return [one[:_SHORT_COMMIT] for one in commits if one]


def _machine(run: Run) -> str:
    return ", ".join(machine_words(run.manifest.host))


def machine_words(host: Mapping[str, Any]) -> Iterator[str]:
    """A machine's cores, memory and kernel."""
    yield f"{host.get('cores', '?')} cores of {host.get('processor', 'an unknown processor')}"
    memory, kernel = host.get("memory_bytes"), host.get("kernel")
    if isinstance(memory, int):
        yield units.size(memory)
    if kernel:
        yield f"kernel {kernel}"


def sequence_answer(runs: Sequence[Run], judged: Judge = judge) -> SequenceAnswer:
    """The YCSB sequence from all its runs; ``judged`` gives the verdict on each.

    Raises:
        ValueError: there is no run.
        RecordsError: a run's files can't be read.
    """
    if not runs:
        raise ValueError("a sequence needs at least one run")
    rows = ycsb_sequence(runs, judged)
    stores = dict.fromkeys(row.case.store for row in rows)
    return SequenceAnswer(
        title=f"YCSB on {', '.join(stores)}",
        asked=asked.of_sequence(rows, runs[0].manifest.plan),
        rows=rows,
        curves=tuple(_sequence_curves(rows)),
        provenance=_sequence_provenance(runs),
        published_source=YCSB_SOURCE,
    )


def run_answer(run: Run, verdict: Verdict | None = None) -> RunAnswer:
    """One run; its verdict is computed unless it is given.

    Raises:
        RecordsError: the run's files can't be read.
        KeyboardInterrupt: the user has asked to stop.
    """
    check()
    # Summary, curves and quantiles read the same histograms.
    run = run.with_histogram_cache()
    manifest = run.manifest
    if manifest.imported is not None:
        return imported_answer(run, manifest.imported, verdict)
    summary = summarize(run)
    phases = [phase for phase in manifest.engine.phases if phase.stopped_by != "skipped"]
    return RunAnswer(
        title=f"{summary.name} on {summary.system} {summary.version}".strip(),
        asked=asked.of_plan(manifest.plan),
        summary=summary,
        verdict=verdict or judge(run),
        phases=tuple(PhaseSpan(phase.name, phase.start_ns, phase.end_ns) for phase in phases),
        intervals=run.intervals.filter(pl.col("operation") == "TOTAL"),
        provenance=_run_provenance(run),
        faults=fault_spans(run),
        around_faults=around_faults(run, summary.faults),
        course=cache(partial(_course, run)),
        curves=cache(lambda: tuple(_run_curves(run))),
        time_steps=partial(response_steps, run),
        timelines=partial(timelines, run),
        response_quantiles=cache(partial(response_quantiles, run)),
    )


def run_answers(runs: Iterable[Run], count: int, judged: Judge = judge) -> list[RunAnswer]:
    """The answers of ``count`` runs for one page; ``judged`` gives the verdict on each.

    Many runs are read one after the other, and none stays in memory.

    Raises:
        RecordsError: a run's files can't be read.
        KeyboardInterrupt: the user has asked to stop.
    """
    cached = (run.with_histogram_cache() for run in runs)
    answers = (run_answer(run, judged(run)) for run in cached)
    if count <= MOST_DRAWN:
        return list(answers)
    return [_detach(answer, curves=count <= MOST_CURVES) for answer in answers]


def _detach(answer: RunAnswer, *, curves: bool) -> RunAnswer:
    """The answer with what a page of many runs shows, without references to the run."""
    quantiles, drawn = answer.response_quantiles(), answer.curves() if curves else ()
    return replace(
        answer,
        intervals=pl.DataFrame(),
        response_quantiles=lambda: quantiles,
        curves=lambda: drawn,
        course=RunCourse,
        time_steps=lambda: None,
        timelines=lambda _: (),
    )


def _sequence_curves(rows: Sequence[SequenceRow]) -> Iterable[Curve]:
    """The curves of each case at its largest number of records."""
    largest: dict[Case, SequenceRow] = {}
    for row in rows:
        key = replace(row.case, records=0)
        if key not in largest or largest[key].case.records < row.case.records:
            largest[key] = row
    several_stores = len({row.case.store for row in rows}) > 1
    for case, row in largest.items():
        panel = (case if several_stores else replace(case, store="")).title
        counts = (row.figures.response_counts, row.figures.service_counts)
        curves = zip(_TIMES, map(quantile_curve, counts), strict=True)
        yield from (Curve(panel, time, points) for time, points in curves if points)


def _course(run: Run) -> RunCourse:
    return RunCourse(resource_course(run), failure_course(run), time_spread(run))


def _run_curves(run: Run) -> Iterable[Curve]:
    totals = [total for phase in run.counted for total in run.totals(phase.index)]
    operations = dict.fromkeys(total.operation for total in totals if total.outcome == "ok")
    for operation in operations:
        for time in _TIMES:
            points = quantile_curve(merged_times([run], time, operation))
            if points:
                yield Curve(operation, time, points)


def _run_provenance(run: Run) -> Provenance:
    return Provenance(
        facts=(*_facts(run), Fact("Seeds", _compact(run.manifest.plan.get("seeds", {})))),
        command=run.manifest.command,
        documents={
            # What differs from run to run is a fact.
            "Plan": {key: part for key, part in run.manifest.plan.items() if key != "seeds"},
            "Configuration of the system": run.manifest.engine.system.configuration,
            **_servers(run),
            "Host": {key: part for key, part in run.manifest.host.items() if not _plain(part)},
        },
        top=origin_facts([run]),
    )


def _sequence_provenance(runs: Sequence[Run]) -> Provenance:
    """What all runs have in common from the first of them, and one plan per case."""
    first = runs[0].manifest
    cases = {case.title: same for case, same in by_case(runs).items()}
    plans = {
        f"Plan of {title}, first repetition": same[0].manifest.plan for title, same in cases.items()
    }
    return Provenance(
        facts=(*_facts(runs[0]), Fact("Runs", f"{units.whole(len(runs))}, each with own seeds")),
        command=first.command,
        documents={
            **plans,
            "Configuration of the system": first.engine.system.configuration,
            **_servers(runs[0]),
            "Host": first.host,
            "Runs of each case": {title: [run.id for run in same] for title, same in cases.items()},
        },
        top=origin_facts(runs),
    )


def _servers(run: Run) -> Mapping[str, object]:
    """What is known of the servers, where there are any."""
    return {"Servers": run.manifest.testbed} if run.manifest.testbed else {}


def _facts(run: Run) -> Iterable[Fact]:
    manifest, engine = run.manifest, run.manifest.engine
    yield Fact("System", f"{engine.system.system} {engine.system.version}")
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
    """The plain values of a mapping; what is nested stands in a document of its own."""
    plain = {name: value for name, value in values.items() if _plain(value)}
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in plain.items())


def study_provenance(
    study: str, definition: Mapping[str, Any], rows: Sequence[StudyRow], runs: Sequence[Run]
) -> Provenance:
    """What all runs have in common from the first of them, and the runs of each case."""
    ids = {row.title: list(row.figures.runs) for row in rows if row.figures}
    documents: dict[str, object] = {"Study": dict(definition), "Runs of each case": ids}
    if runs:
        first = runs[0].manifest
        documents |= {
            "Plan of the first case": first.plan,
            "Configuration of the system": first.engine.system.configuration,
            "Host": first.host,
        }
        if first.testbed:
            documents["Servers of the first case"] = first.testbed
    command = runs[0].manifest.command if runs else ()
    return Provenance(tuple(_study_facts(study, runs)), command, documents, origin_facts(runs))


def _study_facts(study: str, runs: Sequence[Run]) -> Iterable[Fact]:
    yield Fact("Study", study)
    yield Fact("Runs", units.whole(len(runs)))
    if not runs:
        return
    systems = (run.manifest.engine.system for run in runs)
    named = dict.fromkeys(f"{one.system} {one.version}".strip() for one in systems)
    yield Fact("System", ", ".join(named))
    yield Fact("Begun", min(run.manifest.created for run in runs))
    yield from (Fact(name, version) for name, version in runs[0].manifest.versions.items())
    plain = (
        f"{name.replace('_', ' ')} {value}"
        for name, value in runs[0].manifest.host.items()
        if isinstance(value, str | int | float)
    )
    yield Fact("Host", ", ".join(plain))
