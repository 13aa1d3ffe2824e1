"""`kvmark run --sweep` and `--repetitions`: many runs of one command line, as one study."""

from __future__ import annotations

import os
import signal

import psutil
import pytest
from command_line import Kvmark, run_folders

from waiting import wait_until

SWEPT = ("run", "ycsb/c", "--load", "never", "--operations", "500", "--json", "--report", "none")
SIM = "sim:?clock=virtual&service=constant&mean_us=100&servers=1"
MINE = """\
dataset: {records: 50}
groups:
  - {name: readers, mix: {read: 1}, keys: uniform}
"""
FAULTY = MINE + "faults: [{at: 1s, do: kill, node: primary-1, for: 1s}]\n"


def test_a_sweep_is_a_case_for_each_combination_as_often_as_was_asked(kvmark: Kvmark) -> None:
    sweep = ("--sweep", "clients=1,2", "--sweep", "workload.dataset.fields.length=10,100")
    words = (*SWEPT, "--system", SIM, *sweep, "--repetitions", "2")
    told = kvmark(*words, exits=(0, 1)).json
    assert [tuple(row["levels"].values()) for row in told["rows"]] == [
        (clients, length) for clients in ("1", "2") for length in ("10", "100")
    ]
    assert len(told["runs"]) == 8
    rates = [row["figures"]["throughput"]["value"] for row in told["rows"]]
    # The queue of one server does no more for two clients.
    assert rates == pytest.approx([10_000] * 4, rel=0.01)
    assert kvmark(*words, "--resume", exits=(0, 1)).json["runs"] == told["runs"]


def test_each_case_has_records_of_its_own(kvmark: Kvmark) -> None:
    sweep = ("--sweep", "workload.dataset.fields.length=10,1000", "--quiet")
    words = ("run", "ycsb/c", "--system", "rocksdb:db", "--records", "200", "--operations", "500")
    kvmark(*words, *sweep, exits=(0, 1))
    for folder in run_folders(kvmark.runs):
        if folder.name != "studies":
            load = kvmark.manifest(folder.name)["engine"]["phases"][0]
            assert (load["name"], load["groups"][0]["completed"]) == ("load", 200)


def test_a_workload_of_one_s_own_is_swept_as_it_stands(kvmark: Kvmark) -> None:
    (kvmark.folder / "mine.yaml").write_text(MINE)
    words = ("run", "mine.yaml", "--system", "null:", "--operations", "500", "--json")
    told = kvmark(*words, "--sweep", "clients=1,2", exits=(0, 1)).json
    assert len(told["runs"]) == 2
    assert kvmark.manifest(told["runs"][0])["plan"]["name"] == "mine"


def test_faults_of_a_workload_are_planned_once(kvmark: Kvmark) -> None:
    (kvmark.folder / "mine.yaml").write_text(FAULTY)
    words = ("run", "mine.yaml", "--system", "null:", "--duration", "3s")
    # Nobody's servers can be broken: each case says so of the one fault.
    said = kvmark(*words, "--sweep", "clients=1,2", exits=3).err
    assert "isn't back yet" not in said
    assert "only servers that kvmark started can be broken on purpose" in said


def test_a_case_whose_process_dies_is_a_case_that_failed(kvmark: Kvmark) -> None:
    words = ("run", "ycsb/c", "--system", "sim:?mean_us=20000000", "--load", "never")
    started = kvmark.start(*words, "--duration", "4s", "--drain-limit", "1s",
                           "--sweep", "clients=1,2", "--json", "--quiet")  # fmt: skip

    def measured() -> bool:
        return any(log.stat().st_size for log in kvmark.runs.glob("*/intervals.jsonl"))

    # A process that dies before it is told a plan is replaced, and nothing has failed.
    wait_until(measured, "the first case has an interval")
    (worker,) = psutil.Process(started.pid).children()
    os.kill(worker.pid, signal.SIGSEGV)
    psutil.wait_procs([worker], timeout=kvmark.patience_s)
    result = kvmark.finish(started, (1, 3))
    (journal,) = kvmark.runs.glob("studies/*/journal.jsonl")
    assert len(journal.read_text().splitlines()) == 2
    assert "crashed with SIGSEGV" in journal.read_text()
    assert "not run" not in result.out


def test_an_interrupted_sweep_goes_on_with_the_same_words(kvmark: Kvmark) -> None:
    words = ("run", "ycsb/c", "--system", "sim:?mean_us=100", "--load", "never",
             "--duration", "1s", "--sweep", "clients=1,2,3", "--json", "--quiet")  # fmt: skip
    started = kvmark.start(*words)
    wait_until(lambda: list(kvmark.runs.glob("studies/*/journal.jsonl")), "one case was measured")
    started.send_signal(signal.SIGINT)
    assert "resume it with the same command and --resume" in kvmark.finish(started, 130).err
    # Another sweep isn't resumed.
    kvmark(*SWEPT, "--system", SIM, "--sweep", "clients=1", exits=(0, 1))
    told = kvmark(*words, "--resume", exits=(0, 1)).json
    assert len(told["runs"]) == 3
    assert told["missing"] == 0


def test_what_a_sweep_cannot_mean_is_said(kvmark: Kvmark) -> None:
    words = (*SWEPT, "--system", "null:", "--sweep")
    assert "'client' can't be swept — did you mean 'clients'?" in kvmark.refuses(*words, "client=1")
    assert "isn't a word and its values" in kvmark.refuses(*words, "clients")
    assert "'a' is not a count" in kvmark.refuses(*words, "clients=1,a")
    assert "swept twice" in kvmark.refuses(*words, "clients=1", "--sweep", "clients=2")
    assert "--slo is held against one run" in kvmark.refuses(*words, "clients=1", "--slo", "p99<1s")
    alone = kvmark.refuses(*SWEPT, "--system", "null:", "--resume")
    assert "--resume continues a sweep" in alone


@pytest.mark.parametrize(
    "word", ["--slo p99<1s", "--sweep clients=1", "--repetitions 2", "--resume", "--quiet"]
)
def test_a_part_of_a_command_takes_no_word_of_the_whole(kvmark: Kvmark, word: str) -> None:
    shared = "ycsb/c --system null: --operations 100"
    said = kvmark.refuses("ab", shared, "--base", word, "--candidate", "")
    assert f"{word.split(maxsplit=1)[0]} is not for a part of a command" in said
