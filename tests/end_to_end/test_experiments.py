"""Sweeps and repetitions of a command, and `--resume` of killed experiments of every design."""

from __future__ import annotations

import json
import signal
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psutil
import pytest
from command_line import Kvmark, phase, run_folders

SLOW = "sim:?mean_us=200&service=constant"
OWN = "--json --quiet"
JOURNAL = "studies/*/journal.jsonl"
AB = (
    "ab 'ycsb/c --load never --duration 200ms --interval 20ms' --allow invalid"
    f" --base '--system {SLOW}' --candidate '--system {SLOW} --clients 2' --repetitions 6 {OWN}"
)
CAPACITY = (
    f"capacity ycsb/c --load never --system {SLOW} --interval 20ms --slo 'p99<50ms' --clients 4"
    f" --duration 200ms --warmup 50ms --within 30% --repetitions 2 {OWN}"
)
RECOVER = (
    f"recover ycsb/c --load never --system {SLOW} --rate 500 --before 1s --limit 1s --interval 50ms"
    f" --trigger 'rate x2 for 100ms' --search --within 50% --confirm 0 {OWN}"
)
YCSB = (
    f"ycsb --system {SLOW} --workloads load,a,c --records 200 --operations 800 --repetitions 3"
    f" --report none {OWN}"
)


