"""Systems that fail, and runs that are INVALID: exit codes 3 and 1."""

import json
import socketserver
from contextlib import suppress

import pytest
from command_line import Kvmark, fingerprint, outcomes, run_folders
from scripted_store import bulk, read_command, serving

SHORT = "--records 50 --operations 100 -q"


@pytest.mark.parametrize(
    ("words", "path", "exits"),
    [
        ("ycsb/a --system rocksdb:{}/letters", "letters", 3),
        ("ycsb/a --system rocksdb:{}/file", "file", 2),
        ("ycsb/a --system rocksdb:{}/not/there", "not", 3),
        ("ycsb/c --system rocksdb:{}/db --load never", "no RocksDB database", 3),
    ],
    ids=["a folder of other files", "a file", "a folder in a missing one", "a missing database"],
)
def test_what_is_no_database_stays_unchanged(
    kvmark: Kvmark, words: str, path: str, exits: int
) -> None:
    (kvmark.folder / "letters").mkdir()
    (kvmark.folder / "letters" / "letter.txt").write_text("Dear Sir")
    (kvmark.folder / "file").write_text("")
    before = fingerprint(kvmark.folder)
    sentence = kvmark.refuses(f"run {words.format(kvmark.folder)} {SHORT}", exits=exits)
    assert (path if " " in path else f"{kvmark.folder}/{path}") in sentence
    assert fingerprint(kvmark.folder) == before
    assert {one.name for one in kvmark.folder.iterdir()} <= {"letters", "file", "runs"}


def test_a_sequence_does_not_load_into_an_existing_database(kvmark: Kvmark) -> None:
    system = f"--system rocksdb:{kvmark.folder}/db"
    kvmark(f"run ycsb/load {system} {SHORT}")
    database = fingerprint(kvmark.folder / "db")
    assert "already holds a database" in kvmark.refuses(f"ycsb {system} --records 50")
    assert fingerprint(kvmark.folder / "db") == database


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


def test_an_overloaded_system_makes_a_run_invalid(kvmark: Kvmark) -> None:
    system = "sim:?clock=virtual&service=constant&mean_us=1000"
    load = "--rate 2000 --duration 1s --interval 100ms --load never -q"
    assert "The run is INVALID" in kvmark(f"run ycsb/c --system {system} {load}", exits=1).out
    assert kvmark.reasons()["offered_rate_not_reached"] == "INVALID"


def test_a_sequence_reports_an_invalid_case(kvmark: Kvmark) -> None:
    words = "ycsb --system sim:?error_share=0.5&mean_us=1 --workloads c --records 100"
    result = kvmark(words, "--repetitions", "2", "--report", "none", "-q", exits=1)
    assert "1 of 1 cases are INVALID" in result.err


def test_two_runs_do_not_share_a_database(kvmark: Kvmark) -> None:
    words = f"run ycsb/a --system rocksdb:{kvmark.folder}/db --records 100 -q"
    first = kvmark.start_run(words, "--duration", "1h", "--interval", "50ms")
    first.wait_for_intervals(2)
    second = kvmark(words, "--operations", "100", exits=3)
    assert second.err.startswith("kvmark: ")
    assert second.err.count("\n") == 1
    place = f"{kvmark.folder}/db"
    assert f"another process has opened the RocksDB database at {place}: " in second.err
    assert run_folders(kvmark.runs) == [first.folder]
    first.interrupt()
    first.finish(exits=130)
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
                    self.wfile.write(b"$1\r\nx\r\n" * 100_000)
            return


def test_an_endless_reply_fails_and_takes_bounded_memory(kvmark: Kvmark) -> None:
    with serving(Endless) as port:
        words = f"run ycsb/c --system redis://127.0.0.1:{port} --load never --operations 1"
        document = kvmark(words, "--timeout", "60s", "-q", "--json", exits=(1, 3)).json
    text = json.dumps(document)
    assert "1 protocol" in text
    assert "longer than 576 MiB" in text
