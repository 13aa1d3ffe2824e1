"""Commands over many runs: what is kept beside runs changes no answer, and each is read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kvmark.cli import main
from kvmark.records import Records, store
from kvmark.stats import Counts

MakeRun = Callable[..., str]
Ask = Callable[[str], bytes]

COMMANDS = {
    "list": ("runs", "--json", "-q"),
    "show": ("show", "last", "--json"),
    "compare": ("compare", "tag:base", "tag:changed", "--allow", "invalid"),
    "history": ("runs", "history", "--metric", "p50", "--all"),
    "history without INVALID": ("runs", "history", "--metric", "mean"),
    "report": ("runs", "report", "-q", "-o", "report.html"),
}
A_SIDE = 4


@pytest.fixture
def made(make_run: MakeRun) -> list[str]:
    """Two sides of runs, each with a second of its own."""
    tags = [("base",)] * A_SIDE + [("changed",)] * A_SIDE
    return [make_run(age, *tag) for age, tag in enumerate(tags, 1)]


@pytest.fixture
def ask(made: list[str], capsys: pytest.CaptureFixture[str]) -> Ask:
    """Gives what a command answers, be it text or a page."""

    def answer(name: str) -> bytes:
        report = Path("report.html")
        report.unlink(missing_ok=True)
        assert main([*COMMANDS[name], *(made if name == "report" else ())]) == 0
        told = capsys.readouterr().out.encode()
        return told + (report.read_bytes() if report.exists() else b"")

    return answer


@pytest.mark.parametrize("name", COMMANDS)
def test_an_answer_doesnt_depend_on_stored_verdicts(
    name: str, ask: Ask, made: list[str], records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [records.verdict_path(run) for run in made]
    ask("list")
    kept = [path.read_bytes() for path in paths]
    first = ask(name)
    assert [path.read_bytes() for path in paths] == kept, "what holds isn't made again"
    for damage in (b"", b"{", b'{"made_of": "another"}', kept[0]):
        for path in paths:
            path.write_bytes(damage)
        assert ask(name) == first
    for path in paths:
        path.unlink(missing_ok=True)
    assert ask(name) == first
    ask("list")
    monkeypatch.setattr(store, "_rules", lambda: "other rules")
    assert ask(name) == first


@pytest.mark.parametrize("name", ["compare", "history without INVALID", "report"])
def test_missing_verdicts_are_stored(
    name: str, ask: Ask, made: list[str], records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ask(name)
    assert all(records.verdict_path(run).exists() for run in made)
    monkeypatch.delattr("kvmark.analysis.verdict.judge.judge")
    assert ask(name) == first


@pytest.mark.parametrize("most_drawn", [2, 100])
@pytest.mark.parametrize("name", COMMANDS)
def test_each_histogram_of_a_run_is_decoded_once_at_most(
    name: str, most_drawn: int, ask: Ask, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvmark.records import run
    from kvmark.report.views import gather

    ask("list")
    decode, asked = run.decode, Counter[str]()

    def counted(encoded: str) -> Counts:
        asked[encoded] += 1
        return decode(encoded)

    monkeypatch.setattr(run, "decode", counted)
    # Those of single intervals, which a run as short as these shares with its phase, are others.
    monkeypatch.setattr(run, "decoded", lambda line, _: decode(line.encoded))
    monkeypatch.setattr(gather, "MOST_DRAWN", most_drawn)
    ask(name)
    # The runs are copies of one: each has the same histograms.
    assert max(asked.values(), default=0) <= len(made)
    assert bool(asked) == (name != "list")
