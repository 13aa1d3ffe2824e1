"""Systems and disks that fail or stop answering, and runs that are INVALID: exit codes 3 and 1."""

import json
import os
import shutil
import signal
import socketserver
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from command_line import EVENTS, Kvmark, fingerprint, levels, outcomes, run_folders, sentence_of
from real_servers import redis_up
from scripted_store import bulk, read_command, serving, store

from kvmark.drivers import drivers, is_embedded
from kvmark.records import Records, files
from kvmark.testbed.console import Console
from kvmark.testbed.state import Testbed

SHORT = "--records 50 --operations 100 -q"


@pytest.mark.parametrize(
    ("words", "path", "exits"),
    [
        ("ycsb/a --system rocksdb:{}/letters", "{}/letters", 3),
        ("ycsb/a --system rocksdb:{}/file", "{}/file", 2),
        ("ycsb/a --system rocksdb:{}/not/there", "{}/not", 3),
        ("ycsb/c --system rocksdb:{}/db --load never", "no RocksDB database", 3),
    ],
    ids=["a folder of other files", "a file", "a folder in a missing one", "a missing database"],
)
def test_what_is_no_database_is_kept(kvmark: Kvmark, words: str, path: str, exits: int) -> None:
    (kvmark.folder / "letters").mkdir()
    (kvmark.folder / "letters" / "letter.txt").write_text("Dear Sir")
    (kvmark.folder / "file").write_text("")
    before = fingerprint(kvmark.folder)
    sentence = kvmark.refuses(f"run {words.format(kvmark.folder)} {SHORT}", exits=exits)
    assert path.format(kvmark.folder) in sentence
    assert fingerprint(kvmark.folder) == before
    assert {one.name for one in kvmark.folder.iterdir()} <= {"letters", "file", "runs"}


@pytest.mark.parametrize("words", [f"run ycsb/c --system null: {SHORT}", "ycsb --records 10"])
def test_a_file_as_the_folder_of_runs_is_refused(kvmark: Kvmark, words: str) -> None:
    kvmark.runs.write_text("")
    result = kvmark(words, exits=2)
    assert str(kvmark.runs) in result.err.splitlines()[-1], result
    assert result.err.splitlines()[-1].startswith("kvmark: "), result
    assert "Traceback" not in result.err


def test_an_invalid_run_is_kept_with_exit_code_1(kvmark: Kvmark) -> None:
    kvmark(f"run ycsb/c --system null: --load never {SHORT}")
    earlier = fingerprint(kvmark.runs)
    words = "run ycsb/c --system sim:?clock=virtual&error_share=0.5 --load never"
    result = kvmark(words, "--operations", "2000", "--json", exits=1)
    assert result.json["verdict"]["judgement"] == "INVALID"
    assert "INVALID" in result.err.splitlines()[-1]
    verdict = kvmark.runs / f"{result.json['run']}.verdict.json"
    assert json.loads(verdict.read_text())["judgement"] == "INVALID"
    assert earlier.items() <= fingerprint(kvmark.runs).items()


def test_an_overloaded_system_makes_a_run_invalid_and_errors_a_case(kvmark: Kvmark) -> None:
    system = "sim:?clock=virtual&service=constant&mean_us=1000"
    load = "--rate 2000 --duration 1s --interval 100ms --load never -q"
    out = kvmark(f"run ycsb/c --system {system} {load}", exits=1).out
    assert "\nINVALID offered_rate_not_reached: " in out
    words = "ycsb --system sim:?error_share=0.5&mean_us=1 --workloads c --records 100"
    result = kvmark(words, "--repetitions", "2", "--report", "none", "-q", exits=1)
    assert "1 of 1 cases is INVALID" in result.err


