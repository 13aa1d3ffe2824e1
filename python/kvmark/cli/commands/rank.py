"""`kvmark runs rank`: what costs more than what, and which published sentences runs contradict."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from kvmark.cli import options
from kvmark.cli.commands.compare_options import Form
from kvmark.cli.completion import complete
from kvmark.cli.output import print_answer, print_json, terminal_width
from kvmark.records import Records

__all__ = ["rank"]

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN",
        autocompletion=complete.several_runs,
        help="Runs: ids, tag:NAME, study:ID or commit:ID, or several.",
    ),
]
By = Annotated[Literal["operation", "workload", "store"], typer.Option(help="What is ranked.")]


def rank(
    words: Words,
    by: By = "operation",
    format: Form = "text",
    folder: options.KeptRuns = None,
    json: options.Json = False,
) -> None:
    """Ranks operations, workloads or stores by their cost, and says which pairs are ordered."""
    from kvmark.analysis.compare.published_claims import claims
    from kvmark.analysis.compare.ranking import rankings
    from kvmark.analysis.compare.selection import excluded, runs_of, unrepeated_runs, without
    from kvmark.report.views.ranking import ranking_markdown, ranking_text

    records = Records.at(folder)
    runs = [*runs_of(records, words)]
    left_out = excluded(records, runs, invalid=True)
    few = unrepeated_runs(without(left_out, runs))
    left_out, runs = (*left_out, *few), without((*left_out, *few), runs)
    found, published = rankings(runs, by), claims(runs)
    if json:
        print_json("ranking", {"rankings": found, "claims": published, "excluded": left_out})
    elif format == "md":
        typer.echo(ranking_markdown(found, published, left_out), nl=False)
    else:
        print_answer(ranking_text(found, published, terminal_width(), left_out))
