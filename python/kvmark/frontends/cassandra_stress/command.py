"""`kvmark stress`: cassandra-stress's command line."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from kvmark import __version__
from kvmark.cli import options
from kvmark.cli.options import ExperimentOptions
from kvmark.frontends.cassandra_stress.grammar import help_text

CONTEXT_SETTINGS: Final[dict[str, Any]] = {
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
}
"""Typer passes cassandra-stress's options on: `grammar` parses them."""

_Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="COMMAND [WORDS]…", help="As for cassandra-stress; see: help."),
]
_Repetitions = Annotated[
    int, typer.Option(metavar="N", min=1, help="Number of executions of the command line.")
]
_Strict = Annotated[
    bool, typer.Option("--strict", help="Exit 1 if the run is INVALID, as other commands do.")
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

    Put kvmark's own options before the command. `kvmark stress help` lists all parameters.
    """
    command = words[0].lower() if words else "help"
    if words is None or command == "help":
        typer.echo(help_text((words or [])[1:]), nl=False)
        return
    if command == "version":
        typer.echo(f"kvmark {__version__}")
        return
    from kvmark.frontends.cassandra_stress.options import read_stress

    spec = read_stress(words)
    # It takes a second to load, and usage errors are reported before it.
    from kvmark.frontends.cassandra_stress.execution import StressOptions, execute_stress

    own = StressOptions(tuple(pin or ()), repetitions, report, on_existing, strict)
    execute_stress(spec, own, shared)
