"""`kvmark serve`: the runs in a browser on this machine."""

from __future__ import annotations

from typing import Annotated, Final

from kvmark.cli import options
from kvmark.cli.output import json_text
from kvmark.errors import UsageError
from kvmark.records import Records
from kvmark.secret import Secret

_EXTRA: Final = frozenset({"starlette", "uvicorn"})


def serve(
    folder: options.KeptRuns = None,
    port: Annotated[
        int, options.option("PORT", "Port of 127.0.0.1; 0: any free port.", min=0, max=65535)
    ] = 8765,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Serves the runs to a browser on this machine, read-only."""
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
        # The address has the token, and is printed nowhere else.
        url = address.reveal()
        if json:
            print(json_text("serve", {"address": url}, indent=None), flush=True)
        else:
            print(url if quiet else f"The runs are at {url} until Ctrl-C", flush=True)

    app.serve(Records.at(folder), port, ready)
