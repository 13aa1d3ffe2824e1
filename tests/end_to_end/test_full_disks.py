"""Full disks: an error names the disk, and no file is partly written."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import Kvmark, fingerprint, outcomes, run_folders, sentence_of

from kvmark.records import Records
from waiting import PATIENCE_S

RUN = "run ycsb/c --system null: --load never --operations 100 -q"
Mount = Callable[[str], Kvmark]


@pytest.fixture
def on_disk(kvmark: Kvmark, tmp_path: Path) -> Iterator[Mount]:
    """Mounts a disk of this size as the folder of runs."""
    mounted: list[Path] = []

    def mount(size: str) -> Kvmark:
        place = tmp_path / f"disk-{size}"
        place.mkdir()
        options = ["-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
        if os.geteuid() != 0 or shutil.which("mount") is None:
            pytest.skip("only root can mount a disk")
        done = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"a disk can't be mounted here: {done.stderr.strip()}")
        mounted.append(place)
        return Kvmark(kvmark.folder, place)

    yield mount
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path) -> None:
    """Writes until there is no space left."""
    with (disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        while ballast.write(bytes(1024)):
            pass


def test_a_run_on_a_full_disk_changes_no_other(kvmark: Kvmark, on_disk: Mount) -> None:
    kvmark(RUN)
    elsewhere = fingerprint(kvmark.runs)
    tiny = on_disk("256k")
    tiny(RUN)
    before = fingerprint(tiny.runs)
    fill(tiny.runs)
    sentence = sentence_of(tiny(RUN, exits=3).err)
    assert "No space left" in sentence or "the disk is full" in sentence
    assert str(tiny.runs) in sentence
    assert len(run_folders(tiny.runs)) == 1
    assert before.items() <= fingerprint(tiny.runs).items()
    assert fingerprint(kvmark.runs) == elsewhere


def test_a_disk_that_fills_during_a_run_ends_it_with_one_sentence(on_disk: Mount) -> None:
    tiny = on_disk("256k")
    tiny(RUN)
    before = fingerprint(tiny.runs)
    words = "run ycsb/a --system sim:?mean_us=10 --load never --duration 1h --interval 1ms -q"
    sentence = sentence_of(tiny(words, exits=3).err)
    assert str(tiny.runs) in sentence
    assert "full" in sentence or "No space left" in sentence
    assert before.items() <= fingerprint(tiny.runs).items()
    # The measurement is kept: the run can be closed when there is space.
    lines = tiny("runs --json").json["runs"]
    assert [line["entry"]["state"] for line in lines] == ["killed", "closed"]


def test_a_full_disk_under_a_database_stops_the_load(kvmark: Kvmark, on_disk: Mount) -> None:
    words = f"run ycsb/c --system rocksdb:{on_disk('8m').runs}/db --records 100000 -q"
    sentence = sentence_of(kvmark(words, exits=3).err)
    assert "load" in sentence
    assert "storage" in sentence
    assert len(run_folders(kvmark.runs)) == 1
    assert "storage" in outcomes(kvmark.manifest())


def test_no_file_is_imported_when_the_disk_has_no_room_for_all(on_disk: Mount) -> None:
    tiny = on_disk("512k")
    small_file, large_file = tiny.folder / "small.csv", tiny.folder / "large.csv"
    small_file.write_text("threads,throughput_ops_s\n1,1000\n")
    rows = "".join(f"{row},{row}\n" for row in range(1, 40_000))
    large_file.write_text(f"threads,throughput_ops_s\n{rows}")
    sentence = sentence_of(tiny("import", small_file, small_file, large_file, exits=3).err)
    assert "the disk is full" in sentence
    assert str(tiny.runs) in sentence
    assert list(tiny.runs.iterdir()) == []
    tiny("import", small_file)
    assert len(run_folders(tiny.runs)) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_progress_that_can_not_be_written_is_dropped(kvmark: Kvmark) -> None:
    words = "run ycsb/c --system sim:?mean_us=100 --load never --operations 500 --json"
    with Path("/dev/full").open("w") as full:
        started = kvmark.start(words, err=full)
        out, _ = started.communicate(timeout=PATIENCE_S)
    assert started.returncode in (0, 1)
    assert json.loads(out)["schema"] == "kvmark/run/1"
    with kvmark.start(words) as started:
        assert started.stderr is not None
        assert started.stdout is not None
        started.stderr.close()
        assert json.loads(started.stdout.read())["summary"]
    assert started.returncode in (0, 1)
    assert [run.state for run in Records(kvmark.runs).list()] == ["closed", "closed"]
