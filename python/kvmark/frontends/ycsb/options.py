"""The options of `kvmark ycsb`: YCSB's flags, and kvmark's own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from kvmark.cli import completion, options
from kvmark.cli.options import (
    CountList,
    ExperimentOptions,
    counts,
    flag,
    number,
    option,
    quantity,
    report_path,
)
from kvmark.errors import SpecError
from kvmark.frontends.ycsb.properties import STEPS
from kvmark.spec.quantity import duration_ns, listed, rate, size_bytes
from kvmark.spec.suggest import did_you_mean, shown
from kvmark.spec.url import SystemName, system_name


class _Rates(tuple[float | None, ...]):
    """Several rates; None for `max`."""


class _Steps(tuple[str, ...]):
    """Steps of the YCSB sequence."""


def _steps(text: str) -> _Steps:
    known = (*STEPS, "reload")
    steps = _Steps(step.strip().lower() for step in text.split(","))
    for step in steps:
        if step not in known:
            raise SpecError(f"there is no step {shown(step)}{did_you_mean(step, known)}")
    return steps


def _rates(text: str) -> _Rates:
    return _Rates(listed(text, rate))


def _budget(text: str) -> float:
    """Seconds; infinite for `none`."""
    if text.strip() == "none":
        return math.inf
    seconds = duration_ns(text) / 1e9
    if seconds == 0:
        raise SpecError("must be longer than 0; write none for no limit")
    return seconds


@dataclass(frozen=True, kw_only=True)
class YcsbOptions(ExperimentOptions):
    """The options of a sequence."""

    systems: Annotated[
        tuple[SystemName, ...],
        option(
            "URL",
            "System to measure, as in kvmark run; rocksdb: alone is a new database. Repeatable"
            " (default: every embedded engine).",
            "--system",
            parser=system_name,
            autocompletion=completion.system,
        ),
    ] = ()
    memory_bytes: Annotated[
        int | None,
        quantity(
            size_bytes,
            *("SIZE", "Caches and buffers of each embedded engine (default: 256MiB if several)."),
            *("--memory",),
        ),
    ] = None
    records: Annotated[
        CountList | None,
        quantity(counts, "N,…", "Numbers of records (default: 100000)."),
    ] = None
    operations: Annotated[
        int | None, number("Operations of each workload (default: as many as fit into a second).")
    ] = None
    workloads: Annotated[
        _Steps | None,
        quantity(_steps, "STEP,…", "Steps in order (default: load,a,b,c,f,d,e)."),
    ] = None
    clients: Annotated[
        int | None, number("Number of closed-loop clients.", "--clients", "-threads")
    ] = None
    targets: Annotated[
        _Rates | None,
        quantity(
            _rates,
            *("RATE,…", "Offered rates, one after the other, such as 1000,2000,max."),
            *("--target", "-target"),
        ),
    ] = None
    property_files: Annotated[
        list[Path] | None, option("FILE", "YCSB property file; later files win.", "-P")
    ] = None
    properties: Annotated[
        list[str] | None, option("KEY=VALUE", "YCSB property; wins over files.", "-p")
    ] = None
    load: Annotated[bool, flag("As in YCSB: only the load.", "-load")] = False
    transactions: Annotated[
        bool, flag("As in YCSB: only the transactions of the properties.", "-t")
    ] = False
    status: Annotated[bool, flag("As in YCSB; progress is always shown.", "-s")] = False
    label: Annotated[str | None, option("WORD", "As in YCSB: a tag.", "-l")] = None
    database: Annotated[
        str | None, option("CLASS", "As in YCSB: must agree with --system.", "-db")
    ] = None
    on_existing: options.OnExisting = "refuse"
    repetitions: Annotated[
        int | None,
        number(
            "Number of repetitions (default: 5; where operations are counted, up to 20 for ± 5 %;"
            " once with -load)."
        ),
    ] = None
    budget_s: Annotated[
        float | None,
        quantity(
            _budget,
            "TIME",
            "Time limit of the sequence, or none (default: 10m per system, 1m per engine without"
            " --system).",
            "--budget",
        ),
    ] = None
    duration_ns: Annotated[
        int | None,
        options.duration(
            "Length of each workload (default: 1s, unless operations are counted).", "--duration"
        ),
    ] = None
    seed: options.Seed = 1
    interval_ns: Annotated[
        int | None,
        options.duration(
            "Length of a recorded interval (default: 100ms to 1s, by duration).", "--interval"
        ),
    ] = None
    timeout_ns: options.Timeout = None
    pin: options.Pin = None
    report: Annotated[
        Path | None,
        quantity(
            report_path,
            *("FILE", "Report, .html, .md or none (default: kvmark-ycsb.html).", "--report"),
        ),
    ] = Path("kvmark-ycsb.html")
