"""`kvmark app`: a YugabyteDB sample application, with its own command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import typer

from kvmark.cli.completion import offered
from kvmark.frontends.yugabyte_apps.flags import APPS, FLAGS, HELP, App, Flag, parse_request

CONTEXT_SETTINGS: Final = {"ignore_unknown_options": True, "help_option_names": []}
"""Typer passes the flags on: `flags` parses them."""
_WIDTH: Final = 34
_METAVARS: Final = {"nothing": "", "whole": " N", "number": " X"} | dict.fromkeys(
    ("duration", "limit"), " TIME"
)


def app(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME [--FLAG VALUE]...",
            autocompletion=offered(lambda *_: APPS),
            help="An application and its flags.",
        ),
    ] = None,
) -> None:
    """Runs a YugabyteDB sample application and prints the table of its published report.

    kvmark app --help lists applications and flags, kvmark app NAME --help those of one.
    """
    request = parse_request(words or ["--help"])
    if request is None or request.has("help"):
        typer.echo(_help(request.app if request else None), nl=False)
        return
    # It takes a second to load, and usage errors are reported before it.
    from kvmark.frontends.yugabyte_apps.execution import execute_app

    execute_app(request)


def _help(app: App | None) -> str:
    """The help of an application, or of all."""
    if app is None:
        names = "\n".join(f"  {one.name:<{_WIDTH}}{one.description}" for one in APPS.values())
        return HELP["overview"].format(applications=names, flags=_flag_lines(FLAGS.values()))
    from kvmark import catalog

    used = [flag for flag in FLAGS.values() if app.name in flag.apps and not flag.no_effect]
    return HELP["application"].format(
        app=app, flags=_flag_lines(used), workload=catalog.text(f"apps/{app.name}").rstrip()
    )


def _flag_lines(flags: Iterable[Flag]) -> str:
    return "\n".join(
        f"  {'--' + flag.name + _METAVARS.get(flag.takes, ' TEXT'):<{_WIDTH + 6}}{flag.help}"
        for flag in flags
    )
