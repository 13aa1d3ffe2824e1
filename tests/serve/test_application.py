"""The pages of the application, and the requests that it rejects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from kvmark.analysis.verdict.judge import Verdict, known_line, save_verdict
from kvmark.records import Records, RunLine
from kvmark.records.store import Judgement
from kvmark.secret import Secret
from kvmark.serve.app import make_app
from kvmark.serve.library import Filter, Library
from runs_on_disk import begun, closed, killed, snapshot, write_second

PORT = 8765
HOST = f"127.0.0.1:{PORT}"
TOKEN = "q1w2e3r4-t5z6"
COOKIE = f"kvmark-{PORT}"
KNOWN = {"Cookie": f"{COOKIE}={TOKEN}"}
HOSTILE = "<script>alert(1)</script>"


def ask(
    runs: Records | Library, address: str, method: str = "GET", **headers: str
) -> httpx.Response:
    """Sends a request to the application without a network, with the token."""
    library = Library(runs) if isinstance(runs, Records) else runs
    transport = httpx.ASGITransport(app=make_app(library, PORT, Secret(TOKEN)))

    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            return await client.request(method, address, headers={**KNOWN, **headers})

    return asyncio.run(asked())


@dataclass(frozen=True)
class Shelf:
    """A folder with a run of each state, and its application."""

    records: Records
    fast: str
    slow: str
    going: str
    dead: str

    def ask(self, address: str, method: str = "GET", **headers: str) -> httpx.Response:
        return ask(self.records, address, method, **headers)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    records = Records(tmp_path_factory.mktemp("shelf") / "runs")
    fast = closed(records, tags=("nightly", HOSTILE))
    slow = closed(records, name="ycsb/e", factor=10)
    going = begun(records, name="ycsb/a")
    write_second(going, 0, failed=7)
    dead = killed(begun(records, name="ycsb/b"))
    broken = records.root / "20260101-000000-broken-0000"
    broken.mkdir()
    (broken / "manifest.json").write_text("{")
    yield Shelf(records, fast.id, slow.id, going.id, dead.id)
    going.release()


def test_the_list_has_every_run_with_its_figures(shelf: Shelf) -> None:
    text = shelf.ask("/").text
    for run in (shelf.fast, shelf.slow, shelf.going, shelf.dead):
        assert f'href="/runs/{run}"' in text
    assert all(f">{cell}<" in text for cell in ("250", "going", "killed", "broken"))


@pytest.mark.parametrize(("query", "shown"), [
    ("words=YCSB/E", {"slow"}),
    ("words=ycsb/c null", {"fast"}),
    ("tag=nightly", {"fast"}),
    ("verdict=going", {"going"}),
    ("verdict=killed", {"dead"}),
    ("words=nothing-like-it", set()),
])  # fmt: skip
def test_the_list_can_be_filtered(shelf: Shelf, query: str, shown: set[str]) -> None:
    text = shelf.ask(f"/?{quote(query, safe='=&')}").text
    ids = {name: getattr(shelf, name) for name in ("fast", "slow", "going", "dead")}
    assert {name for name, run in ids.items() if f'href="/runs/{run}"' in text} == shown


def test_runs_of_one_command_are_below_one_row(tmp_path: Path) -> None:
    records, tag = Records(tmp_path / "runs"), "study:20260101-000000-sweep-0123-4567"
    ids = [closed(records, tags=(*tags, "nightly")).id for tags in ((tag,), (tag,), ())]
    text = ask(records, "/").text
    assert text.index("Compare the marked runs") < text.index("<tbody>")
    alone, command = (part for part in text.split("<tbody>")[1:])
    assert (ids[2] in alone, 'class="fold"' in alone) == (True, False)
    assert all(run in command for run in ids[:2])
    assert "2 runs: ycsb/c" in command
    assert command.count(tag) == 1
    assert command.count(">nightly<") == 2


def test_only_listed_runs_are_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []

    def counted(records: Records, line: RunLine, *, keep: bool) -> RunLine:
        judged.append(line.entry.id)
        return known_line(records, line, keep=keep)

    monkeypatch.setattr("kvmark.serve.library.known_line", counted)
    records = Records(tmp_path / "runs")
    for _ in range(3):
        records.verdict_path(closed(records).id).unlink()
        killed(begun(records, name="ycsb/b"))
    library = Library(records)
    lines, total = library.find(Filter(words="ycsb/c"), 2)
    assert (len(lines), total) == (2, 3)
    assert judged == [line.entry.id for line in lines]
    assert [library.find(Filter(verdict="killed"), most)[1] for most in (2, 4)] == [None, 3]


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        # A report, a comparison, a running run with its newest interval, and one that isn't closed.
        ("/runs/{fast}", ("Can it be believed?", 'data-figure="response"', 'href="/"')),
        ("/compare?run={fast}&run={slow}", ("{fast}", "{slow}", "2 runs")),
        ("/runs/{going}", ('data-goes="true"', "1,007 ops/s", "7 timeout")),
        ("/runs/{dead}", ('data-goes="false"', "kvmark show {dead}")),
    ],
)
def test_runs_have_pages(shelf: Shelf, address: str, parts: tuple[str, ...]) -> None:
    answer = shelf.ask(address.format(**vars(shelf)))
    assert answer.status_code == 200
    assert all(part.format(**vars(shelf)) in answer.text for part in parts)


def test_the_page_of_a_running_run_polls_its_figures(shelf: Shelf) -> None:
    values = shelf.ask(f"/runs/{shelf.going}/live").json()
    assert values["goes"] is True
    assert [figure["name"] for figure in values["figures"]] == ["rate", "response"]


def test_reading_changes_nothing_on_disk(shelf: Shelf) -> None:
    before = snapshot(shelf.records.root)
    for run in (shelf.fast, shelf.going, shelf.dead):
        shelf.ask(f"/runs/{run}")
        shelf.ask(f"/runs/{run}/live")
    shelf.ask(f"/compare?run={shelf.fast}")
    assert snapshot(shelf.records.root) == before


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_get_and_head_are_permitted(shelf: Shelf, method: str) -> None:
    head = shelf.ask("/", "HEAD")
    assert (head.status_code, head.text) == (200, "")
    answer = shelf.ask(f"/runs/{shelf.fast}", method)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "address",
    [
        "/runs/../secret", "/runs/%2e%2e%2fsecret", "/runs/..%5csecret",
        "/runs/%252e%252e%252fsecret", "/runs//etc/passwd", "/runs/%2fetc%2fpasswd", "/runs/%00",
        "/runs/last", "/runs/2026", "/static/../app.py", "/static/..%2fapp.py",
        "/static/%2fetc%2fpasswd",
    ],
)  # fmt: skip
def test_no_address_leads_out_of_the_folder(shelf: Shelf, address: str) -> None:
    (shelf.records.root.parent / "secret").write_text("secret")
    answer = shelf.ask(address)
    assert answer.status_code in {404, 405}
    assert "secret" not in answer.text.replace("there is nothing", "")


def test_a_link_is_no_run(tmp_path: Path) -> None:
    elsewhere, here = Records(tmp_path / "elsewhere"), Records(tmp_path / "runs")
    outside, inside = closed(elsewhere), closed(here)
    (here.root / outside.id).symlink_to(outside.path)
    assert ask(here, f"/runs/{inside.id}").status_code == 200
    assert ask(here, f"/runs/{outside.id}").status_code == 404
    assert f"/runs/{outside.id}" not in ask(here, "/").text
    # Neither is a run with a link in its folder shown.
    (inside.path / "resources.parquet").unlink()
    (inside.path / "resources.parquet").symlink_to("/etc/hostname")
    assert ask(here, f"/runs/{inside.id}").status_code == 404


@pytest.mark.parametrize("place", ["/", "/nowhere", "report", "live", "/static/live.js"])
def test_every_answer_has_safe_headers(shelf: Shelf, place: str) -> None:
    runs = {"report": f"/runs/{shelf.fast}", "live": f"/runs/{shelf.going}"}
    headers = shelf.ask(runs.get(place, place)).headers
    safe = {
        "x-content-type-options": "nosniff", "referrer-policy": "no-referrer",
        "x-frame-options": "DENY", "cross-origin-resource-policy": "same-origin",
    }  # fmt: skip
    assert safe.items() <= headers.items()
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]


def test_hostile_names_are_only_text(shelf: Shelf) -> None:
    for address in ("/", f"/?words={quote(HOSTILE)}", f"/runs/{quote(HOSTILE)}"):
        assert HOSTILE not in shelf.ask(address).text


@pytest.mark.parametrize(("address", "code", "sentence"), [
    ("/compare", 422, "0 runs are selected; 1 to 8 can be compared"),
    ("/compare?" + "run=a&" * 9, 422, "9 runs are selected; 1 to 8 can be compared"),
    ("/compare?run=a&run=b", 404, "there is no run of this id"),
    ("/?words=" + "w" * 201, 422, "words has 201 characters; the limit is 200"),
    ("/nowhere", 404, "there is nothing at this address"),
    ("/runs/20260101-000000-broken-0000", 422, "can&#39;t be read"),
])  # fmt: skip
def test_an_error_is_shown_on_a_page(shelf: Shelf, address: str, code: int, sentence: str) -> None:
    answer = shelf.ask(address)
    assert answer.status_code == code
    assert answer.headers["content-type"].startswith("text/html")
    assert sentence in answer.text.lower()


def test_a_later_verdict_is_shown_in_the_list(tmp_path: Path) -> None:
    records = Records(tmp_path / "runs")
    run, library = closed(records), Library(records)
    ask(library, "/")
    save_verdict(records, run, Verdict(Judgement.INVALID, ()))
    assert 'class="verdict invalid"' in ask(library, "/").text


WRONG_TOKENS = ["token=", "token=x", f"token={TOKEN}x", f"Token={TOKEN}"]
REJECTED = {
    "Cookie": ["", f"{COOKIE}=", f"{COOKIE}={TOKEN[:-1]}", f"{COOKIE}={TOKEN}x", TOKEN,
               f"kvmark-{PORT + 1}={TOKEN}"],
    "Authorization": [f"token {TOKEN}"],
    "Host": ["evil.example", f"evil.example:{PORT}", "127.0.0.1:1", "", "[::1]"],
    "Origin": ["http://evil.example", "null", f"http://127.0.0.1:{PORT + 1}"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("header", "value"), [(header, value) for header in REJECTED for value in REJECTED[header]]
)
def test_without_token_or_from_elsewhere_is_no_page(shelf: Shelf, header: str, value: str) -> None:
    is_foreign, code = header in ("Host", "Origin"), 421 if header == "Host" else 403
    headers = {header: value} if is_foreign else {"Cookie": "", header: value}
    tokens = [f"token={TOKEN}"] if is_foreign else WRONG_TOKENS
    runs = [f"/runs/{shelf.fast}", f"/runs/{shelf.going}", f"/runs/{shelf.going}/live"]
    others = [f"/compare?run={shelf.fast}", "/static/live.js", "/nowhere", "/runs/none"]
    for address in ["/", *runs, *others, *(f"/?{token}" for token in tokens)]:
        for method in ("GET", "HEAD"):
            answer = shelf.ask(address, method, **headers)
            assert answer.status_code == code, address
            assert shelf.fast not in answer.text
            assert TOKEN not in answer.text + str(answer.headers)
            assert "set-cookie" not in answer.headers
    if not is_foreign:
        assert "open the address that kvmark serve printed" in shelf.ask("/", **headers).text


@pytest.mark.parametrize(
    "headers", [{"Host": f"LocalHost:{PORT}"}, {"Origin": f"http://{HOST}"}], ids=str
)
def test_the_own_host_and_origin_are_admitted(shelf: Shelf, headers: dict[str, str]) -> None:
    assert shelf.ask("/", **headers).status_code == 200


@pytest.mark.parametrize(("address", "place"), [
    (f"/?token={TOKEN}", "/"),
    (f"/?words=a&token={TOKEN}&tag=b%26c", "/?words=a&tag=b%26c"),
    (f"/compare?run=a&run=b&token={TOKEN}", "/compare?run=a&run=b"),
    (f"//evil.example/?token={TOKEN}", "//evil.example/"),
])  # fmt: skip
def test_the_token_of_the_address_becomes_a_cookie(shelf: Shelf, address: str, place: str) -> None:
    answer = shelf.ask(f"http://{HOST}{address}", Cookie="")
    assert answer.status_code == 303
    assert answer.headers["location"] == f"http://{HOST}{place}"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}={TOKEN};")
    assert {"httponly", "samesite=strict"} <= {part.strip().lower() for part in cookie.split(";")}
    assert TOKEN not in answer.text
