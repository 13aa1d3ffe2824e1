"""`kvmark ycsb`: the YCSB sequence, with YCSB's own properties and flags."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from kvmark.cli import options
from kvmark.cli.options import CountList, ExperimentOptions, counts, quantity, report_path
from kvmark.errors import SpecError
from kvmark.frontends.ycsb.properties import STEPS, parse_assignment, read_properties
from kvmark.spec.quantity import count, duration_ns, listed, rate
from kvmark.spec.suggest import did_you_mean, shown


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


def _budget(text: str) -> float:
    """Seconds; infinite for `none`."""
    if text.strip() == "none":
        return math.inf
    seconds = duration_ns(text) / 1e9
    if seconds == 0:
        raise SpecError("must be longer than 0; write none for no limit")
    return seconds


_Sizes = Annotated[
    CountList | None,
    quantity(counts, "N,…", "Numbers of records (default: 1000,3000,6000,10000).", "--records"),
]
_Operations = Annotated[
    int | None,
    quantity(count, "N", "Operations of each workload (default: --records).", "--operations"),
]
_Workloads = Annotated[
    _Steps | None,
    quantity(_steps, "STEP,…", "Steps in order (default: load,a,b,c,f,d,delete,reload,e)."),
]
_Clients = Annotated[
    int | None, quantity(count, "N", "Number of closed-loop clients.", "--clients", "-threads")
]
_Targets = Annotated[
    _Rates | None,
    quantity(
        lambda text: _Rates(listed(text, rate)),
        *("RATE,…", "Offered rates, one after the other, such as 1000,2000,max."),
        *("--target", "-target"),
    ),
]
_PropertyFiles = Annotated[
    list[Path] | None,
    typer.Option("-P", metavar="FILE", help="YCSB property file; later files win."),
]
_Properties = Annotated[
    list[str] | None,
    typer.Option("-p", metavar="KEY=VALUE", help="YCSB property; wins over files."),
]
_Load = Annotated[bool, typer.Option("-load", help="As in YCSB: only the load.")]
_Transactions = Annotated[
    bool, typer.Option("-t", help="As in YCSB: only the transactions of the properties.")
]
_Status = Annotated[bool, typer.Option("-s", help="As in YCSB; progress is always shown.")]
_Label = Annotated[str | None, typer.Option("-l", metavar="WORD", help="As in YCSB: a tag.")]
_Database = Annotated[
    str | None, typer.Option("-db", metavar="CLASS", help="As in YCSB: must agree with --system.")
]
_Repetitions = Annotated[
    int | None,
    quantity(
        count, "N", "Number of repetitions (default: 5, and up to 20 for ± 5 %; once with -load)."
    ),
]
_Budget = Annotated[
    float | None,
    quantity(
        _budget,
        *("TIME", "Time limit of the sequence, or none (default: 10m; none with --repetitions)."),
        "--budget",
    ),
]
_Interval = Annotated[
    int | None,
    quantity(
        duration_ns,
        *("TIME", "Length of a recorded interval (default: 100ms to 1s, by duration)."),
        "--interval",
    ),
]
_Report = Annotated[
    Path | None,
    quantity(
        report_path, "FILE", "Report, .html, .md or none (default: kvmark-ycsb.html).", "--report"
    ),
]


def ycsb(
    system: options.System = None,
    records: _Sizes = None,
    operations: _Operations = None,
    workloads: _Workloads = None,
    clients: _Clients = None,
    target: _Targets = None,
    property_files: _PropertyFiles = None,
    properties: _Properties = None,
    load: _Load = False,
    transactions: _Transactions = False,
    status: _Status = False,
    label: _Label = None,
    database: _Database = None,
    on_existing: options.OnExisting = "refuse",
    repetitions: _Repetitions = None,
    budget: _Budget = None,
    duration: options.Duration = None,
    seed: options.Seed = 1,
    interval: _Interval = None,
    timeout: options.Timeout = None,
    pin: options.Pin = None,
    report: _Report = Path("kvmark-ycsb.html"),
    *,
    shared: ExperimentOptions,
) -> None:
    """Runs YCSB's sequence of workloads and prints its table."""
    files = [read_properties(path) for path in property_files or ()]
    assigned = [parse_assignment(text) for text in properties or ()]
    # It takes a second to load, and usage errors are reported before it.
    from kvmark.frontends.ycsb.execution import execute_sequence, make_study
    from kvmark.frontends.ycsb.workloads import flag_properties, read_ycsb

    flags = flag_properties(
        db=database, label=label, load=load, transactions=transactions, status=status
    )
    overrides: dict[str, Any] = {
        "clients": clients,
        "pin": pin and tuple(pin),
        "duration_ns": duration,
        "interval_ns": interval,
        "timeout_ns": timeout,
    }
    study = make_study(
        system,
        read_ycsb(files, [*assigned, *flags]),
        records=records,
        operations=operations,
        workloads=workloads,
        transactions=transactions or bool(property_files),
        targets=target or (None,),
        repetitions=repetitions,
        budget_s=budget,
        seed=seed,
        overrides={name: value for name, value in overrides.items() if value is not None},
    )
    execute_sequence(study, system, on_existing, report, shared)
