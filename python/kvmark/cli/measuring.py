"""Carries out what a command decided, shows it, and answers.

Apart from the commands, because it needs libraries that take a while to load. What closes, judges
and answers takes longer and a lot of memory, which would count as the generator's: it is imported
when nothing is measured any more.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kvmark.cli.fleet import AskedFleet, on_fleet
from kvmark.cli.live import LiveDisplay
from kvmark.cli.metrics import exported
from kvmark.cli.progress import show
from kvmark.cli.system import command_line, password_lent
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.records import Records
from kvmark.run import Carried, Setting, carry_out, make_setting
from kvmark.run.existing import OnExisting, emptier
from kvmark.spec.run import RunSpec
from kvmark.spec.url import SystemUrl
from kvmark.spec.ycsb import YcsbProperties
from kvmark.study.ycsb import Step, YcsbStudy, planned
from kvmark.testbed.rocksdb import scratch_folder

__all__ = ["measure_one", "measure_sequence"]


def measure_one(
    plan: Plan,
    spec: RunSpec,
    tags: tuple[str, ...],
    report: Path | None,
    *,
    records: Records,
    commit: str | None = None,
    prometheus: int | None = None,
    fleet: AskedFleet | None = None,
    json: bool,
    quiet: bool,
) -> None:
    """Carries out one run and prints it.

    Raises:
        KvmarkError: the run failed or was interrupted, or is INVALID; it is printed all the same.
    """
    common = make_setting(command_line(), plan, tags, commit)
    with (
        on_fleet(common, fleet, plan) as shared,
        exported(shared, prometheus, quiet=quiet) as setting,
        LiveDisplay(quiet=quiet) as display,
        password_lent(spec.system),
    ):
        display.step(spec.workload.name, 1, 1)
        kept = spec.as_json()
        carried = carry_out(plan, kept, records, setting, show(display), spec.faults)
    from kvmark.cli.answering import answer_one

    answer_one(carried, records, report, json=json)


def measure_sequence(
    study: YcsbStudy,
    tags: tuple[str, ...],
    report: Path | None,
    *,
    records: Records,
    commit: str | None = None,
    prometheus: int | None = None,
    fleet: AskedFleet | None = None,
    on_existing: OnExisting | None,
    json: bool,
    quiet: bool,
) -> None:
    """Carries out a sequence and prints its table.

    Without a word on what to do with records that exist, it has a database of its own.

    Raises:
        KvmarkError: a step failed or was interrupted, or a case is INVALID.
    """
    own = on_existing is None
    with scratch_folder(records.root) if own else nullcontext() as folder:
        if folder is not None:
            path = str(folder / "db")
            study = replace(study, system=SystemUrl("rocksdb", {"path": path}, f"rocksdb:{path}"))
        with password_lent(study.system):
            plan = study.typical_plan()
            common = make_setting(command_line(), plan, tags, commit)
            with (
                on_fleet(common, fleet, plan) as shared,
                exported(shared, prometheus, quiet=quiet) as setting,
            ):
                ended = _carry(study, records, setting, on_existing or "remove", quiet=quiet)
    from kvmark.cli.answering import answer_sequence

    answer_sequence(ended, study.repetitions, records, report, json=json)


def _carry(
    study: YcsbStudy,
    records: Records,
    setting: Setting,
    on_existing: OnExisting,
    *,
    quiet: bool,
) -> list[Carried]:
    """Carries out every step. What ended before one that failed is closed all the same."""
    steps = study.steps()
    loads = any(step.fresh for step in steps)
    prepare = emptier(study.system, on_existing if loads else "keep")
    ycsb = _kept(study.properties)
    ended: list[Carried] = []
    with LiveDisplay(quiet=quiet) as display:

        def carry(number: int, step: Step, spec: RunSpec) -> Carried:
            display.step(step.title, number, len(steps))
            kept = {**spec.as_json(), "ycsb": ycsb, "sequence": asdict(step)}
            carried = carry_out(compile_run(spec), kept, records, setting, show(display))
            ended.append(carried)
            return carried.or_raise()

        try:
            return list(planned(study, carry, prepare))
        except BaseException:
            from kvmark.study.measured import measured

            measured(ended, records, study.repetitions)
            raise


def _kept(properties: YcsbProperties) -> dict[str, Any]:
    """What an export as YCSB's text needs to know."""
    return {
        "percentiles": properties.hdrhistogram_percentiles,
        "measurement": properties.measurement_interval,
        "properties": {name: given.value for name, given in properties.given.items()},
    }
