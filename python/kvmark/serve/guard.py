"""Refuses what isn't this machine's user reading: other methods, and other names of this machine.

A page from elsewhere may make its own name mean 127.0.0.1 and then read from here as if it were
its own server. Its requests still carry that name, which is not ours.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["CLOSED_POLICY", "Guard"]

CLOSED_POLICY: Final = (
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)
"""Of pages without a script."""
_POLICY: Final = "Content-Security-Policy"
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """An application that another one stands behind, which listens on a port of 127.0.0.1."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._names = (f"127.0.0.1:{port}", f"localhost:{port}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it; every answer gets the headers of a careful page."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if _POLICY not in headers:
                    headers[_POLICY] = CLOSED_POLICY
            await send(message)

        await self._answerer(scope)(scope, receive, send_with_headers)

    def _answerer(self, scope: Scope) -> ASGIApp:
        if scope["method"] not in {"GET", "HEAD"}:
            told = "this application only shows runs: GET and HEAD are what it answers\n"
            return PlainTextResponse(told, 405, {"Allow": "GET, HEAD"})
        if Headers(scope=scope).get("host", "").lower() not in self._names:
            told = f"this application answers to http://{self._names[0]}/ only\n"
            return PlainTextResponse(told, 421)
        return self._app
