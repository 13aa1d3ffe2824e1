"""Systems that fail, and answers that are no: exit codes 3 and 1."""

import json
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from command_line import Going, Kvmark, fingerprint, run_folders

SHORT = ("--records", "50", "--operations", "100", "-q")


@pytest.fixture
def earlier(kvmark: Kvmark) -> dict[str, str]:
    """What an earlier run left."""
    kvmark("run", "ycsb/c", "--system", "null:", "--load", "never", *SHORT)
    return fingerprint(kvmark.runs)


def test_a_folder_of_other_files_is_not_taken_for_a_database(kvmark: Kvmark) -> None:
    folder = kvmark.folder / "letters"
    folder.mkdir()
    (folder / "letter.txt").write_text("Dear Sir")
    sentence = kvmark.refuses("run", "ycsb/a", "--system", f"rocksdb:{folder}", *SHORT, exits=3)
    assert str(folder) in sentence
    assert [path.name for path in folder.iterdir()] == ["letter.txt"]


def test_a_file_is_not_taken_for_a_database(kvmark: Kvmark) -> None:
    (kvmark.folder / "file").write_text("")
    system = f"rocksdb:{kvmark.folder}/file"
    sentence = kvmark.refuses("run", "ycsb/a", "--system", system, *SHORT, exits=2)
    assert f"{kvmark.folder}/file" in sentence
    assert (kvmark.folder / "file").read_text() == ""


def test_a_folder_in_a_missing_one_is_not_made(kvmark: Kvmark) -> None:
    system = f"rocksdb:{kvmark.folder}/not/there"
    sentence = kvmark.refuses("run", "ycsb/a", "--system", system, *SHORT, exits=3)
    assert f"{kvmark.folder}/not" in sentence
    assert not (kvmark.folder / "not").exists()


def test_a_missing_database_is_not_made_for_reading(kvmark: Kvmark) -> None:
    words = ("--system", f"rocksdb:{kvmark.folder}/db", "--load", "never", *SHORT)
    assert "no RocksDB database" in kvmark.refuses("run", "ycsb/c", *words, exits=3)
    assert not (kvmark.folder / "db").exists()


def test_a_sequence_does_not_load_into_a_database_that_is_there(kvmark: Kvmark) -> None:
    system = ("--system", f"rocksdb:{kvmark.folder}/db")
    kvmark("run", "ycsb/load", *system, *SHORT)
    database = fingerprint(kvmark.folder / "db")
    assert "already holds a database" in kvmark.refuses("ycsb", *system, "--records", "50")
    assert fingerprint(kvmark.folder / "db") == database


def test_runs_that_have_no_place_are_refused(kvmark: Kvmark) -> None:
    (kvmark.folder / "file").write_text("")
    for words in (("run", "ycsb/c", "--system", "null:", *SHORT), ("ycsb", "--records", "10")):
        elsewhere = Kvmark(kvmark.folder, kvmark.folder / "file")
        result = elsewhere(*words, exits=2)
        assert str(elsewhere.runs) in result.err.splitlines()[-1], result
        assert result.err.splitlines()[-1].startswith("kvmark: "), result
        assert "Traceback" not in result.err


def test_an_invalid_run_is_kept_and_the_answer_is_no(
    kvmark: Kvmark, earlier: dict[str, str]
) -> None:
    system = ("--system", "sim:?clock=virtual&error_share=0.5", "--load", "never")
    result = kvmark("run", "ycsb/c", *system, "--operations", "2000", "--json", exits=1)
    verdict = result.json["verdict"]
    assert verdict["judgement"] == "INVALID"
    assert "INVALID" in result.err.splitlines()[-1]
    kept = kvmark.runs / f"{result.json['run']}.verdict.json"
    assert json.loads(kept.read_text())["judgement"] == "INVALID"
    assert earlier.items() <= fingerprint(kvmark.runs).items()


def test_an_overloaded_system_makes_an_invalid_run(kvmark: Kvmark) -> None:
    system = "sim:?clock=virtual&service=constant&mean_us=1000"
    words = ("--rate", "2000", "--duration", "1s", "--interval", "100ms", "--load", "never", "-q")
    result = kvmark("run", "ycsb/c", "--system", system, *words, exits=1)
    assert "The run is INVALID" in result.out
    verdict = kvmark("show", "last", "--json").json["verdict"]
    reasons = {reason["code"]: reason["level"] for reason in verdict["reasons"]}
    assert reasons["offered_rate_not_reached"] == "INVALID"


def test_a_sequence_with_an_invalid_case_says_so(kvmark: Kvmark) -> None:
    words = ("--system", "sim:?error_share=0.5&mean_us=1", "--workloads", "c", "--records", "100")
    result = kvmark("ycsb", *words, "--repetitions", "2", "--report", "none", "-q", exits=1)
    assert "1 of 1 cases are INVALID" in result.err


def test_two_runs_do_not_share_a_database(kvmark: Kvmark, going: Callable[..., Going]) -> None:
    words = ("ycsb/a", "--system", f"rocksdb:{kvmark.folder}/db", "--records", "100")
    first = going(*words, "--duration", "1h", "--interval", "50ms", "-q")
    first.wait_for_intervals(2)
    second = kvmark("run", *words, "--operations", "100", "-q", exits=3)
    assert second.err.startswith("kvmark: ")
    assert second.err.count("\n") == 1
    place = f"{kvmark.folder}/db"
    assert f"another process has opened the RocksDB database at {place}: " in second.err
    assert run_folders(kvmark.runs) == [first.folder]
    first.interrupt()
    first.finish(exits=130)
    record = kvmark.manifest()["engine"]
    assert {total["outcome"] for total in record["totals"]} == {"ok"}
    kvmark("run", *words, "--operations", "100", "-q")


class Endless(socketserver.StreamRequestHandler):
    """Answers everything but PING and INFO with a reply that never ends."""

    def handle(self) -> None:
        while line := self.rfile.readline():
            words = [self.rfile.readline() and self.rfile.readline() for _ in range(int(line[1:]))]
            name = words[0].strip().upper()
            if name == b"PING":
                self.wfile.write(b"+PONG\r\n")
            elif name == b"INFO":
                self.wfile.write(b"$21\r\nredis_version:7.0.15\r\n\r\n")
            elif name not in (b"HGETALL", b"HMGET"):
                self.wfile.write(b"-ERR unknown command\r\n")
            else:
                self.wfile.write(b"*1073741824\r\n")
                with suppress(OSError):
                    while True:
                        self.wfile.write(b"$1\r\nx\r\n" * 100_000)
                return


def test_an_answer_without_end_fails_and_takes_bounded_memory(kvmark: Kvmark) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Endless) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"redis://127.0.0.1:{server.server_address[1]}"
        words = ("--load", "never", "--operations", 1, "--timeout", "60s", "-q", "--json")
        document = kvmark("run", "ycsb/c", "--system", url, *words, exits=(1, 3)).json
        server.shutdown()
        thread.join()
    told = json.dumps(document)
    assert "1 protocol" in told
    assert "longer than 576 MiB" in told