def test_two_runs_do_not_share_a_database(kvmark: Kvmark) -> None:
    place = f"{kvmark.folder}/db"
    words = f"run ycsb/a --system rocksdb:{place} --records 100 -q"
    first = kvmark.start(words, "--duration", "1h", "--interval", "50ms")
    first.wait_for(count=2)
    sentence = sentence_of(kvmark(words, "--operations", "100", exits=3).err)
    assert f"another process has opened the RocksDB database at {place}: " in sentence
    assert run_folders(kvmark.runs) == [first.folder]
    first.interrupt()
    assert outcomes(kvmark.manifest()) == {"ok"}
    kvmark(words, "--operations", "100")


class Endless(socketserver.StreamRequestHandler):
    """Answers everything except PING and INFO with a reply that never ends."""

    def handle(self) -> None:
        replies = {b"PING": b"+PONG\r\n", b"INFO": bulk(b"redis_version:7.0.15\r\n")}
        while words := read_command(self.rfile):
            name = words[0].upper()
            if name not in (b"HGETALL", b"HMGET"):
                self.wfile.write(replies.get(name, b"-ERR unknown command\r\n"))
                continue
            with suppress(OSError):
                self.wfile.write(b"*1073741824\r\n")
                while True:
                    self.wfile.write(b"$1000\r\n%s\r\n" % (b"x" * 1000) * 1000)
            return


def test_an_endless_reply_fails_and_takes_bounded_memory(kvmark: Kvmark) -> None:
    with serving(Endless) as port:
        words = f"run ycsb/c --system redis://127.0.0.1:{port} --load never --operations 1"
        text = kvmark(words, "--timeout", "60s", "-q", "--json", exits=(1, 3)).out
    assert "1 protocol" in text
    assert "longer than 576 MiB" in text


RUN = "run ycsb/c --system null: --load never --operations 100 -q"
Mount = Callable[[str], Kvmark]


@pytest.fixture
def on_disk(kvmark: Kvmark, tmp_path: Path) -> Iterator[Mount]:
    """Mounts a disk of this size as the folder of runs."""
    mounted: list[Path] = []

    def mount(size: str) -> Kvmark:
        place = tmp_path / f"disk-{size}"
        place.mkdir()
        if os.geteuid() != 0 or shutil.which("mount") is None:
            pytest.skip("only root can mount a disk")
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"a disk can't be mounted here: {done.stderr.strip()}")
        mounted.append(place)
        return Kvmark(kvmark.folder, place)

    yield mount
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)


def full_disk_error(kvmark: Kvmark, words: str) -> str:
    """The error of a command on a full disk, which changes no earlier run."""
    before = fingerprint(kvmark.runs)
    sentence = sentence_of(kvmark(words, exits=3).err)
    assert "No space left" in sentence or "full" in sentence
    assert str(kvmark.runs) in sentence
    assert before.items() <= fingerprint(kvmark.runs).items()
    return sentence


