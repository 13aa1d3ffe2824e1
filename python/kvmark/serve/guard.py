"""Rejects requests of other users and sites: by method, host name, origin and token.

Every user of this machine can reach 127.0.0.1, and so can every page in the user's browser. The
user's browser has the token from the printed address; the first response turns it into a cookie and
removes it from the address bar. A foreign page can bind its name to 127.0.0.1 and send requests
from there, but these have that name, or its origin, and are rejected.
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
"""The name of the token in the address."""
CLOSED_POLICY: Final = (
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)
"""The policy of pages without a script."""
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
    """A wrapper around an application that listens on a port of 127.0.0.1."""

    def __init__(self, app: ASGIApp, port: int, token: Secret) -> None:
        self._app = app
        self._names = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._token = token
        # Cookies are shared by all ports of a name.
        self._cookie = f"kvmark-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or rejects it; every response gets security headers."""
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

        await self._responder(scope)(scope, receive, send_with_headers)

    def _responder(self, scope: Scope) -> ASGIApp:
        if scope["method"] not in {"GET", "HEAD"}:
            text = "this application is read-only: use GET or HEAD\n"
            return PlainTextResponse(text, 405, {"Allow": "GET, HEAD"})
        headers = Headers(scope=scope)
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        if host not in self._names:
            text = f"the address of this application is http://{self._names[0]}/\n"
            return PlainTextResponse(text, 421)
        if origin is not None and origin.lower() != f"http://{host}":
            return PlainTextResponse("requests of other sites are rejected\n", 403)
        query = QueryParams(scope["query_string"])
        if any(map(self._is_token, query.getlist(TOKEN))):
            return self._set_cookie(scope["path"], query, host)
        if not self._is_token(Request(scope).cookies.get(self._cookie, "")):
            text = "the token is missing: open the address that kvmark serve printed\n"
            return PlainTextResponse(text, 403)
        return self._app

    def _is_token(self, text: str) -> bool:
        # Secrets are compared in constant time.
        return Secret(text) == self._token

    def _set_cookie(self, path: str, query: QueryParams, host: str) -> ASGIApp:
        """Sets the token as a cookie, and redirects to the address without it."""
        others = urlencode([(name, value) for name, value in query.multi_items() if name != TOKEN])
        # With the host name, because a path like //elsewhere would redirect to that host.
        place = f"http://{host}{quote(path)}{'?' if others else ''}{others}"
        response = RedirectResponse(place, 303)
        response.set_cookie(self._cookie, self._token.reveal(), httponly=True, samesite="strict")
        return response
