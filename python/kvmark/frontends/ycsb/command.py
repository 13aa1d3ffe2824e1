"""`kvmark ycsb`: the YCSB sequence, with YCSB's own properties and flags."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kvmark.cli import options
from kvmark.cli.experiment import execute_design, open_journal
from kvmark.cli.options import ExperimentOptions
from kvmark.cli.output import print_answer, print_json, tell_report, terminal_width, write_report
from kvmark.cli.session import named_system
from kvmark.errors import AnswerIsNo, SpecError
from kvmark.frontends.ycsb import options as own
from kvmark.outputs import check_output
from kvmark.spec.url import SystemName, SystemUrl

if TYPE_CHECKING:
    from kvmark.experiment.journal import Journal
    from kvmark.frontends.ycsb.rounds import Course
    from kvmark.frontends.ycsb.sequence import YcsbSequence
    from kvmark.frontends.ycsb.steps import Repeating, YcsbStudy
    from kvmark.frontends.ycsb.workloads import YcsbProperties
    from kvmark.records import Records, Run
    from kvmark.run.existing import DatasetClaim, OnExisting

PUBLISHED_RECORDS: Final = (1000, 3000, 6000, 10000)
BUDGET_S: Final = 600.0
"""Who starts a sequence without a word waits for it."""


def ycsb(
    system: options.System = None,
    records: own.Sizes = None,
    operations: own.StepOperations = None,
    workloads: own.Workloads = None,
    clients: own.Threads = None,
    target: own.Targets = None,
    property_files: own.PropertyFiles = None,
    properties: own.Properties = None,
    load: own.OnlyLoad = False,
    transactions: own.OnlyTransactions = False,
    status: own.Status = False,
    label: own.Label = None,
    database: own.Database = None,
    on_existing: options.OnExisting = "refuse",
    repetitions: own.Repetitions = None,
    budget: own.Budget = None,
    duration: options.Duration = None,
    seed: options.Seed = 1,
    interval: own.StepInterval = None,
    timeout: options.Timeout = None,
    pin: options.Pin = None,
    report: own.SequenceReport = Path("kvmark-ycsb.html"),
    *,
    shared: ExperimentOptions,
) -> None:
    """Runs YCSB's sequence of workloads and prints its table."""
    from kvmark.frontends.ycsb.properties import parse_assignment, read_properties
    from kvmark.frontends.ycsb.sequence import YcsbSequence
    from kvmark.frontends.ycsb.steps import YcsbStudy
    from kvmark.frontends.ycsb.workloads import flag_properties, read_ycsb
    from kvmark.run.existing import make_room

    flags = flag_properties(
        db=database, label=label, load=load, transactions=transactions, status=status
    )
    files = [read_properties(path) for path in property_files or ()]
    asked = read_ycsb(files, [*map(parse_assignment, properties or ()), *flags])
    sizes = _sizes(records, asked)
    said = {"duration_ns": duration, "interval_ns": interval, "timeout_ns": timeout}
    more: dict[str, Any] = {"clients": clients, "pin": pin and tuple(pin), **said}
    study = YcsbStudy(
        system=named_system(system or SystemName("rocksdb:scratch")),
        properties=asked,
        records=sizes,
        operations=operations,
        workloads=workloads or _steps(asked, load=load, own=transactions or bool(property_files)),
        targets=target or (None,),
        repeating=_repeating(repetitions, budget, once=not asked.dotransactions),
        seed=seed,
        more={name: value for name, value in more.items() if value is not None},
    )
    study = _without_lacking(study) if workloads is None else study
    study.check()
    shared = replace(shared, tags=(*shared.tags, *([asked.label] if asked.label else ())))
    if report is not None:
        check_output(report, "report: ")
    with _its_own(study, shared.open_records()) if system is None else nullcontext(study) as study:
        sequence = YcsbSequence(study=study, system=str(system or "rocksdb:scratch"))
        journal = open_journal(sequence, shared) if shared.resume else None
        if journal is None:
            _check_existing(study, on_existing)
            journal = open_journal(sequence, shared)
        # What the sequence made itself, in this very process, needs no proof.
        choice: OnExisting = "remove" if system is None else on_existing
        sequence.prepare = partial(make_room, study.system, choice, _claim(study, journal))
        _carry(sequence, shared, journal, report)


@contextmanager
def _its_own(study: YcsbStudy, records: Records) -> Iterator[YcsbStudy]:
    """The study on a database that is gone afterwards."""
    from kvmark.testbed.rocksdb import scratch_folder

    with scratch_folder(records.root) as folder:
        path = str(folder / "db")
        system = SystemUrl("rocksdb", {"path": path}, f"rocksdb:{path}")
        yield replace(study, system=system)


