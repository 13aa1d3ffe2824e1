"""The list of runs and other commands over many runs, with and without stored verdicts."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kvmark.cli import main
from kvmark.records import Records, store
from kvmark.stats import Counts
from waiting import wait_until

MakeRun = Callable[..., str]
List = Callable[..., Any]
Ask = Callable[[str], bytes]

JUDGING = """
import os, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from kvmark.cli import judged
pool = ProcessPoolExecutor(1, get_context("spawn"), judged._belong_to_command)
print(pool.submit(os.getpid).result(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def listed(records: Records, capsys: pytest.CaptureFixture[str]) -> List:
    def ask(*words: str) -> Any:
        assert main(["runs", "--json", "-q", *words]) == 0
        return json.loads(capsys.readouterr().out)["runs"]

    return ask


def is_running(process: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes() != b""
    except OSError:
        return False


def test_a_second_list_loads_no_library_that_reads_runs(
    make_run: MakeRun, listed: List, fresh: Callable[..., tuple[str, set[str]]]
) -> None:
    make_run()
    listed()
    out, libraries = fresh("from kvmark.cli import main; main(['runs'])")
    assert {"hdrh", "numpy", "polars", "scipy"}.isdisjoint(libraries)
    assert "ycsb/c" in out


def test_nothing_is_written_into_the_folder_of_a_run(
    make_run: MakeRun, listed: List, records: Records
) -> None:
    path = records.root / make_run()
    before = {each.name: each.stat().st_mtime_ns for each in path.iterdir()}
    listed()
    assert {each.name: each.stat().st_mtime_ns for each in path.iterdir()} == before
    names = {each.name for each in records.root.iterdir()}
    assert names == {path.name, f"{path.name}.verdict.json"}


@pytest.mark.parametrize(
    "damage",
    [
        "", "{", "[]", "{}", "null", '{"made_of": 3}', "[" * 100_000,
        {"judgement": "INVALID"}, {"judgement": "FINE"}, {"throughput": 1.0},
        {"response_ns_p99": 7},
        # An older format judged a run as a repetition.
        {"format": 2, "repetitions": 20, "made_of": "older"},
    ],
)  # fmt: skip
def test_a_damaged_changed_or_older_verdict_is_made_again(
    make_run: MakeRun, listed: List, records: Records, damage: str | dict[str, object]
) -> None:
    path = records.verdict_path(make_run())
    first = listed()
    kept = json.loads(path.read_text())
    path.write_text(damage if isinstance(damage, str) else json.dumps({**kept, **damage}))
    assert listed() == first
    assert json.loads(path.read_text()) == kept


def test_a_run_that_replaces_another_is_read_again(
    make_run: MakeRun, listed: List, records: Records
) -> None:
    run = make_run(0, "old")
    listed()
    other = make_run(1, "new")
    shutil.rmtree(records.root / run)
    (records.root / other).rename(records.root / run)
    assert [line["entry"]["tags"] for line in listed()] == [["new"]]


def test_a_closed_run_that_cannot_be_read_is_in_the_list_with_its_problem(
    make_run: MakeRun, listed: List, records: Records
) -> None:
    damaged, whole = make_run(0), make_run(1)
    path = records.root / damaged / "intervals.parquet"
    path.chmod(0o644)
    path.write_bytes(b"not a table")
    found = {line["entry"]["id"]: line for line in listed()}
    assert found[damaged]["entry"]["state"] == "broken"
    assert "intervals.parquet" in found[damaged]["entry"]["problem"]
    assert found[whole]["judgement"] is not None


def test_many_runs_are_judged_by_a_process_on_each_core_and_listed_as_ever(
    make_run: MakeRun, listed: List, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [make_run(age) for age in range(17)]
    damaged = records.root / made[5] / "intervals.parquet"
    damaged.chmod(0o644)
    damaged.write_bytes(b"not a table")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    by_one = listed()
    for path in records.root.glob("*.verdict.json"):
        path.unlink()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    # Other processes have it still.
    monkeypatch.delattr("kvmark.analysis.verdict.judge.judge")
    assert listed() == by_one
    assert [line["entry"]["state"] for line in by_one].count("broken") == 1
    assert len(list(records.root.glob("*.verdict.json"))) == 16


def test_runs_whose_judging_process_was_killed_are_judged_by_the_command(
    make_run: MakeRun, listed: List, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    for age in range(16):
        make_run(age)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("kvmark.cli.judged._belong_to_command", partial(os._exit, -9))
    assert all(line["judgement"] for line in listed())
    assert len(list(records.root.glob("*.verdict.json"))) == 16


def test_processes_that_judge_end_with_a_command_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", JUDGING], stdout=subprocess.PIPE, text=True
    ) as command:
        assert command.stdout is not None
        judging = int(command.stdout.readline())
        command.kill()
        wait_until(lambda: not is_running(judging), "the process that judges ended, too")


def test_runs_are_listed_where_nothing_can_be_written(
    make_run: MakeRun, listed: List, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run()

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, os.strerror(28), str(path))

    monkeypatch.setattr(store.files, "write_atomically", full)
    [line] = listed()
    assert line["judgement"] is not None
    assert not list(records.root.glob("*.json"))


def test_two_concurrent_lists_are_equal(make_run: MakeRun, records: Records) -> None:
    for age in range(4):
        make_run(age)
    program = "from kvmark.cli import main; main(['runs', '--json', '-q'])"
    both = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [one.communicate(timeout=300)[0] for one in both]
    assert answers[0] == answers[1]
    assert [line.judgement is None for line in records.lines()] == [False] * 4
    assert not [path for path in records.root.iterdir() if path.name.startswith(".")]


def test_a_folder_that_is_not_there_is_refused_by_name(
    records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "--runs", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err


COMMANDS = {
    "list": ("runs", "--json", "-q"),
    "show": ("show", "last", "--json"),
    "compare": ("compare", "tag:base", "tag:changed", "--allow", "invalid"),
    "history": ("runs", "history", "--metric", "p50", "--all"),
    "history without INVALID": ("runs", "history", "--metric", "mean"),
    "report": ("runs", "report", "-q", "-o", "report.html"),
}
A_SIDE = 3


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
    damages = (b"", b"{", b'{"made_of": "another"}', kept[0])
    for path, damage in zip(paths, itertools.cycle(damages), strict=False):
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
    from kvmark.analysis.summary import chart_data
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
    monkeypatch.setattr(chart_data, "counts_of", lambda encoded, _: decode(encoded))
    monkeypatch.setattr(gather, "MOST_DRAWN", most_drawn)
    ask(name)
    # The runs are copies of one: each has the same histograms.
    assert max(asked.values(), default=0) <= len(made)
    assert bool(asked) == (name != "list")
