"""Listens on 127.0.0.1 and nowhere else, until it is told to stop."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from typing import Final

import uvicorn

from kvmark.errors import UsageError
from kvmark.interrupts import suspended
from kvmark.records import Records
from kvmark.secret import Secret
from kvmark.serve.app import make_app
from kvmark.serve.guard import TOKEN
from kvmark.serve.library import Library

__all__ = ["serve"]

_HOST: Final = "127.0.0.1"
_TOKEN_BYTES: Final = 24


def serve(records: Records, port: int, ready: Callable[[Secret], None]) -> None:
    """Shows the runs until Ctrl-C; ``ready`` gets the address before the first page is asked for.

    In the address is a new token, without which nothing is shown.

    Port 0 is one that is free.

    Raises:
        UsageError: the port is in use or isn't ours to use.
    """
    with _listening(port) as listening:
        port, token = listening.getsockname()[1], Secret(secrets.token_urlsafe(_TOKEN_BYTES))
        config = uvicorn.Config(
            make_app(Library(records), port, token),
            log_config=None,
            # What a client sends wrong is answered, and is no news for the terminal.
            log_level="critical",
            access_log=False,
            server_header=False,
            ws="none",
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        ready(Secret(f"http://{_HOST}:{port}/?{TOKEN}={token.reveal()}"))
        try:
            with suspended():
                uvicorn.Server(config).run(sockets=[listening])
        except KeyboardInterrupt:
            return


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((_HOST, port))
    except OSError as problem:
        raise UsageError(
            f"port: {port} on {_HOST} can't be used because {problem.strerror}; name another with"
            " --port, or 0 for one that is free"
        ) from problem
