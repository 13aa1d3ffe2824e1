"""`kvmark runs history`: a figure over all runs of a case, and where its level moved."""

from __future__ import annotations

from typing import Annotated

import typer

from kvmark.cli import options
from kvmark.cli.output import print_answer, print_json, terminal_width
from kvmark.records import Records

__all__ = ["history"]

Metric = Annotated[
    str, typer.Option(metavar="NAME", help="throughput, p50, p99, READ.p99, service.p99, ….")
]
Workload = Annotated[str, typer.Option(metavar="NAME", help="Only this workload.")]
Store = Annotated[
    str, typer.Option("--store", metavar="NAME", help="Only this system, such as Redis.")
]
Limit = Annotated[int, typer.Option(metavar="N", min=1, help="Most runs to list of each case.")]
All = Annotated[bool, typer.Option("--all", help="INVALID runs too.")]


def history(
    metric: Metric = "throughput",
    tag: options.Tag = None,
    workload: Workload = "",
    store: Store = "",
    limit: Limit = 30,
    every: All = False,
    folder: options.KeptRuns = None,
    json: options.Json = False,
) -> None:
    """Shows a figure over the runs of each case, and where its level moved."""
    from kvmark.analysis.compare.history import histories
    from kvmark.analysis.compare.metrics import check_known
    from kvmark.analysis.compare.selection import excluded, select, without
    from kvmark.report.views.history import history_text
    from kvmark.spec.metric import parse_comparable

    asked = parse_comparable(metric)
    records = Records.at(folder)
    runs = [records.open(entry.id) for entry in select(records, tag or (), workload, store)]
    left_out = excluded(records, runs, invalid=not every)
    used = without(left_out, runs)
    if used:
        check_known([asked], used)
    found = histories(used, asked)
    if json:
        print_json("history", {"histories": found, "invalid": len(left_out), "excluded": left_out})
    else:
        print_answer(history_text(found, terminal_width(), limit, left_out))
