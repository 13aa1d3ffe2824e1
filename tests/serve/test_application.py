"""The pages of the application, and the requests that it rejects."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from kvmark.analysis.verdict.judge import Verdict, known_line, save_verdict
from kvmark.records import Judgement, Records, RunFolder, RunLine
from kvmark.secret import Secret
from kvmark.serve.app import make_app
from kvmark.serve.library import Filter, Library
from runs_on_disk import begun, closed, killed, write_second

PORT = 8765
HOST = f"127.0.0.1:{PORT}"
TOKEN = "q1w2e3r4-t5z6"
KNOWN = {"Cookie": f"kvmark-{PORT}={TOKEN}"}
HOSTILE = "<script>alert(1)</script>"


@dataclass(frozen=True)
class Shelf:
    """A folder with a run of each state, and its application."""

    records: Records
    fast: str
    slow: str
    going: RunFolder
    dead: RunFolder
    library: Library

    def ask(
        self, address: str, method: str = "GET", headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """Sends a request to the application without a network, with the token."""
        transport = httpx.ASGITransport(app=make_app(self.library, PORT, Secret(TOKEN)))

        async def asked() -> httpx.Response:
            base = f"http://{HOST}"
            async with httpx.AsyncClient(transport=transport, base_url=base) as client:
                return await client.request(method, address, headers={**KNOWN, **(headers or {})})

        return asyncio.run(asked())


def shelf_of(records: Records, run: str) -> Shelf:
    """A folder with one run."""
    return Shelf(records, run, "", None, None, Library(records))


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    records = Records(tmp_path_factory.mktemp("shelf") / "runs")
    fast = closed(records, tags=("nightly", HOSTILE))
    slow = closed(records, name="ycsb/e", factor=10)
    going = begun(records, name="ycsb/a")
    write_second(going, 0, failed=7)
    dead = killed(begun(records, name="ycsb/b"))
    broken = records.root / "20260101-000000-broken-0000"
    broken.mkdir()
    (broken / "manifest.json").write_text("{")
    return Shelf(records, fast.id, slow.id, going, dead, Library(records))


def test_the_list_has_every_run_with_its_figures(shelf: Shelf) -> None:
    text = shelf.ask("/").text
    for run in (shelf.fast, shelf.slow, shelf.going.id, shelf.dead.id):
        assert f'href="/runs/{run}"' in text
    assert ">250<" in text
    assert ">going<" in text
    assert ">killed<" in text
    assert ">broken<" in text


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("words=YCSB/E", {"slow"}),
        ("words=ycsb/c null", {"fast"}),
        ("tag=nightly", {"fast"}),
        ("verdict=going", {"going"}),
        ("verdict=killed", {"dead"}),
        ("words=nothing-like-it", set()),
    ],
)
def test_the_list_can_be_filtered(shelf: Shelf, query: str, shown: set[str]) -> None:
    text = shelf.ask(f"/?{quote(query, safe='=&')}").text
    ids = {
        "fast": shelf.fast, "slow": shelf.slow, "going": shelf.going.id, "dead": shelf.dead.id
    }  # fmt: skip
    assert {name for name, run in ids.items() if f'href="/runs/{run}"' in text} == shown


def test_no_more_runs_are_judged_than_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    found = library.find(Filter(words="ycsb/c"), 2)
    assert (len(found.lines), found.total) == (2, 3)
    assert judged == [line.entry.id for line in found.lines]
    assert library.find(Filter(verdict="killed"), 2).total is None
    assert library.find(Filter(verdict="killed"), 4).total == 3


def test_a_closed_run_opens_as_its_report(shelf: Shelf) -> None:
    answer = shelf.ask(f"/runs/{shelf.fast}")
    assert answer.status_code == 200
    assert "Can it be believed?" in answer.text
    assert 'data-figure="response"' in answer.text
    assert 'href="/"' in answer.text


def test_two_runs_are_compared_on_one_page(shelf: Shelf) -> None:
    text = shelf.ask(f"/compare?run={shelf.fast}&run={shelf.slow}").text
    assert shelf.fast in text
    assert shelf.slow in text
    assert "2 runs" in text


def test_a_running_run_shows_its_newest_interval(shelf: Shelf) -> None:
    text = shelf.ask(f"/runs/{shelf.going.id}").text
    assert 'data-goes="true"' in text
    assert "1,007 ops/s" in text
    assert "7 timeout" in text
    values = shelf.ask(f"/runs/{shelf.going.id}/live").json()
    assert values["goes"] is True
    assert [figure["name"] for figure in values["figures"]] == ["rate", "response"]


def test_a_killed_run_is_shown_and_not_closed(shelf: Shelf) -> None:
    text = shelf.ask(f"/runs/{shelf.dead.id}").text
    assert 'data-goes="false"' in text
    assert f"kvmark show {shelf.dead.id}" in text


def test_a_broken_run_shows_its_error(shelf: Shelf) -> None:
    answer = shelf.ask("/runs/20260101-000000-broken-0000")
    assert answer.status_code == 422
    assert "can&#39;t be read" in answer.text


def test_reading_changes_nothing_on_disk(shelf: Shelf) -> None:
    def everything() -> dict[str, str]:
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(shelf.records.root.rglob("*"))
            if path.is_file()
        }

    before = everything()
    for run in (shelf.fast, shelf.going.id, shelf.dead.id):
        shelf.ask(f"/runs/{run}")
        shelf.ask(f"/runs/{run}/live")
    shelf.ask(f"/compare?run={shelf.fast}")
    assert everything() == before


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_get_and_head_are_permitted(shelf: Shelf, method: str) -> None:
    answer = shelf.ask(f"/runs/{shelf.fast}", method)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "address",
    [
        "/runs/../secret",
        "/runs/%2e%2e%2fsecret",
        "/runs/..%5csecret",
        "/runs/%252e%252e%252fsecret",
        "/runs//etc/passwd",
        "/runs/%2fetc%2fpasswd",
        "/runs/%00",
        "/runs/last",
        "/runs/2026",
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2fetc%2fpasswd",
    ],
)
def test_no_address_leads_out_of_the_folder(shelf: Shelf, address: str) -> None:
    (shelf.records.root.parent / "secret").write_text("secret")
    answer = shelf.ask(address)
    assert answer.status_code in {404, 405}
    assert "secret" not in answer.text.replace("there is nothing", "")


def test_a_link_is_no_run(tmp_path: Path) -> None:
    elsewhere, here = Records(tmp_path / "elsewhere"), Records(tmp_path / "runs")
    outside, inside = closed(elsewhere), closed(here)
    (here.root / outside.id).symlink_to(outside.path)
    shelf = shelf_of(here, inside.id)
    assert shelf.ask(f"/runs/{inside.id}").status_code == 200
    assert shelf.ask(f"/runs/{outside.id}").status_code == 404
    assert f"/runs/{outside.id}" not in shelf.ask("/").text


def test_a_run_with_a_link_in_its_folder_is_not_shown(tmp_path: Path) -> None:
    records = Records(tmp_path / "runs")
    run = closed(records)
    (run.path / "resources.parquet").unlink()
    (run.path / "resources.parquet").symlink_to("/etc/hostname")
    shelf = shelf_of(records, run.id)
    assert shelf.ask(f"/runs/{run.id}").status_code == 404


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1:1", "", "[::1]"]
)
def test_a_foreign_host_name_is_rejected(shelf: Shelf, host: str) -> None:
    for address in ("/", f"/?token={TOKEN}"):
        answer = shelf.ask(address, headers={"Host": host})
        assert answer.status_code == 421
        assert shelf.fast not in answer.text
        assert "set-cookie" not in answer.headers
    assert shelf.ask("/", headers={"Host": f"LocalHost:{PORT}"}).status_code == 200


@pytest.mark.parametrize("place", ["/", "/nowhere", "report", "live", "/static/live.js"])
def test_every_answer_has_safe_headers(shelf: Shelf, place: str) -> None:
    runs = {"report": f"/runs/{shelf.fast}", "live": f"/runs/{shelf.going.id}"}
    headers = shelf.ask(runs.get(place, place)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]


def test_hostile_names_are_only_text(shelf: Shelf) -> None:
    for address in ("/", f"/?words={quote(HOSTILE)}", f"/runs/{quote(HOSTILE)}"):
        assert HOSTILE not in shelf.ask(address).text


@pytest.mark.parametrize(
    ("address", "code", "sentence"),
    [
        ("/compare", 422, "0 runs are selected; 1 to 8 can be compared"),
        ("/compare?" + "run=a&" * 9, 422, "9 runs are selected; 1 to 8 can be compared"),
        ("/compare?run=a&run=b", 404, "there is no run of this id"),
        ("/?words=" + "w" * 201, 422, "words has 201 characters; the limit is 200"),
        ("/nowhere", 404, "there is nothing at this address"),
    ],
)
def test_an_error_is_shown_on_a_page(shelf: Shelf, address: str, code: int, sentence: str) -> None:
    answer = shelf.ask(address)
    assert answer.status_code == code
    assert answer.headers["content-type"].startswith("text/html")
    assert sentence in answer.text.lower()


def test_a_page_supports_head(shelf: Shelf) -> None:
    answer = shelf.ask("/", method="HEAD")
    assert (answer.status_code, answer.text) == (200, "")


def test_a_later_verdict_is_shown_in_the_list(tmp_path: Path) -> None:
    records = Records(tmp_path / "runs")
    run = closed(records)
    shelf = shelf_of(records, run.id)
    shelf.ask("/")
    save_verdict(records, run, Verdict(Judgement.INVALID, ()))
    assert 'class="verdict invalid"' in shelf.ask("/").text


def every_address(shelf: Shelf) -> list[str]:
    runs = [f"/runs/{shelf.fast}", f"/runs/{shelf.going.id}", f"/runs/{shelf.going.id}/live"]
    return ["/", *runs, f"/compare?run={shelf.fast}", "/static/live.js", "/nowhere", "/runs/none"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Cookie": ""},
        {"Cookie": f"kvmark-{PORT}="},
        {"Cookie": f"kvmark-{PORT}={TOKEN[:-1]}"},
        {"Cookie": f"kvmark-{PORT}={TOKEN}x"},
        {"Cookie": f"kvmark-{PORT + 1}={TOKEN}"},
        {"Cookie": f"{TOKEN}"},
        {"Cookie": "", "Authorization": f"token {TOKEN}"},
    ],
)
def test_without_the_token_nothing_is_shown(shelf: Shelf, headers: dict[str, str]) -> None:
    for address in every_address(shelf):
        for method in ("GET", "HEAD"):
            answer = shelf.ask(address, method, headers)
            assert answer.status_code == 403, address
            assert shelf.fast not in answer.text
            assert TOKEN not in answer.text + str(answer.headers)
    assert "open the address that kvmark serve printed" in shelf.ask("/", headers=headers).text


@pytest.mark.parametrize("query", ["token=", "token=x", f"token={TOKEN}x", f"Token={TOKEN}"])
def test_a_wrong_token_opens_nothing(shelf: Shelf, query: str) -> None:
    answer = shelf.ask(f"/?{query}", headers={"Cookie": ""})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (f"/?token={TOKEN}", "/"),
        (f"/?words=a&token={TOKEN}&tag=b%26c", "/?words=a&tag=b%26c"),
        (f"/compare?run=a&run=b&token={TOKEN}", "/compare?run=a&run=b"),
        (f"//evil.example/?token={TOKEN}", "//evil.example/"),
    ],
)
def test_the_token_of_the_address_becomes_a_cookie(shelf: Shelf, address: str, place: str) -> None:
    answer = shelf.ask(f"http://{HOST}{address}", headers={"Cookie": ""})
    assert answer.status_code == 303
    assert answer.headers["location"] == f"http://{HOST}{place}"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"kvmark-{PORT}={TOKEN};")
    assert {"httponly", "samesite=strict"} <= {part.strip().lower() for part in cookie.split(";")}
    assert TOKEN not in answer.text


@pytest.mark.parametrize("origin", ["http://evil.example", "null", f"http://127.0.0.1:{PORT + 1}"])
def test_another_origin_is_rejected_even_with_the_token(shelf: Shelf, origin: str) -> None:
    for address in ("/", f"/?token={TOKEN}"):
        answer = shelf.ask(address, headers={"Origin": origin})
        assert answer.status_code == 403
        assert shelf.fast not in answer.text
        assert "set-cookie" not in answer.headers
    assert shelf.ask("/", headers={"Origin": f"http://{HOST}"}).status_code == 200
