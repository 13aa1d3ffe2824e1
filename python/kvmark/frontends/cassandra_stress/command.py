"""`kvmark stress`: cassandra-stress's command line."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from kvmark import __version__
from kvmark.cli.options import argument
from kvmark.frontends.cassandra_stress.grammar import StressOptions, help_text

CONTEXT_SETTINGS: Final[dict[str, Any]] = {
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
}
"""Typer passes cassandra-stress's options on: `grammar` parses them."""


def stress(
    options: StressOptions,
    words: Annotated[
        list[str] | None, argument("COMMAND [WORDS]…", "As for cassandra-stress; see: help.")
    ] = None,
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
    from kvmark.frontends.cassandra_stress.execution import execute_stress

    execute_stress(spec, options)
