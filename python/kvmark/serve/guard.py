"""Refuses whoever isn't the user who started this, reading: by method, name, origin and token.

Every user of this machine reaches 127.0.0.1, and so does every page in the user's browser. The
user's own browser has the token from the address that the command printed, which makes it a cookie
and is gone from the address bar with the first answer. A page from elsewhere may make its own name
mean 127.0.0.1 and then read from here as if it were its own server; its requests still carry that
name, or its own origin, and neither is ours.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kvmark.secret import Secret

TOKEN: Final = "token"  # noqa: S105 - a name
"""What the token is called in the address."""
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

    def __init__(self, app: ASGIApp, port: int, token: Secret) -> None:
        self._app = app
        self._names = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._token = token
        # Cookies are shared by all ports of a name.
        self._cookie = f"kvmark-{port}"

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
        headers = Headers(scope=scope)
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        if host not in self._names:
            told = f"this application answers to http://{self._names[0]}/ only\n"
            return PlainTextResponse(told, 421)
        if origin is not None and origin.lower() != f"http://{host}":
            return PlainTextResponse("another site asks: it gets no answer\n", 403)
        asked = QueryParams(scope["query_string"])
        if any(self._is_token(given) for given in asked.getlist(TOKEN)):
            return self._welcome(scope["path"], asked, host)
        if not self._is_token(Request(scope).cookies.get(self._cookie, "")):
            told = "this is for whoever started it: open the address that kvmark serve printed\n"
            return PlainTextResponse(told, 403)
        return self._app

    def _is_token(self, given: str) -> bool:
        # Secrets are compared in constant time.
        return Secret(given) == self._token

    def _welcome(self, path: str, asked: QueryParams, host: str) -> ASGIApp:
        """Gives the token as a cookie, and leads to the same address without it."""
        others = urlencode([(name, value) for name, value in asked.multi_items() if name != TOKEN])
        # With our own name, or a path like //elsewhere would lead there.
        place = f"http://{host}{quote(path)}{'?' if others else ''}{others}"
        answer = RedirectResponse(place, 303)
        answer.set_cookie(self._cookie, self._token.reveal(), httponly=True, samesite="strict")
        return answer
