"""`kvmark ycsb`: the YCSB sequence, with YCSB's own properties and flags."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kvmark.cli import options
from kvmark.cli.command_line import command_line
from kvmark.cli.output import print_answer, print_json, tell_report, terminal_width, write_report
from kvmark.cli.session import asked_fleet, session
from kvmark.cli.system import named_system
from kvmark.errors import AnswerIsNo, Interrupted, SpecError
from kvmark.spec.url import SystemName, SystemUrl

if TYPE_CHECKING:
    from kvmark.experiment.designs.sequence.rounds import Course, Rounds
    from kvmark.experiment.designs.sequence.ycsb import Repeating, Step, YcsbStudy
    from kvmark.records import Records, RunFolder
    from kvmark.run.execution import Carried
    from kvmark.run.existing import OnExisting
    from kvmark.run.setting import Setting
    from kvmark.spec.run import RunSpec
    from kvmark.spec.ycsb import YcsbProperties

__all__ = ["ycsb"]

PUBLISHED_RECORDS: Final = (1000, 3000, 6000, 10000)
BUDGET_S: Final = 600.0
"""Who starts a sequence without a word waits for it."""


def ycsb(
    system: options.System = None,
    records: options.Sizes = None,
    operations: options.StepOperations = None,
    workloads: options.Workloads = None,
    clients: options.Threads = None,
    target: options.Targets = None,
    property_files: options.PropertyFiles = None,
    properties: options.Properties = None,
    load: options.OnlyLoad = False,
    transactions: options.OnlyTransactions = False,
    status: options.Status = False,
    label: options.Label = None,
    database: options.Database = None,
    on_existing: options.OnExisting = "refuse",
    repetitions: options.Repetitions = None,
    budget: options.Budget = None,
    duration: options.Duration = None,
    seed: options.Seed = 1,
    interval: options.StepInterval = None,
    timeout: options.Timeout = None,
    pin: options.Pin = None,
    tag: options.Tag = None,
    commit: options.Commit = None,
    report: options.SequenceReport = Path("kvmark-ycsb.html"),
    prometheus: options.Prometheus = None,
    fleet: options.Fleet = None,
    machines: options.Machines = None,
    folder: options.Runs = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Runs YCSB's sequence of workloads and prints its table."""
    from kvmark.experiment.designs.sequence.ycsb import YcsbStudy
    from kvmark.records import Records
    from kvmark.spec.properties import parse_assignment, read_properties
    from kvmark.spec.ycsb import flag_properties, read_ycsb

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
    tags = (*(tag or ()), *([asked.label] if asked.label else ()))
    kept = Records.at(folder)
    told: dict[str, Any] = {"prometheus": prometheus, "fleet": asked_fleet(fleet, machines)}
    with (
        _its_own(study, kept) if system is None else nullcontext(study) as study,
        session(
            command_line(), kept, study.typical_plan(), tags, commit, **told, quiet=quiet
        ) as setting,
    ):
        ended = _carry(study, setting, on_existing if system else "remove", quiet=quiet)
        _answer(ended.carried, ended.rounds.course(), kept, report, json=json)


@contextmanager
def _its_own(study: YcsbStudy, records: Records) -> Iterator[YcsbStudy]:
    """The study on a database that is gone afterwards."""
    from kvmark.testbed.rocksdb import scratch_folder

    with scratch_folder(records.root) as folder:
        path = str(folder / "db")
        system = SystemUrl("rocksdb", {"path": path}, f"rocksdb:{path}")
        yield replace(study, system=system)


@dataclass
class _Sequence:
    """A sequence while it goes on."""

    rounds: Rounds
    carried: list[Carried] = field(default_factory=list)