@contextmanager
def taken_port() -> Iterator[str]:
    """A port that another server uses."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield str(listener.getsockname()[1])


def journal(kvmark: Kvmark) -> list[dict[str, Any]]:
    """The lines of the journal about runs."""
    paths = list(kvmark.runs.glob(JOURNAL))
    text = paths[0].read_text() if paths else ""
    documents = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    return [one for one in documents if "case" in one]


def kill_after(kvmark: Kvmark, count: int, words: str) -> list[dict[str, Any]]:
    """Kills an experiment after a number of runs and returns the lines of its journal."""
    started = kvmark.start(words)
    started.wait_for('"repetition"', JOURNAL, count)
    started.kill()
    return journal(kvmark)


def resume(kvmark: Kvmark, words: str) -> Any:
    """The document of a resumed experiment."""
    return kvmark(words, "--resume", exits=(0, 1)).json


def completed(lines: Sequence[dict[str, Any]]) -> Counter[tuple[str, int]]:
    """The complete runs by case and repetition."""
    return Counter((one["case"], one["repetition"]) for one in lines if one["failure"] is None)


def test_complete_blocks_are_not_measured_again(kvmark: Kvmark) -> None:
    before = kill_after(kvmark, 5, AB)
    (case,) = resume(kvmark, AB)["comparison"]["cases"]
    lines = journal(kvmark)
    assert lines[: len(before)] == before
    assert len(case["baseline_runs"]) == len(case["candidate_runs"]) == 6
    # Two blocks and one run were complete; only the run of the incomplete block is repeated.
    in_blocks = {one["run"] for one in before[: len(before) // 2 * 2]}
    assert in_blocks <= {*case["baseline_runs"], *case["candidate_runs"]}
    counts = completed(lines)
    assert sum(count - 1 for count in counts.values()) <= 1
    assert set(counts) == {(side, block) for side in ("base", "candidate") for block in range(6)}


def test_a_search_continues_from_its_measured_rates(kvmark: Kvmark) -> None:
    before = kill_after(kvmark, 3, CAPACITY)
    resume(kvmark, CAPACITY)
    lines = journal(kvmark)
    assert lines[: len(before)] == before
    assert set(completed(lines).values()) == {1}
    # The search is complete: the answer is printed again without a run.
    resume(kvmark, CAPACITY)
    assert journal(kvmark) == lines


def test_a_sequence_restarts_its_incomplete_repetition(kvmark: Kvmark) -> None:
    before = kill_after(kvmark, 4, YCSB)
    runs = resume(kvmark, YCSB)["runs"]
    assert runs[:3] == [one["run"] for one in before[:3]]
    assert len(runs) == 9
    assert [(one["case"], one["repetition"]) for one in journal(kvmark)[len(before) :]] == [
        (f"{step}, 200 records", repetition) for repetition in (1, 2) for step in ("load", "A", "C")
    ]


STRESS = f"stress --repetitions 3 {OWN} {{}} read n=400 no-warmup -rate threads=2 -node {SLOW}"
APP = (
    f"app RedisKeyValue --system {SLOW} --num_reads 400 --num_writes 10 --num_unique_keys 50"
    f" --num_threads_read 1 --num_threads_write 1 --repetitions 3 {OWN} {{}}"
)


@pytest.mark.parametrize("words", [STRESS, APP], ids=["stress", "app"])
def test_repetitions_of_imitated_tools_continue(kvmark: Kvmark, words: str) -> None:
    before = kill_after(kvmark, 1, words.format(""))
    document = kvmark(words.format("--resume"), exits=(0, 1)).json
    runs = [one["run"] for one in document["runs"]]
    assert runs == [one["run"] for one in journal(kvmark)]
    assert len(runs) == 3
    assert journal(kvmark)[: len(before)] == before


@pytest.mark.parametrize("words", [AB, CAPACITY, RECOVER, YCSB], ids=lambda words: words.split()[0])
def test_other_options_make_another_experiment(kvmark: Kvmark, words: str) -> None:
    sentence = kvmark.refuses(words, "--seed", "7", "--resume")
    assert f"no {words.split(maxsplit=1)[0]} with these words was begun in" in sentence
    assert "leave --resume out" in sentence


def test_the_decisions_of_a_budget_are_repeated(kvmark: Kvmark) -> None:
    words = "ycsb --system rocksdb:db --records 500,20000 --workloads load,a,c --budget 3s"
    words = f"{words} --report none {OWN}"
    document = kvmark(words, exits=(0, 1)).json
    # The journal has the exact duration of each step, on which all decisions depend.
    assert resume(kvmark, words) == document


def test_resume_removes_no_records_of_another_command(kvmark: Kvmark) -> None:
    words = "ycsb --system rocksdb:db --records 100 --workloads load,c --repetitions 1"
    words = f"{words} --report none --quiet"
    with taken_port() as port:
        kvmark(words, "--prometheus", port, exits=(2, 3))
    kvmark("run ycsb/load --system rocksdb:db --records 300 -q", exits=(0, 1))
    before = run_folders(kvmark.runs)
    assert "already holds a database" in kvmark(words, "--resume", exits=2).err
    assert run_folders(kvmark.runs) == before


def test_a_block_without_one_of_its_runs_is_measured_again(kvmark: Kvmark) -> None:
    first = kvmark(AB, exits=(0, 1)).json["comparison"]["cases"][0]
    lines = journal(kvmark)
    removed = next(one["run"] for one in lines if (one["case"], one["repetition"]) == ("base", 2))
    name = kvmark.manifest(removed)["tags"][0].removesuffix(":base")
    kvmark("runs rm --yes", removed)
    answer = kvmark("ab --allow invalid --json --answer", name, exits=(0, 1)).json
    assert len(answer["comparison"]["cases"][0]["baseline_runs"]) == 5
    second = resume(kvmark, AB)["comparison"]["cases"][0]
    repeated = {(one["case"], one["repetition"]) for one in journal(kvmark)[len(lines) :]}
    assert repeated == {("base", 2), ("candidate", 2)}
    assert len(journal(kvmark)) == len(lines) + 2
    before, after = ({*case["baseline_runs"], *case["candidate_runs"]} for case in (first, second))
    assert len(before & after) == 10


def test_a_failed_start_hides_no_run(kvmark: Kvmark) -> None:
    kvmark(AB, exits=(0, 1))
    before = run_folders(kvmark.runs)
    with taken_port() as port:
        kvmark(AB, "--prometheus", port, exits=(2, 3))
    resume(kvmark, AB)
    assert run_folders(kvmark.runs) == before


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


def test_a_workload_of_the_user_is_swept_and_its_faults_are_planned_once(kvmark: Kvmark) -> None:
    (kvmark.folder / "mine.yaml").write_text(MINE)
    words = "run mine.yaml --system null: --sweep clients=1,2"
    document = kvmark(words, "--operations", "500", "--json", exits=(0, 1)).json
    assert len(document["runs"]) == 2
    assert kvmark.manifest(document["runs"][0])["plan"]["name"] == "mine"
    (kvmark.folder / "mine.yaml").write_text(FAULTY)
    # Each case reports that its one fault is impossible.
    err = kvmark(words, "--duration", "3s", exits=3).err
    assert "isn't back yet" not in err
    assert "only servers that kvmark started can be broken on purpose" in err


def test_a_case_whose_process_dies_has_failed(kvmark: Kvmark) -> None:
    words = "run ycsb/c --system sim:?mean_us=20000000 --load never --duration 4s --drain-limit 1s"
    started = kvmark.start(f"{words} --sweep clients=1,2 --json --quiet")
    # A process that dies before it gets a plan is replaced, and no case fails.
    started.wait_for()
    (worker,) = psutil.Process(started.process.pid).children()
    worker.send_signal(signal.SIGSEGV)
    result = started.finish(exits=(1, 3))
    (journal,) = kvmark.runs.glob(JOURNAL)
    assert len(journal.read_text().splitlines()) == 2
    assert "crashed with SIGSEGV" in journal.read_text()
    assert "not run" not in result.out


def test_an_interrupted_sweep_is_resumed_by_the_same_command(kvmark: Kvmark) -> None:
    words = f"run ycsb/c --system {SLOW} --load never --duration 1s --sweep clients=1,2,3 {OWN}"
    started = kvmark.start(words)
    started.wait_for("", JOURNAL)
    assert "resume it with the same command and --resume" in started.interrupt().err
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
