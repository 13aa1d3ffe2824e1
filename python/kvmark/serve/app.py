"""The addresses of the application, and what each of them shows."""

from typing import Annotated, Final

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from kvmark.errors import KvmarkError, RecordsError
from kvmark.report.html import Document, document
from kvmark.report.page import runs_page
from kvmark.secret import Secret
from kvmark.serve.guard import Guard
from kvmark.serve.library import Asked, Library, NotThere
from kvmark.serve.pages import list_page, live_page, live_values, problem_page, static_text
from kvmark.serve.watching import watched

__all__ = ["make_app"]

_MOST_LISTED: Final = 200
_MOST_COMPARED: Final = 8
_LIVE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_FRAMES: Final = "; frame-ancestors 'none'"


def make_app(library: Library, port: int, token: Secret) -> Guard:
    """The application, for a server on a port of 127.0.0.1 and whoever has the token."""
    app = FastAPI(title="kvmark", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/")
    def runs(
        words: Annotated[str, Query(max_length=200)] = "",
        tag: Annotated[str, Query(max_length=200)] = "",
        verdict: Annotated[str, Query(max_length=20)] = "",
    ) -> HTMLResponse:
        asked = Asked(words, tag, verdict)
        found = [line for line in library.lines() if asked.admits(line)]
        place = str(library.records.root)
        page = list_page(found[:_MOST_LISTED], asked, library.tags(), place, total=len(found))
        return HTMLResponse(page)

    @app.get("/runs/{run}")
    def run(run: str) -> HTMLResponse:
        entry = library.entry(run)
        if entry.state == "broken":
            raise RecordsError(f"run {entry.id} can't be read: {entry.problem}")
        if entry.state == "closed":
            return _report(document(runs_page([library.answer(entry)]), home="/"))
        return HTMLResponse(live_page(watched(entry)), headers=_policy(_LIVE_POLICY))

    @app.get("/runs/{run}/live")
    def live(run: str) -> JSONResponse:
        entry = library.entry(run)
        if entry.state in {"closed", "broken"}:
            return JSONResponse({"goes": False, "facts": [], "figures": []})
        return JSONResponse(live_values(watched(entry)))

    @app.get("/compare")
    def compare(run: Annotated[list[str], Query(max_length=_MOST_COMPARED)]) -> HTMLResponse:
        return _report(document(runs_page(library.answers(run)), home="/"))

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        try:
            text = static_text(name)
        except KeyError:
            raise HTTPException(404) from None
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        return Response(text, media_type=f"{kind}; charset=utf-8")

    _explain_problems(app)
    return Guard(app, port, token)


def _explain_problems(app: FastAPI) -> None:
    """Makes every problem a page with a sentence."""

    @app.exception_handler(KvmarkError)
    def unreadable(_: Request, problem: KvmarkError) -> HTMLResponse:
        code = 404 if isinstance(problem, NotThere) else 422
        return HTMLResponse(problem_page(str(problem)), code)

    @app.exception_handler(HTTPException)
    def nowhere(_: Request, problem: HTTPException) -> HTMLResponse:
        return HTMLResponse(problem_page("there is nothing at this address"), problem.status_code)

    @app.exception_handler(RequestValidationError)
    def wrong(_: Request, problem: RequestValidationError) -> HTMLResponse:
        parts = {str(error["loc"][-1]) for error in problem.errors()}
        sentence = f"what was asked for isn't understood: {', '.join(sorted(parts))}"
        return HTMLResponse(problem_page(sentence), 422)


def _report(page: Document) -> HTMLResponse:
    return HTMLResponse(page.text, headers=_policy(page.policy + _FRAMES))


def _policy(policy: str) -> dict[str, str]:
    return {"Content-Security-Policy": policy}