def _carry(
    study: YcsbStudy,
    setting: Setting,
    on_existing: OnExisting,
    *,
    quiet: bool,
) -> _Sequence:
    """Carries out every step. What ended before one that failed is closed all the same."""
    from kvmark.cli.commands.ycsb_progress import Teller, announced
    from kvmark.cli.display.live import Left, LiveDisplay
    from kvmark.cli.display.progress import show
    from kvmark.experiment.designs.sequence.rounds import Rounds
    from kvmark.experiment.designs.sequence.ycsb import planned
    from kvmark.plan.compile import compile_run
    from kvmark.run.execution import carry_out
    from kvmark.run.existing import emptier

    loads = any(step.fresh for step in study.first())
    prepare = emptier(study.system, on_existing if loads else "keep")
    ycsb = _kept(study.properties)
    going = _Sequence(Rounds(study, _needed))
    rounds = going.rounds
    with LiveDisplay(quiet=quiet) as display:
        display.say(announced(study, rounds.course()))
        teller = Teller(rounds, display.say)

        def carry(number: int, step: Step, spec: RunSpec) -> Carried:
            teller.begin(going.carried)
            left = rounds.left()
            display.step(step.title, number, rounds.total, left and Left(*left))
            kept = {**spec.as_json(), "ycsb": ycsb, "sequence": asdict(step)}
            limit, shown, plan = rounds.limit(step), show(display), compile_run(spec)

            def progress(folder: RunFolder, told: Mapping[str, Any]) -> None:
                shown(folder, told)
                if limit is not None:
                    limit.watch(told)
                    teller.watch(step, limit, plan, going.carried)

            carried = carry_out(
                plan, kept, setting, progress, password=spec.system.password,
                may_go_on=None if limit is None else limit.may_go_on,
            )  # fmt: skip
            going.carried.append(carried)
            cut = limit is not None and limit.over and isinstance(carried.failure, Interrupted)
            rounds.ended(carried.manifest.engine.rate, limit if cut else None)
            return carried if cut else carried.or_raise()

        try:
            planned(study, rounds.steps(), carry, prepare)
        except BaseException:
            from kvmark.experiment.measured import measured

            measured(going.carried, setting.records)
            raise
    return going


def _needed(cases: Sequence[Sequence[float]], asked: Repeating) -> Sequence[int]:
    """What the scatter of the first stage says."""
    from kvmark.experiment.designs.paired.ab import Precision
    from kvmark.experiment.designs.paired.judging import needed

    return needed(cases, Precision(asked.within, None, asked.most, asked.first))


def _kept(properties: YcsbProperties) -> dict[str, Any]:
    """What an export as YCSB's text needs to know."""
    return {
        "percentiles": properties.hdrhistogram_percentiles,
        "measurement": properties.measurement_interval,
        "properties": {name: given.value for name, given in properties.given.items()},
    }


def _answer(
    ended: list[Carried], course: Course, records: Records, report: Path | None, *, json: bool
) -> None:
    """Closes the runs of a sequence and prints its table.

    Raises:
        AnswerIsNo: a case is INVALID.
        RunError: the report can't be written.
    """
    from kvmark.analysis import Judgement
    from kvmark.cli.commands.ycsb_progress import said
    from kvmark.experiment.measured import measured
    from kvmark.report.format.terminal import sequence_text
    from kvmark.report.views.gather import sequence_answer

    runs = [one.run for one in measured(ended, records)]
    told = said(course, [run.manifest for run in runs])
    answer = replace(sequence_answer(runs), said=told)
    if report is not None:
        write_report(lambda page: page.sequence_page(answer), report)
    if json:
        source, ids = answer.published_source, [run.id for run in runs]
        common = {"published_source": source, "runs": ids, "report": report}
        print_json("sequence", {"rows": answer.rows, **common, "repetitions": course, "said": told})
    else:
        print_answer(sequence_text(answer, terminal_width()))
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
    from kvmark.experiment.designs.sequence.ycsb import SEQUENCE

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
    from kvmark.experiment.designs.sequence.ycsb import Repeating

    if repetitions is None and once:
        repetitions = 1
    if repetitions is None:
        return Repeating(budget_s=BUDGET_S if budget_s is None else budget_s)
    if repetitions < 1:
        raise SpecError(f"repetitions: must be at least 1, not {repetitions}")
    budget_s = math.inf if budget_s is None else budget_s
    return Repeating(repetitions, repetitions, None, budget_s)
