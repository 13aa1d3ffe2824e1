"""Disks without space: one sentence that names it, and nothing half written."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import Kvmark, fingerprint, run_folders, sentence_of

from kvmark.records import Records

RUN = ("run", "ycsb/c", "--system", "null:", "--load", "never")
SHORT = ("--operations", "100", "-q")


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Makes disks of a given size."""
    mounted: list[Path] = []

    def mount(size: str) -> Path:
        place = tmp_path / f"disk-{size}"
        place.mkdir()
        options = ["-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
        if os.geteuid() != 0 or shutil.which("mount") is None:
            pytest.skip("only root can mount a disk of its own")
        done = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"a disk can't be mounted here: {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path) -> None:
    """Writes until there is no space left."""
    with (disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        while ballast.write(bytes(1024)):
            pass


def test_a_run_on_a_full_disk_says_so_and_harms_no_other(
    kvmark: Kvmark, tiny_disk: Callable[[str], Path]
) -> None:
    kvmark(*RUN, *SHORT)
    elsewhere = fingerprint(kvmark.runs)
    disk = tiny_disk("256k")
    tiny = Kvmark(kvmark.folder, disk)
    tiny(*RUN, *SHORT)
    before = fingerprint(disk)
    fill(disk)
    result = tiny(*RUN, *SHORT, exits=3)
    sentence = sentence_of(result.err)
    assert "No space left" in sentence or "the disk is full" in sentence
    assert str(disk) in sentence
    assert len(run_folders(disk)) == 1
    assert before.items() <= fingerprint(disk).items()
    assert fingerprint(kvmark.runs) == elsewhere


def test_a_disk_that_fills_during_a_run_ends_it_with_one_sentence(
    kvmark: Kvmark, tiny_disk: Callable[[str], Path]
) -> None:
    disk = tiny_disk("256k")
    tiny = Kvmark(kvmark.folder, disk)
    tiny(*RUN, *SHORT)
    before = fingerprint(disk)
    system = ("run", "ycsb/a", "--system", "sim:?mean_us=10", "--load", "never")
    result = tiny(*system, "--duration", "1h", "--interval", "1ms", "-q", exits=3)
    sentence = sentence_of(result.err)
    assert str(disk) in sentence
    assert "full" in sentence or "No space left" in sentence
    assert before.items() <= fingerprint(disk).items()
    # What was measured is not thrown away: it can be closed when there is space.
    listed = tiny("runs", "--json").json["runs"]
    assert [line["entry"]["state"] for line in listed] == ["killed", "closed"]


def test_a_database_on_a_full_disk_stops_the_load_as_a_failure_of_storage(
    kvmark: Kvmark, tiny_disk: Callable[[str], Path]
) -> None:
    system = ("--system", f"rocksdb:{tiny_disk('8m')}/db")
    result = kvmark("run", "ycsb/c", *system, "--records", "100000", "-q", exits=3)
    sentence = sentence_of(result.err)
    assert "load" in sentence
    assert "storage" in sentence
    [folder] = run_folders(kvmark.runs)
    totals = kvmark.manifest(folder.name)["engine"]["totals"]
    assert "storage" in {total["outcome"] for total in totals}


def test_of_several_files_none_is_imported_when_the_disk_has_no_room_for_all(
    kvmark: Kvmark, tiny_disk: Callable[[str], Path]
) -> None:
    small, large = kvmark.folder / "small.csv", kvmark.folder / "large.csv"
    small.write_text("threads,throughput_ops_s\n1,1000\n")
    rows = "".join(f"{row},{row}\n" for row in range(1, 40_000))
    large.write_text(f"threads,throughput_ops_s\n{rows}")
    disk = tiny_disk("512k")
    tiny = Kvmark(kvmark.folder, disk)
    sentence = sentence_of(tiny("import", small, small, large, exits=3).err)
    assert "the disk is full" in sentence
    assert str(disk) in sentence
    assert list(disk.iterdir()) == []
    # Alone the small one has room.
    tiny("import", small)
    assert len(run_folders(disk)) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_progress_that_can_not_be_shown_is_dropped(kvmark: Kvmark) -> None:
    work = ("ycsb/c", "--system", "sim:?mean_us=100", "--load", "never", "--operations", "500")
    with Path("/dev/full").open("w") as full:
        started = kvmark.start("run", *work, "--json", err=full)
        out, _ = started.communicate(timeout=kvmark.patience_s)
    assert started.returncode in (0, 1)
    assert json.loads(out)["schema"] == "kvmark/run/1"
    with kvmark.start("run", *work, "--json") as started:
        assert started.stderr is not None
        assert started.stdout is not None
        started.stderr.close()
        assert json.loads(started.stdout.read())["summary"]
    assert started.returncode in (0, 1)
    assert [run.state for run in Records(kvmark.runs).list()] == ["closed", "closed"]
