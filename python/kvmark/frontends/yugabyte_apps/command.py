"""`kvmark app`: a YugabyteDB sample application, with its own command line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import typer

from kvmark.cli.completion import offered
from kvmark.frontends.yugabyte_apps.flags import APPS, FLAGS, App, Flag, parse_request

CONTEXT_SETTINGS: Final = {"ignore_unknown_options": True, "help_option_names": []}
"""Typer passes the flags on: `flags` parses them."""
_WIDTH: Final = 34
_METAVARS: Final = {"nothing": "", "whole": " N", "number": " X"} | dict.fromkeys(
    ("duration", "limit"), " TIME"
)


@offered
def _application_names(_ctx: typer.Context, _incomplete: str) -> Iterator[str]:
    yield from APPS


def app(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME [--FLAG VALUE]...",
            autocompletion=_application_names,
            help="An application and its flags.",
        ),
    ] = None,
) -> None:
    """Runs a YugabyteDB sample application and prints the table of its published report.

    kvmark app --help lists applications and flags, kvmark app NAME --help those of one.
    """
    request = parse_request(words or ["--help"])
    if request is None or request.has("help"):
        typer.echo("\n".join(_overview() if request is None else _app_help(request.app)))
        return
    # It takes a second to load, and usage errors are reported before it.
    from kvmark.frontends.yugabyte_apps.execution import execute_app

    execute_app(request)


def _overview() -> list[str]:
    return [
        "Usage: kvmark app NAME --nodes HOST:PORT[,HOST:PORT...] [--FLAG VALUE]...",
        "",
        "Applications:",
        *(f"  {app.name:<{_WIDTH}}{app.description}" for app in APPS.values()),
        "",
        *_flag_lines(list(FLAGS.values())),
        "",
        "kvmark app NAME --help shows the flags that NAME uses.",
    ]


def _app_help(app: App) -> list[str]:
    from kvmark import catalog

    used = [flag for flag in FLAGS.values() if app.name in flag.apps and not flag.no_effect]
    return [
        f"Usage: kvmark app {app.name} --nodes HOST:{app.port} [--FLAG VALUE]...",
        "",
        app.description,
        "",
        *_flag_lines(used),
        "",
        "Its workload, to copy and change:",
        "",
        catalog.text(f"apps/{app.name}").rstrip(),
    ]


def _flag_lines(flags: Sequence[Flag]) -> list[str]:
    return [
        "Flags:",
        *(
            f"  {'--' + flag.name + _METAVARS.get(flag.takes, ' TEXT'):<{_WIDTH + 6}}{flag.help}"
            for flag in flags
        ),
    ]