def _check_existing(study: YcsbStudy, on_existing: OnExisting) -> None:
    """Refuses a system that is to be loaded and holds records.

    Raises:
        UsageError: it holds some, and the user doesn't say what becomes of them.
    """
    from kvmark.run.existing import check_existing

    if any(step.fresh for step in study.first()):
        check_existing(study.system, on_existing)


def _claim(study: YcsbStudy, journal: Journal) -> DatasetClaim:
    """By what the sequence recognises its records."""
    from kvmark.plan.compile import compile_run
    from kvmark.plan.names import KeyNames, key_names
    from kvmark.run.existing import DatasetClaim

    def names() -> KeyNames:
        return key_names(compile_run(study.spec(one, one.records)) for one in study.first())

    return DatasetClaim(journal.claim(), names)


def _carry(
    sequence: YcsbSequence, shared: ExperimentOptions, journal: Journal, report: Path | None
) -> None:
    """Carries out every step. What ended before one that failed is closed all the same."""
    from kvmark.experiment.judging import close_and_judge
    from kvmark.frontends.ycsb.progress import Teller

    sequence.watcher = Teller(sequence, journal.records).tell
    with execute_design(sequence, shared, journal) as problem:
        runs = [one.run for one in sequence.outcomes if one.run is not None]
        closed = [close_and_judge(journal.records, run) for run in runs]
        if problem is not None:
            raise problem
        course = sequence.rounds.course()
        _answer([one.run for one in closed], course, report, json=shared.json)


def _answer(runs: Sequence[Run], course: Course, report: Path | None, *, json: bool) -> None:
    """Prints the table of a sequence.

    Raises:
        AnswerIsNo: a case is INVALID.
        RunError: the report can't be written.
    """
    from kvmark.analysis import Judgement
    from kvmark.frontends.ycsb.progress import said
    from kvmark.report.format.terminal import sequence_text
    from kvmark.report.views.gather import sequence_answer

    told = said(course, [run.manifest for run in runs])
    answer = replace(sequence_answer(runs), said=told)
    if json:
        source, ids = answer.published_source, [run.id for run in runs]
        common = {"published_source": source, "runs": ids, "report": report}
        print_json("sequence", {"rows": answer.rows, **common, "repetitions": course, "said": told})
    else:
        print_answer(sequence_text(answer, terminal_width()))
    if report is not None:
        write_report(lambda page: page.sequence_page(answer), report)
        if not json:
            tell_report(report)
    rows = answer.rows
    invalid = sum(row.figures.verdict.judgement is Judgement.INVALID for row in rows)
    if invalid:
        raise AnswerIsNo(f"{invalid} of {len(rows)} cases are INVALID, for the reasons above")


def _without_lacking(study: YcsbStudy) -> YcsbStudy:
    """The study without what its system can't carry out, which is told."""
    lacking = study.lacking()
    for workload, kind in lacking.items():
        sentence = f"{workload} is left out: {study.system.driver} has no {kind} operations"
        print(sentence, file=sys.stderr)
    left = tuple(each for each in study.workloads if each not in lacking)
    return replace(study, workloads=left) if lacking else study


def _steps(asked: YcsbProperties, *, load: bool, own: bool) -> tuple[str, ...]:
    """The steps that YCSB's flags mean, or the file's own transactions, or the sequence."""
    from kvmark.frontends.ycsb.steps import SEQUENCE

    if load or not asked.dotransactions:
        return ("load",)
    if "dotransactions" in asked.given:
        return ("run",)
    return ("load", "run") if own else SEQUENCE


def _sizes(records: tuple[int, ...] | None, asked: YcsbProperties) -> tuple[int, ...]:
    if records is None:
        return PUBLISHED_RECORDS if asked.recordcount is None else (asked.recordcount,)
    if 0 in records:
        raise SpecError("records: must be at least 1, not 0")
    return records


def _repeating(repetitions: int | None, budget_s: float | None, *, once: bool) -> Repeating:
    """How often each case is run; `once` for a load by YCSB's own word, which is to leave data."""
    from kvmark.frontends.ycsb.steps import Repeating

    if repetitions is None and once:
        repetitions = 1
    if repetitions is None:
        return Repeating(budget_s=BUDGET_S if budget_s is None else budget_s)
    if repetitions < 1:
        raise SpecError(f"repetitions: must be at least 1, not {repetitions}")
    budget_s = math.inf if budget_s is None else budget_s
    return Repeating(repetitions, repetitions, None, budget_s)