def test_a_run_on_a_full_disk_changes_no_other(kvmark: Kvmark, on_disk: Mount) -> None:
    kvmark(RUN)
    elsewhere = fingerprint(kvmark.runs)
    tiny = on_disk("256k")
    tiny(RUN)
    with (tiny.runs / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        while ballast.write(bytes(1024)):
            pass
    full_disk_error(tiny, RUN)
    assert len(run_folders(tiny.runs)) == 1
    assert fingerprint(kvmark.runs) == elsewhere


def test_a_disk_that_fills_during_a_run_ends_it_with_one_sentence(on_disk: Mount) -> None:
    tiny = on_disk("256k")
    tiny(RUN)
    words = "run ycsb/a --system sim:?mean_us=10 --load never --duration 1h --interval 1ms -q"
    full_disk_error(tiny, words)
    # The measurement is kept: the run can be closed when there is space.
    assert [run.state for run in Records(tiny.runs).list()] == ["killed", "closed"]


@pytest.mark.parametrize("engine", [name for name in drivers() if is_embedded(name)])
def test_a_full_disk_under_a_database_stops_the_load_and_loses_nothing(
    kvmark: Kvmark, on_disk: Mount, engine: str
) -> None:
    disk = on_disk("80m").runs
    words = f"run ycsb/c --system {engine}:{disk}/db -q"
    assert "load" in sentence_of(kvmark(words, "--records", "100000", exits=3).err)
    failed = kvmark.manifest()
    # fjall's threads may fail first; it refuses every write then.
    assert {"storage", "unavailable"} & outcomes(failed)
    # With space again, there are as many records as were acknowledged, or more.
    subprocess.run(["mount", "-o", "remount,size=400m", str(disk)], check=True)
    totals = failed["engine"]["totals"]
    acknowledged = sum(total["count"] for total in totals if total["outcome"] == "ok")
    assert acknowledged > 1000
    console, keys = Console(engine, {"path": f"{disk}/db"}), list[str]()
    while page := console.ask("KEYS", "usertable", *keys[-1:]):
        keys += page
    assert len({*keys}) >= acknowledged


def test_no_file_is_imported_when_the_disk_has_no_room_for_all(on_disk: Mount) -> None:
    tiny = on_disk("512k")
    for name, count in (("small", 2), ("large", 40_000)):
        lines = "".join(f"{row},{row}\n" for row in range(1, count))
        (tiny.folder / f"{name}.csv").write_text(f"threads,throughput_ops_s\n{lines}")
    sentence = full_disk_error(tiny, "import small.csv small.csv large.csv")
    assert "the disk is full" in sentence
    assert list(tiny.runs.iterdir()) == []
    tiny("import small.csv")
    assert len(run_folders(tiny.runs)) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_progress_that_can_not_be_written_is_dropped(kvmark: Kvmark) -> None:
    words = "run ycsb/c --system sim:?mean_us=100 --load never --operations 500 --json"
    with Path("/dev/full").open("w") as full:
        result = kvmark.start(words, err=full).finish(exits=(0, 1))
    assert result.json["schema"] == "kvmark/run/1"
    with kvmark.start(words).process as process:
        assert process.stderr is not None
        assert process.stdout is not None
        process.stderr.close()
        assert json.loads(process.stdout.read())["summary"]
    assert process.returncode in (0, 1)
    assert [run.state for run in Records(kvmark.runs).list()] == ["closed", "closed"]


LONG = "--duration 1h --drain-limit 1h --interval 50ms"


@contextmanager
def stopped(testbed: Testbed) -> Iterator[None]:
    """Stops the only server during the body."""
    process = testbed.nodes[0].process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


@pytest.mark.parametrize("name", ["load", "warm_up", "measure"])
def test_a_stopped_redis_ends_the_phase_and_is_named(user: Kvmark, name: str) -> None:
    testbed = redis_up(user)
    records = "1G" if name == "load" else "100"
    warmup = "--warmup 1h" if name == "warm_up" else ""
    words = f"run ycsb/a --system {testbed.url} --records {records} {warmup} {LONG}"
    run = user.start(words, "--stall-limit", "1s", "-q")
    run.wait_for(f'"phase_name":"{name}"')
    with stopped(testbed):
        ended = run.finish(exits=3)
    address = testbed.nodes[0].address
    sentence = f"kvmark: the server at {address} answered nothing for 1 s: "
    assert ended.err.startswith(sentence), ended
    assert ended.err.count("\n") == 1
    engine = user.manifest()["engine"]
    last = engine["phases"][-1]
    assert (last["name"], last["stopped_by"]) == (name, "failed")
    assert sum(total["count"] for total in engine["totals"]) > 0
    verdict = user("show last --json").json["verdict"]
    assert verdict["judgement"] == levels(verdict)["no_answer"] == "INVALID"
    assert "phase_failed" not in levels(verdict)


@pytest.mark.parametrize("options", [(), ("--timeout", "50ms"), ("--rate", "500")])
def test_a_server_that_never_answers_ends_the_run(kvmark: Kvmark, options: tuple[str, ...]) -> None:
    answers, over = threading.Event(), threading.Event()
    answers.set()

    def before_answer() -> None:
        if not answers.is_set():
            over.wait()

    with store(before_answer) as server:
        words = f"run redis/kv --system redis://127.0.0.1:{server.port} --records 20 {LONG}"
        run = kvmark.start(words, "--stall-limit", "4s", *options)
        run.wait_for('"phase_name":"measure"')
        answers.clear()
        ended = run.finish(exits=3)
        over.set()
    sentence = f"the server at 127.0.0.1:{server.port} answered nothing for 4 s"
    assert sentence in ended.err.splitlines()[-1]
    assert kvmark.reasons()["no_answer"] == "INVALID"


def test_a_server_that_exceeds_every_timeout_still_answers(kvmark: Kvmark) -> None:
    late = threading.Event()
    with store(lambda: late.wait(0.15)) as server:
        words = f"run redis/kv --system redis://127.0.0.1:{server.port} --load never --records 20"
        limits = "--timeout 50ms --duration 4s --stall-limit 1s -q"
        kvmark(f"{words} {limits}", exits=1)
    assert "no_answer" not in kvmark.reasons()
    assert kvmark.manifest()["engine"]["phases"][-1]["stopped_by"] == "duration"


def test_a_planned_pause_that_exceeds_the_limit_ends_no_run(user: Kvmark) -> None:
    words = f"run ycsb/c --system {redis_up(user).url} --records 100 {LONG} --stall-limit 1s -q"
    run = user.start(words, "--fault", "300ms pause primary-1 for 4s")
    run.wait_for('"ended"', EVENTS)
    before = (run.folder / files.INTERVAL_LOG).read_text().count("\n")
    run.wait_for(count=before + 1)
    events = (run.folder / files.EVENTS).read_text()
    assert [events.count(f'"{state}"') for state in ("begun", "ended")] == [1, 1]
    run.interrupt()
    assert "no_answer" not in user.reasons()


STALLED = "sim:?clock=virtual&service=constant&mean_us=1000&stall=2+20"


def test_a_simulated_stall_ends_a_run_at_the_limit(kvmark: Kvmark) -> None:
    words = f"run ycsb/c --system {STALLED} --duration 30s --interval 1s --load never -q"
    ended = kvmark(words, "--stall-limit", "10s", exits=3)
    assert "sim answered nothing for 10 s" in ended.err.splitlines()[-1]
    last = kvmark.manifest()["engine"]["phases"][-1]
    assert 9.9e9 < last["end_ns"] - last["start_ns"] - 2e9 < 10.1e9
    for option, limit_ns in (((), 30 * 10**9), (("--stall-limit", "off"), None)):
        kvmark(words, *option, exits=(0, 1))
        assert kvmark.manifest()["plan"]["stall_limit_ns"] == limit_ns


def test_a_limit_applies_to_the_runs_of_an_experiment(kvmark: Kvmark) -> None:
    steady = STALLED.replace("&stall=2+20", "")
    work = f"ycsb/c --system {steady} --load never --operations 200"
    sides = ("--base=--seed 1", "--candidate=--seed 2", "--repetitions", "4")
    kvmark("ab", work, *sides, "--stall-limit", "off", "-q", exits=(0, 1))
    words = f"ycsb --system {STALLED} --workloads c --records 100 --report none --duration 30s -q"
    assert "answered nothing for 5 s" in kvmark(words, "--stall-limit", "5s", exits=3).err
    limits = {manifest["plan"]["stall_limit_ns"] for manifest in kvmark.manifests()}
    assert limits == {None, 5 * 10**9}


def test_a_server_that_was_stopped_before_the_run_is_named_and_unharmed(user: Kvmark) -> None:
    testbed = redis_up(user)
    words = f"run ycsb/c --system {testbed.url} --records 10 --operations 100 -q"
    with stopped(testbed):
        ended = user(words, "--stall-limit", "1s", exits=3)
    assert testbed.nodes[0].address in ended.err.splitlines()[-1]
    user(words, exits=(0, 1))
    assert Testbed.read(testbed.folder).lives
