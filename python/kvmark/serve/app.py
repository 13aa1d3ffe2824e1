"""The application: its addresses and their pages, and its server.

It listens only on 127.0.0.1, until it is stopped.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from kvmark import interrupts
from kvmark.errors import KvmarkError, RecordsError, UsageError
from kvmark.records import Records
from kvmark.report.format import html_document
from kvmark.report.views.pages import runs_page
from kvmark.secret import Secret
from kvmark.serve import pages
from kvmark.serve.guard import TOKEN, Guard
from kvmark.serve.library import Filter, Library, NotThere

_MOST_LISTED: Final = 200
_MOST_COMPARED: Final = 8
_LONGEST: Final = 200
_LIVE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HOST: Final = "127.0.0.1"
_TOKEN_BYTES: Final = 24


def make_app(library: Library, port: int, token: Secret) -> Guard:
    """The application for a server on a port of 127.0.0.1, for clients with the token."""

    def runs(request: Request) -> Response:
        filter_ = Filter(*(_parameter(request, name) for name in ("words", "tag", "verdict")))
        lines, total = library.find(filter_, _MOST_LISTED)
        return HTMLResponse(
            pages.list_page(lines, total, filter_, library.tags(), library.records.root)
        )

    def report(ids: Sequence[str]) -> Response:
        text, policy = html_document(runs_page(library.answers(ids)), home="/")
        return _page(text, f"{policy}; frame-ancestors 'none'")

    def run(request: Request) -> Response:
        entry = library.entry(request.path_params["run"])
        if entry.state == "broken":
            raise RecordsError(f"run {entry.id} can't be read: {entry.problem}")
        if entry.state == "closed":
            return report([entry.id])
        return _page(pages.live_page(entry), _LIVE_POLICY)

    def live(request: Request) -> Response:
        entry = library.entry(request.path_params["run"])
        if entry.state in {"closed", "broken"}:
            return JSONResponse({"goes": False, "facts": [], "figures": []})
        return JSONResponse(pages.live_values(entry))

    def compare(request: Request) -> Response:
        ids = request.query_params.getlist("run")
        if not 1 <= len(ids) <= _MOST_COMPARED:
            raise UsageError(f"{len(ids)} runs are selected; 1 to {_MOST_COMPARED} can be compared")
        return report(ids)

    routes = {"/": runs, "/runs/{run}": run, "/runs/{run}/live": live, "/compare": compare}
    app = Starlette(
        routes=[Route(*route) for route in {**routes, "/static/{name}": _static}.items()],
        exception_handlers={KvmarkError: _error_page, HTTPException: _error_page},
    )
    return Guard(app, port, token)


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    try:
        text = pages.static_text(name)
    except KeyError:
        raise HTTPException(404) from None
    kind = "text/css" if name.endswith(".css") else "text/javascript"
    return Response(text, media_type=f"{kind}; charset=utf-8")


def _error_page(_: Request, problem: Exception) -> Response:
    if isinstance(problem, HTTPException):
        text, code = "there is nothing at this address", problem.status_code
    else:
        text, code = str(problem), 404 if isinstance(problem, NotThere) else 422
    return HTMLResponse(pages.problem_page(text), code)


def _parameter(request: Request, name: str) -> str:
    text = request.query_params.get(name, "")
    if len(text) > _LONGEST:
        raise UsageError(f"{name} has {len(text)} characters; the limit is {_LONGEST}")
    return text


def _page(text: str, policy: str) -> HTMLResponse:
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})


def serve(records: Records, port: int, ready: Callable[[Secret], None]) -> None:
    """Serves the runs until Ctrl-C; ``ready`` gets the address before the first request.

    The address contains a new token, which every request needs. Port 0 means any free port.

    Raises:
        UsageError: the port is in use, or isn't permitted.
    """
    with _listening(port) as listening:
        port, token = listening.getsockname()[1], Secret(secrets.token_urlsafe(_TOKEN_BYTES))
        config = uvicorn.Config(
            make_app(Library(records), port, token),
            log_config=None,
            # Invalid requests get a response and print nothing.
            log_level="critical",
            access_log=False,
            server_header=False,
            ws="none",
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        # On another thread, where uvicorn leaves signals alone: a request to stop can come at any
        # time, also while it starts.
        with interrupts.listening() as asked, ThreadPoolExecutor(1) as pool:
            serving = pool.submit(server.run, [listening])
            try:
                ready(Secret(f"http://{_HOST}:{port}/?{TOKEN}={token.reveal()}"))
                interrupts.wait_for(serving.result)
            except KeyboardInterrupt:
                asked.forget()
            finally:
                server.should_exit = True


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((_HOST, port))
    except OSError as problem:
        raise UsageError(
            f"port: {port} on {_HOST} can't be used because {problem.strerror}; name another with"
            " --port, or 0 for one that is free"
        ) from problem
