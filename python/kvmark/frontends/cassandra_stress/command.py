"""`kvmark stress`: cassandra-stress's command line."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from kvmark import __version__
from kvmark.cli import options
from kvmark.cli.options import ExperimentOptions

CONTEXT_SETTINGS: Final[dict[str, Any]] = {
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
}
"""Words that begin with a dash belong to cassandra-stress's grammar, not to Typer's."""

_Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="COMMAND [WORDS]…", help="As cassandra-stress takes them; see: help."),
]
_Repetitions = Annotated[
    int, typer.Option(metavar="N", min=1, help="How often the whole command line is carried out.")
]
_Strict = Annotated[
    bool, typer.Option("--strict", help="End with 1 if the run is INVALID, as other commands do.")
]


def stress(
    words: _Words = None,
    pin: options.Pin = None,
    repetitions: _Repetitions = 1,
    on_existing: options.OnExisting = "refuse",
    strict: _Strict = False,
    report: options.RunReport = None,
    *,
    shared: ExperimentOptions,
) -> None:
    """Takes the command line of cassandra-stress, and prints what it would print.

    kvmark's own options stand before the command. `kvmark stress help` lists all words.
    """
    from kvmark.frontends.cassandra_stress.command_line import read_stress
    from kvmark.frontends.cassandra_stress.help import help_text

    said = words or []
    if not said or said[0].lower() == "help":
        typer.echo(help_text(said[1:]), nl=False)
        return
    if said[0].lower() == "version":
        typer.echo(f"kvmark {__version__}")
        return
    spec = read_stress(said)
    # What follows takes a second to load, and a usage error is told before it.
    from kvmark.frontends.cassandra_stress.measuring import Wanted, carry_out_stress

    wanted = Wanted(tuple(pin or ()), repetitions, report, on_existing, strict=strict)
    carry_out_stress(spec, wanted, shared)
