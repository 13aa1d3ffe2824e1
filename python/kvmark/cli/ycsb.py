"""`kvmark ycsb`: the YCSB sequence, with YCSB's own properties and flags."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kvmark.cli import options
from kvmark.cli.system import named_system
from kvmark.errors import SpecError
from kvmark.spec.url import SystemName

if TYPE_CHECKING:
    from kvmark.spec.ycsb import YcsbProperties
    from kvmark.study.ycsb import Repeating, YcsbStudy

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
    from kvmark.cli.fleet import asked_fleet
    from kvmark.spec.properties import parse_assignment, read_properties
    from kvmark.spec.ycsb import flag_properties, read_ycsb
    from kvmark.study.ycsb import YcsbStudy

    flags = flag_properties(
        db=database, label=label, load=load, transactions=transactions, status=status
    )
    files = [read_properties(path) for path in property_files or ()]
    asked = read_ycsb(files, [*map(parse_assignment, properties or ()), *flags])
    sizes = _sizes(records, asked)
    limits = {"duration_ns": duration, "interval_ns": interval, "timeout_ns": timeout}
    said: dict[str, Any] = {"clients": clients, "pin": pin and tuple(pin), **limits}
    study = YcsbStudy(
        system=named_system(system or SystemName("rocksdb:scratch")),
        properties=asked,
        records=sizes,
        operations=operations,
        workloads=workloads or _steps(asked, load=load, own=transactions or bool(property_files)),
        targets=target or (None,),
        repeating=_repeating(repetitions, budget, once=not asked.dotransactions),
        seed=seed,
        more={name: value for name, value in said.items() if value is not None},
    )
    if workloads is None:
        study = _without_lacking(study)
    study.check()
    shared_by = asked_fleet(fleet, machines)
    tags = (*(tag or ()), *([asked.label] if asked.label else ()))
    # What follows takes a second to load, and a usage error is told before it.
    from kvmark.cli.measuring import measure_sequence
    from kvmark.records import Records

    on = None if system is None else on_existing
    more: dict[str, Any] = {"commit": commit, "prometheus": prometheus, "fleet": shared_by}
    more["records"] = Records.at(folder)
    measure_sequence(study, tags, report, on_existing=on, json=json, quiet=quiet, **more)


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
    from kvmark.study.ycsb import SEQUENCE

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
    from kvmark.study.ycsb import Repeating

    if repetitions is None and once:
        repetitions = 1
    if repetitions is None:
        return Repeating(budget_s=BUDGET_S if budget_s is None else budget_s)
    if repetitions < 1:
        raise SpecError(f"repetitions: must be at least 1, not {repetitions}")
    budget_s = math.inf if budget_s is None else budget_s
    return Repeating(repetitions, repetitions, None, budget_s)
