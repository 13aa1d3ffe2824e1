"""`kvmark runs scaling`: the scaling law over clients, nodes or machines, or why there is none."""

from __future__ import annotations

from typing import Annotated

import typer

from kvmark.cli import completion, options
from kvmark.cli.command_line import command_line
from kvmark.cli.output import print_answer, print_json, terminal_width, write_report
from kvmark.records import Records

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN",
        autocompletion=completion.several_runs,
        help="Runs that differ in one number: ids, tag:NAME, study:ID.",
    ),
]
Over = Annotated[
    str,
    typer.Option(
        metavar="WORD",
        help="What was varied: clients, nodes, or a factor of a study, such as machines.",
    ),
]


def scaling(
    words: Words,
    over: Over = "clients",
    report: options.RunReport = None,
    folder: options.KeptRuns = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fits the Universal Scalability Law to runs, and says where they can't bear one."""
    from kvmark.analysis.compare.selection import runs_of
    from kvmark.analysis.models.scaling import scaling_laws
    from kvmark.report.views.scaling import ScalingAnswer, scaling_sentence, scaling_text

    laws = scaling_laws(runs_of(Records.at(folder), words), over)
    answer = ScalingAnswer(f"Scaling over {over.replace('_', ' ')}", laws)
    if report is not None:
        # Figures bring a library that takes a second to load: only reports pay for it.
        from kvmark.report.views.scaling import scaling_page

        page = scaling_page(answer, command_line())
        write_report(lambda _: page, report)
    if json:
        sentences = [{"law": law, "sentence": scaling_sentence(law)} for law in laws]
        print_json("scaling", {"laws": sentences, "report": report})
        return
    print_answer(scaling_text(answer, terminal_width()))
    if report is not None and not quiet:
        typer.echo(f"\nThe report is in {report.resolve()}", err=True)
