"""`kvmark runs history`: a figure over all runs of a case, and where its level moved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kvmark.cli import options
from kvmark.cli.output import print_answer, print_json, terminal_width
from kvmark.records import Records

if TYPE_CHECKING:
    from kvmark.analysis.compare.selection import ExcludedRun
    from kvmark.records import Run

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
    from kvmark.analysis.compare.metrics import operations_of
    from kvmark.analysis.compare.selection import select_lines, why_excluded
    from kvmark.cli.judged import judged_lines
    from kvmark.report.views.history import history_text
    from kvmark.spec.metric import check_operations, parse_comparable

    asked = parse_comparable(metric)
    records = Records.at(folder)
    lines = select_lines(records, tag or (), workload, store)
    left_out: list[ExcludedRun] = []
    operations: dict[str, None] = {}

    def used() -> Iterator[Run]:
        for line in lines if every else judged_lines(records, lines):
            run = records.open_entry(line.entry)
            why = why_excluded(records, run, line.judgement, invalid=not every)
            if why is None:
                operations.update(dict.fromkeys(operations_of([run])))
                yield run
            else:
                left_out.append(why)

    found = histories(used(), asked)
    if len(left_out) < len(lines):
        check_operations([asked], tuple(operations), "the runs have")
    if json:
        print_json("history", {"histories": found, "invalid": len(left_out), "excluded": left_out})
    else:
        print_answer(history_text(found, terminal_width(), limit, left_out))
