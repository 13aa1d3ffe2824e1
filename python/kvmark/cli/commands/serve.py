"""`kvmark serve`: the runs on disk in a browser on this machine."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from kvmark.cli import options
from kvmark.cli.output import json_text
from kvmark.errors import UsageError
from kvmark.records import Records
from kvmark.secret import Secret

_EXTRA: Final = frozenset({"starlette", "uvicorn"})

Port = Annotated[
    int, typer.Option(metavar="PORT", min=0, max=65535, help="On 127.0.0.1; 0 is a free one.")
]


def serve(
    folder: options.KeptRuns = None,
    port: Port = 8765,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Shows the runs in a browser on this machine, until Ctrl-C; nothing is written."""
    try:
        from kvmark.serve import app
    except ModuleNotFoundError as problem:
        if problem.name not in _EXTRA:
            raise
        raise UsageError(
            f"serve needs {problem.name}, which isn't installed; add the extra serve, as in"
            " pip install 'kvmark[serve]'"
        ) from problem

    def ready(address: Secret) -> None:
        # It is for the user who started this, and stands nowhere else.
        url = address.reveal()
        if json:
            print(json_text("serve", {"address": url}, indent=None), flush=True)
        else:
            print(url if quiet else f"The runs are at {url} until Ctrl-C", flush=True)

    app.serve(Records.at(folder), port, ready)
