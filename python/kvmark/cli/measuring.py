"""Carries out what a command decided, shows it, and answers.

Apart from the commands, because it needs libraries that take a while to load. What closes, judges
and answers takes longer and a lot of memory, which would count as the generator's: it is imported
when nothing is measured any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from kvmark.cli.command_line import command_line
from kvmark.cli.fleet import AskedFleet, on_fleet
from kvmark.cli.live import Left, LiveDisplay
from kvmark.cli.metrics import exported
from kvmark.cli.progress import show
from kvmark.cli.sequence_said import Teller, announced
from kvmark.cli.system import password_lent
from kvmark.errors import Interrupted
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.records import Records, RunFolder
from kvmark.run import Carried, Setting, carry_out, make_setting
from kvmark.run.existing import OnExisting, emptier
from kvmark.spec.run import RunSpec
from kvmark.spec.url import SystemUrl
from kvmark.spec.ycsb import YcsbProperties
from kvmark.study.ab import Precision
from kvmark.study.ycsb import Repeating, Step, YcsbStudy, planned
from kvmark.study.ycsb_rounds import Rounds
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

    answer_sequence(ended.carried, ended.rounds.course(), records, report, json=json)


@dataclass
class _Sequence:
    """A sequence while it goes on."""

    rounds: Rounds
    carried: list[Carried] = field(default_factory=list)


def _carry(
    study: YcsbStudy,
    records: Records,
    setting: Setting,
    on_existing: OnExisting,
    *,
    quiet: bool,
) -> _Sequence:
    """Carries out every step. What ended before one that failed is closed all the same."""
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

            carried = carry_out(plan, kept, records, setting, progress)
            going.carried.append(carried)
            cut = limit is not None and limit.over and isinstance(carried.failure, Interrupted)
            rounds.ended(carried.manifest.engine.rate, limit if cut else None)
            return carried if cut else carried.or_raise()

        try:
            planned(study, rounds.steps(), carry, prepare)
        except BaseException:
            from kvmark.study.measured import measured

            measured(going.carried, records)
            raise
    return going


def _needed(cases: Sequence[Sequence[float]], asked: Repeating) -> Sequence[int]:
    """What the scatter of the first stage says, from a process that has the mathematics."""
    from kvmark.study.ab_judging import needed_apart

    return needed_apart(cases, Precision(asked.within, None, asked.most, asked.first))


def _kept(properties: YcsbProperties) -> dict[str, Any]:
    """What an export as YCSB's text needs to know."""
    return {
        "percentiles": properties.hdrhistogram_percentiles,
        "measurement": properties.measurement_interval,
        "properties": {name: given.value for name, given in properties.given.items()},
    }
