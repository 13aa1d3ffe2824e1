"""Runs are created, listed and selected; a broken run never hides others."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import ForeignFile, RecordsError
from kvmark.records import Header, Records, Run, RunFolder, close_run, files
from kvmark.removal import discard_folder, foreign_file, remove_folder

NOON = datetime(2026, 11, 21, 7, 48, 12, tzinfo=UTC)

HEADER = Header(plan={"name": "ycsb/a"})
ENGINE = {
    "started_wall_ns": 0, "system": {"system": "RocksDB", "version": "10.4.2"},
    "capabilities": None, "clock": None, "phases": [], "totals": [],
}  # fmt: skip


def at(root: Path, *instants: datetime, tokens: tuple[str, ...] = ()) -> Records:
    """Records with this clock and these tokens; the last of each is repeated."""

    def in_turn(values: tuple[Any, ...]) -> Callable[[], Any]:
        return chain(values, repeat(values[-1])).__next__

    options = {"token": in_turn(tokens)} if tokens else {}
    return Records(root, now=in_turn(instants), **options)


def close(folder: RunFolder) -> str:
    """A closed run without a measurement."""
    folder.begin(HEADER)
    folder.end(ENGINE)
    return close_run(folder.path).id


@given(st.text(max_size=80))
def test_any_name_gives_an_id_that_is_a_plain_folder_name(name: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as root:
        folder = at(Path(root), NOON).new(name)
        assert re.fullmatch(r"20261121-074812-([a-z0-9-]*-)?[0-9a-f]{4}", folder.id)
        assert [entry.id for entry in Records(Path(root)).list()] == [folder.id]


def test_runs_of_one_second_never_share_a_folder(tmp_path: Path) -> None:
    records = at(tmp_path, NOON, tokens=("aaaa", "aaaa", "aaaa", "bbbb"))
    # An id is time, name and token.
    ids = [records.new("ycsb/x").id for _ in range(2)]
    assert ids == ["20261121-074812-ycsb-x-aaaa", "20261121-074812-ycsb-x-bbbb"]
    records = at(tmp_path, NOON)
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: records.new("x").id, range(64)))
    assert len(set(ids)) == 64


def test_the_default_folder_is_of_the_environment_or_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVMARK_RUNS", "/elsewhere")
    assert Records.at(None).root == Path("/elsewhere")
    monkeypatch.delenv("KVMARK_RUNS")
    assert Records.at(None).root == Path("runs")


def test_entries_that_are_no_runs_are_not_listed(tmp_path: Path) -> None:
    assert Records(tmp_path / "nowhere").list() == []
    (tmp_path / "20261121-074812-x-3f9c.verdict.json").write_text("{}")
    (tmp_path / "20261101-000000-notes-ab11").write_text("a file with the name of a run")
    (tmp_path / "notes").mkdir()
    assert Records(tmp_path).list() == []


def test_runs_of_one_second_are_listed_by_their_exact_time(tmp_path: Path) -> None:
    instants = [NOON + timedelta(microseconds=step) for step in (1, 2, 3)]
    records = at(tmp_path, *instants, tokens=("bbbb", "cccc", "aaaa"))
    made = [close(records.new("x")) for _ in range(3)]
    assert [entry.id for entry in records.list()] == made[::-1]
    assert records.find("last").id == made[2]
    assert records.find("last~2").id == made[0]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"plan": 7, "created": 1}', "\x00", "[" * 100_000]
)
def test_a_broken_manifest_is_listed_as_broken(tmp_path: Path, content: str) -> None:
    records = at(tmp_path, NOON, NOON + timedelta(seconds=1))
    good = close(records.new("x"))
    broken = records.new("x")
    (broken.path / "manifest.json").write_text(content)
    entries = {entry.id: entry for entry in records.list()}
    entry = entries[good]
    described = (entry.state, entry.name, entry.system, entry.version)
    assert described == ("closed", "ycsb/a", "RocksDB", "10.4.2")
    assert entries[broken.id].state == "broken"
    assert entries[broken.id].problem
    with pytest.raises(RecordsError, match=f"run {broken.id} can't be read"):
        records.open(broken.id)
    (broken.path / "manifest.json").unlink()
    os.mkfifo(broken.path / "manifest.json")
    assert "it is no regular file" in str(records.find(broken.id).problem)
    with pytest.raises(RecordsError, match="no regular file"):
        Run.open(broken.path)


def test_an_empty_folder_with_an_invalid_instant_hides_no_run(tmp_path: Path) -> None:
    records = at(tmp_path, NOON)
    good = close(records.new("x"))
    (tmp_path / "20269999-999999-x-3f9c").mkdir()
    assert {entry.id: (entry.state, entry.problem) for entry in records.list()} == {
        good: ("closed", None),
        "20269999-999999-x-3f9c": ("broken", "it has neither manifest.json nor running.json"),
    }
    assert records.find("last").id == good


def test_a_reference_selects_one_run_or_names_the_nearest(tmp_path: Path) -> None:
    records = at(tmp_path, NOON, NOON + timedelta(days=1), tokens=("3f9c",))
    first, second = close(records.new("ycsb/a")), close(records.new("ycsb/a"))
    for word, run in (("20261121", first), ("20261122", second), (f"{tmp_path}/{first}/", first)):
        assert records.find(word).id == records.open(word).id == run
    for word, message in (
        ("2026", f"'2026' can be {first} or {second}: add to it"),
        ("20261121-074812-ycsb-b-3f9c", f"there is no run .*; the nearest is {first}"),
        ("zzz", "there is no run 'zzz' in"),
        ("", "there is no run ''"),
    ):
        with pytest.raises(RecordsError, match=message):
            records.find(word)


def test_last_skips_running_and_broken_runs(tmp_path: Path) -> None:
    records = at(tmp_path, *(NOON + timedelta(seconds=step) for step in range(3)))
    good = close(records.new("x"))
    running = records.new("x")
    running.begin(HEADER)
    records.new("x")
    assert records.find("last").id == good
    with pytest.raises(RecordsError, match=r"no run 'last~1' in .*: too few were made"):
        records.find("last~1")
    with pytest.raises(RecordsError, match="no run 'last~99999999999999999999'"):
        records.find("last~99999999999999999999")


def test_a_list_reads_only_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = at(tmp_path, *(NOON + timedelta(seconds=step) for step in range(50)))
    for _ in range(50):
        records.new("x")
    read: set[str] = set()
    real = files.read_document

    def counted(path: Path) -> dict[str, Any]:
        read.add(path.parent.name)
        return real(path)

    monkeypatch.setattr(files, "read_document", counted)
    assert len(list(islice(records.lines(), 3))) == 3
    assert 3 <= len(read - {tmp_path.name}) <= 4


# A folder is removed only if all of its files are kvmark's own.


OWN = re.compile(r"manifest\.json|db/\d+\.sst")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "made"
    (made / "db").mkdir(parents=True)
    (made / "manifest.json").write_text("{}")
    (made / "db" / "000001.sst").write_text("")
    return made


def test_a_folder_of_own_files_goes_and_a_missing_one_is_no_problem(folder: Path) -> None:
    remove_folder(folder, OWN)
    assert not folder.exists()
    remove_folder(folder, OWN)


@pytest.mark.parametrize("name", ["notes.txt", "db/notes.txt", "db/manifest.json", "000001.sst"])
def test_one_other_file_keeps_all(folder: Path, name: str) -> None:
    (folder / name).write_text("mine")
    assert foreign_file(folder, OWN) == folder / name
    with pytest.raises(ForeignFile, match=re.escape(f"{folder / name} was not made by kvmark")):
        remove_folder(folder, OWN)
    discard_folder(folder, OWN)
    assert len(list(folder.rglob("*"))) == 4


def test_a_link_is_a_file_and_what_it_leads_to_stays(folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "000002.sst").write_text("mine")
    (folder / "more").symlink_to(mine)
    discard_folder(folder, OWN)
    assert folder.exists()
    link = tmp_path / "link"
    link.symlink_to(mine)
    discard_folder(link, re.compile(".*"))
    assert (mine / "000002.sst").exists()
