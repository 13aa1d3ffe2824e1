"""`kvmark run --sweep` and `--repetitions`: many runs of one command line, as one study."""

from __future__ import annotations

import os
import signal

import psutil
import pytest
from command_line import Kvmark, phase

from waiting import PATIENCE_S, wait_until

SWEPT = "run ycsb/c --load never --operations 500 --json --report none"
SIM = "sim:?clock=virtual&service=constant&mean_us=100&servers=1"
MINE = """\
dataset: {records: 50}
groups:
  - {name: readers, mix: {read: 1}, keys: uniform}
"""
FAULTY = MINE + "faults: [{at: 1s, do: kill, node: primary-1, for: 1s}]\n"


def test_a_sweep_has_a_case_for_each_combination(kvmark: Kvmark) -> None:
    sweep = "--sweep clients=1,2 --sweep workload.dataset.fields.length=10,100 --repetitions 2"
    words = f"{SWEPT} --system {SIM} {sweep}"
    document = kvmark(words, exits=(0, 1)).json
    levels = [(clients, length) for clients in ("1", "2") for length in ("10", "100")]
    assert [tuple(row["levels"].values()) for row in document["rows"]] == levels
    assert len(document["runs"]) == 8
    rates = [row["figures"]["throughput"]["value"] for row in document["rows"]]
    # One server does the same work for two clients.
    assert rates == pytest.approx([10_000] * 4, rel=0.01)
    assert kvmark(words, "--resume", exits=(0, 1)).json["runs"] == document["runs"]


def test_each_case_loads_its_records(kvmark: Kvmark) -> None:
    sweep = "--sweep workload.dataset.fields.length=10,1000 --quiet"
    words = f"run ycsb/c --system rocksdb:db --records 200 --operations 500 {sweep}"
    kvmark(words, exits=(0, 1))
    for manifest in kvmark.manifests():
        assert phase(manifest, "load")["groups"][0]["completed"] == 200


def test_a_workload_of_the_user_is_swept(kvmark: Kvmark) -> None:
    (kvmark.folder / "mine.yaml").write_text(MINE)
    words = "run mine.yaml --system null: --operations 500 --json --sweep clients=1,2"
    document = kvmark(words, exits=(0, 1)).json
    assert len(document["runs"]) == 2
    assert kvmark.manifest(document["runs"][0])["plan"]["name"] == "mine"


def test_faults_of_a_workload_are_planned_once(kvmark: Kvmark) -> None:
    (kvmark.folder / "mine.yaml").write_text(FAULTY)
    words = "run mine.yaml --system null: --duration 3s --sweep clients=1,2"
    # Each case reports that its one fault is impossible.
    err = kvmark(words, exits=3).err
    assert "isn't back yet" not in err
    assert "only servers that kvmark started can be broken on purpose" in err


def test_a_case_whose_process_dies_has_failed(kvmark: Kvmark) -> None:
    words = "run ycsb/c --system sim:?mean_us=20000000 --load never --duration 4s --drain-limit 1s"
    started = kvmark.start(f"{words} --sweep clients=1,2 --json --quiet")

    def measures() -> bool:
        return any(log.stat().st_size for log in kvmark.runs.glob("*/intervals.jsonl"))

    # A process that dies before it gets a plan is replaced, and no case fails.
    wait_until(measures, "the first case has an interval")
    (worker,) = psutil.Process(started.pid).children()
    os.kill(worker.pid, signal.SIGSEGV)
    psutil.wait_procs([worker], timeout=PATIENCE_S)
    result = kvmark.finish(started, (1, 3))
    (journal,) = kvmark.runs.glob("studies/*/journal.jsonl")
    assert len(journal.read_text().splitlines()) == 2
    assert "crashed with SIGSEGV" in journal.read_text()
    assert "not run" not in result.out


def test_an_interrupted_sweep_is_resumed_by_the_same_command(kvmark: Kvmark) -> None:
    words = (
        "run ycsb/c --system sim:?mean_us=100 --load never --duration 1s --sweep clients=1,2,3"
        " --json --quiet"
    )
    started = kvmark.start(words)
    wait_until(lambda: list(kvmark.runs.glob("studies/*/journal.jsonl")), "one case was measured")
    started.send_signal(signal.SIGINT)
    assert "resume it with the same command and --resume" in kvmark.finish(started, 130).err
    # Another sweep does not change it.
    kvmark(f"{SWEPT} --system {SIM} --sweep clients=1", exits=(0, 1))
    document = kvmark(words, "--resume", exits=(0, 1)).json
    assert len(document["runs"]) == 3
    assert document["missing"] == 0


def test_a_wrong_sweep_is_refused(kvmark: Kvmark) -> None:
    for words, part in (
        ("--sweep client=1", "'client' can't be swept — did you mean 'clients'?"),
        ("--sweep clients", "isn't a word and its values"),
        ("--sweep clients=1,a", "'a' is not a count"),
        ("--sweep clients=1 --sweep clients=2", "swept twice"),
        ("--sweep clients=1 --slo 'p99<1s'", "--slo is held against one run"),
        ("--resume", "--resume continues a sweep"),
    ):
        assert part in kvmark.refuses(f"{SWEPT} --system null: {words}")


@pytest.mark.parametrize(
    "option", ["--slo p99<1s", "--sweep clients=1", "--repetitions 2", "--resume", "--quiet"]
)
def test_a_side_of_a_comparison_takes_no_option_of_the_command(kvmark: Kvmark, option: str) -> None:
    shared = "ycsb/c --system null: --operations 100"
    sentence = kvmark.refuses("ab", shared, "--base", option, "--candidate", "")
    assert f"{option.split(maxsplit=1)[0]} is not for a part of a command" in sentence
