"""The options of `kvmark ycsb`, with YCSB's own names where YCSB has them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from kvmark.cli.options import CountList, counts, quantity, report_path
from kvmark.errors import SpecError
from kvmark.spec.quantity import count, duration_ns, listed, rate
from kvmark.spec.suggest import did_you_mean, shown


class Rates(tuple[float | None, ...]):
    """Several rates; none stands for `max`."""


class Steps(tuple[str, ...]):
    """Steps of the YCSB sequence."""


def _steps(text: str) -> Steps:
    # The models of a run take a while to load, and options are read without them.
    from kvmark.frontends.ycsb.run_spec import STEPS

    known = (*STEPS, "reload")
    steps = Steps(step.strip().lower() for step in text.split(","))
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


def _rates(text: str) -> Rates:
    return Rates(listed(text, rate))


Sizes = Annotated[
    CountList | None,
    quantity(
        counts,
        "N,…",
        "Numbers of records in turn; else 1000,3000,6000,10000.",
        "--records",
    ),
]
StepOperations = Annotated[
    int | None,
    quantity(count, "N", "Operations of each workload; else as many as records.", "--operations"),
]
Workloads = Annotated[
    Steps | None,
    quantity(_steps, "STEP,…", "Steps in their order; else load,a,b,c,f,d,delete,reload,e."),
]
Threads = Annotated[
    int | None,
    quantity(count, "N", "Clients, one operation at a time each.", "--clients", "-threads"),
]
Targets = Annotated[
    Rates | None,
    quantity(
        _rates, "RATE,…", "Offer each rate in turn, such as 1000,2000,max.", "--target", "-target"
    ),
]
PropertyFiles = Annotated[
    list[Path] | None,
    typer.Option("-P", metavar="FILE", help="A YCSB property file; a later one wins."),
]
Properties = Annotated[
    list[str] | None,
    typer.Option("-p", metavar="KEY=VALUE", help="A YCSB property; wins over files."),
]
OnlyLoad = Annotated[bool, typer.Option("-load", help="As in YCSB: only the load.")]
OnlyTransactions = Annotated[
    bool, typer.Option("-t", help="As in YCSB: only the transactions that the properties ask for.")
]
Status = Annotated[bool, typer.Option("-s", help="As in YCSB; progress shows without it.")]
Label = Annotated[str | None, typer.Option("-l", metavar="WORD", help="As in YCSB: a tag.")]
Database = Annotated[
    str | None, typer.Option("-db", metavar="CLASS", help="As in YCSB: must agree with --system.")
]
Repetitions = Annotated[
    int | None,
    quantity(
        count, "N", "How often; else 5 times, and up to 20 where ± 5 % needs more; -load once."
    ),
]
Budget = Annotated[
    float | None,
    quantity(
        _budget,
        "TIME",
        "Most time for the whole, such as 30m, or none; 10m unless --repetitions is said.",
        "--budget",
    ),
]
StepInterval = Annotated[
    int | None,
    quantity(
        duration_ns,
        "TIME",
        "Length of a recorded interval; else 100ms to 1s, as it lasts.",
        "--interval",
    ),
]
SequenceReport = Annotated[
    Path | None,
    quantity(
        report_path,
        "FILE",
        "The report, .html or .md or none; else kvmark-ycsb.html.",
        "--report",
    ),
]
