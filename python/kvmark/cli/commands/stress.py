"""`kvmark stress`: cassandra-stress's command line."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from kvmark import __version__
from kvmark.cli import options
from kvmark.cli.session import asked_fleet

__all__ = ["CONTEXT_SETTINGS", "stress"]

CONTEXT_SETTINGS: Final[dict[str, Any]] = {
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
}
"""Words that begin with a dash belong to cassandra-stress's grammar, not to Typer's."""

_Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="COMMAND [WORDS]…", help="As cassandra-stress takes them; see: help."),
]
_Strict = Annotated[
    bool, typer.Option("--strict", help="End with 1 if the run is INVALID, as other commands do.")
]


def stress(
    words: _Words = None,
    pin: options.Pin = None,
    tag: options.Tag = None,
    strict: _Strict = False,
    commit: options.Commit = None,
    prometheus: options.Prometheus = None,
    fleet: options.Fleet = None,
    machines: options.Machines = None,
    folder: options.Runs = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Takes the command line of cassandra-stress, and prints what it would print.

    kvmark's own options stand before the command. `kvmark stress help` lists all words.
    """
    from kvmark.spec.stress import help_text, read_stress

    said = words or []
    if not said or said[0].lower() == "help":
        typer.echo(help_text(said[1:]), nl=False)
        return
    if said[0].lower() == "version":
        typer.echo(f"kvmark {__version__}")
        return
    spec, shared_by = read_stress(said), asked_fleet(fleet, machines)
    # What follows takes a second to load, and a usage error is told before it.
    from kvmark.cli.commands.stress_run import Wanted, carry_out_stress
    from kvmark.records import Records

    told = Wanted(
        tuple(pin or ()), tuple(tag or ()), strict, json, quiet, commit=commit,
        fleet=shared_by, prometheus=prometheus,
    )  # fmt: skip
    carry_out_stress(spec, told, Records.at(folder))
