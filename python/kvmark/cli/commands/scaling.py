"""`kvmark runs scaling`: the scaling law over clients, nodes or machines, or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from kvmark.cli import options
from kvmark.cli.command_line import command_line
from kvmark.cli.completion import complete
from kvmark.cli.output import print_answer, print_json, terminal_width, write_report
from kvmark.errors import UsageError
from kvmark.records import Records

if TYPE_CHECKING:
    from kvmark.report.views.scaling import ScalingAnswer

__all__ = ["PUBLISHED", "scaling"]

PUBLISHED: Final = ("hydra-cassandra-3.0.6", "cassandra-initial")
"""The published reports, named here so that the help needs no tables."""

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN",
        autocompletion=complete.several_runs,
        help="Runs that differ in one number: ids, tag:NAME, study:ID.",
    ),
]
Over = Annotated[
    str | None,
    typer.Option(
        metavar="WORD",
        help="What was varied: clients, nodes, or a factor of a study, such as machines.",
    ),
]
PublishedName = Annotated[
    str | None,
    typer.Option(
        "--published",
        metavar="NAME",
        help=f"Figures of a published report instead: {', '.join(PUBLISHED)}.",
    ),
]


def scaling(
    words: Words = None,
    over: Over = None,
    name: PublishedName = None,
    report: options.RunReport = None,
    folder: options.KeptRuns = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fits the Universal Scalability Law to runs, and says where they can't bear one."""
    from kvmark.report.views.scaling import scaling_sentence, scaling_text

    answer = _answer(words or [], over, name, Records.at(folder))
    if report is not None:
        # Figures bring a library that takes a second to load: only reports pay for it.
        from kvmark.report.views.scaling_page import scaling_page

        page = scaling_page(answer, command_line())
        write_report(lambda _: page, report)
    if json:
        laws = [(law, scaling_sentence(law)) for law in answer.laws]
        print_json(
            "scaling",
            {
                "source": answer.source,
                "laws": [{"law": law, "sentence": sentence} for law, sentence in laws],
                "report": report,
            },
        )
        return
    print_answer(scaling_text(answer, terminal_width()))
    if report is not None and not quiet:
        typer.echo(f"\nThe report is in {report.resolve()}", err=True)


def _answer(
    words: list[str], over: str | None, name: str | None, records: Records
) -> ScalingAnswer:
    from kvmark.analysis.compare.selection import runs_of
    from kvmark.analysis.models.scaling import scaling_laws
    from kvmark.analysis.models.scaling_published import PUBLISHED_SCALING, published_laws
    from kvmark.report.views.scaling import ScalingAnswer

    if name is not None:
        if words:
            raise UsageError("scaling: give runs or --published, not both")
        laws = published_laws(name, over)
        source = PUBLISHED_SCALING[name].source
        return ScalingAnswer(f"Scaling over {laws[0].over.replace('_', ' ')}", source, laws)
    if not words:
        raise UsageError("scaling needs runs that differ in one number: give ids, or study:ID")
    axis = over or "clients"
    laws = scaling_laws(runs_of(records, words), axis)
    return ScalingAnswer(f"Scaling over {axis.replace('_', ' ')}", "", laws)
