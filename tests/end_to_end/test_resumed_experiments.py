"""`--resume` continues a killed experiment of every design and repeats no complete run."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from command_line import Kvmark, run_folders

from waiting import wait_until

SLOW = "sim:?mean_us=200&service=constant"
AB = (
    "ab 'ycsb/c --load never --duration 200ms --interval 20ms' --allow plan,invalid"
    f" --base '--system {SLOW}' --candidate '--system {SLOW} --clients 2' --repetitions 6 --quiet"
)
CAPACITY = (
    f"capacity ycsb/c --load never --system {SLOW} --interval 20ms --slo 'p99<50ms' --clients 4"
    " --duration 200ms --warmup 50ms --within 30% --repetitions 2 --quiet"
)
YCSB = (
    f"ycsb --system {SLOW} --workloads load,a,c --records 200 --operations 800 --repetitions 3"
    " --report none --quiet"
)


@contextmanager
def taken_port() -> Iterator[str]:
    """A port that another server uses."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield str(listener.getsockname()[1])


def journal(kvmark: Kvmark) -> list[dict[str, Any]]:
    """The lines of the journal about runs."""
    paths = list(kvmark.runs.glob("studies/*/journal.jsonl"))
    text = paths[0].read_text() if paths else ""
    documents = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    return [one for one in documents if "case" in one]


def kill_after(kvmark: Kvmark, count: int, words: str) -> list[dict[str, Any]]:
    """Kills an experiment after a number of runs and returns the lines of its journal."""
    started = kvmark.start(words, "--json")
    wait_until(lambda: len(journal(kvmark)) >= count, f"{count} runs have ended")
    kvmark.kill(started)
    return journal(kvmark)


def resume(kvmark: Kvmark, words: str) -> Any:
    """The document of a resumed experiment."""
    return kvmark(words, "--resume", "--json", exits=(0, 1)).json


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


STRESS = f"stress --repetitions 3 {{}} read n=400 no-warmup -rate threads=2 -node {SLOW}"
APP = (
    f"app RedisKeyValue --system {SLOW} --num_reads 400 --num_writes 10 --num_unique_keys 50"
    " --num_threads_read 1 --num_threads_write 1 --repetitions 3 {}"
)


@pytest.mark.parametrize("words", [STRESS, APP], ids=["stress", "app"])
def test_repetitions_of_imitated_tools_continue(kvmark: Kvmark, words: str) -> None:
    started = kvmark.start(words.format("--json --quiet"))
    wait_until(lambda: len(journal(kvmark)) >= 1, "a run has ended")
    kvmark.kill(started)
    before = journal(kvmark)
    document = kvmark(words.format("--json --quiet --resume"), exits=(0, 1)).json
    runs = [one["run"] for one in document["runs"]]
    assert runs == [one["run"] for one in journal(kvmark)]
    assert len(runs) == 3
    assert journal(kvmark)[: len(before)] == before


@pytest.mark.parametrize("words", [AB, CAPACITY, YCSB], ids=["ab", "capacity", "ycsb"])
def test_other_options_make_another_experiment(kvmark: Kvmark, words: str) -> None:
    sentence = kvmark.refuses(words, "--seed", "7", "--resume")
    assert f"no {words.split(maxsplit=1)[0]} with these words was begun in" in sentence
    assert "leave --resume out" in sentence


def test_the_decisions_of_a_budget_are_repeated(kvmark: Kvmark) -> None:
    words = (
        "ycsb --system rocksdb:db --records 500,20000 --workloads load,a,c --budget 3s"
        " --report none --json --quiet"
    )
    document = kvmark(words, exits=(0, 1)).json
    # The journal has the exact duration of each step, on which all decisions depend.
    assert kvmark(words, "--resume", exits=(0, 1)).json == document


def test_resume_removes_no_records_of_another_command(kvmark: Kvmark) -> None:
    words = (
        "ycsb --system rocksdb:db --records 100 --workloads load,c --repetitions 1"
        " --report none --quiet"
    )
    with taken_port() as port:
        kvmark(words, "--prometheus", port, exits=(2, 3))
    kvmark("run ycsb/load --system rocksdb:db --records 300 -q", exits=(0, 1))
    before = run_folders(kvmark.runs)
    assert "already holds a database" in kvmark(words, "--resume", exits=2).err
    assert run_folders(kvmark.runs) == before


def test_a_block_without_one_of_its_runs_is_measured_again(kvmark: Kvmark) -> None:
    first = kvmark(AB, "--json", exits=(0, 1)).json["comparison"]["cases"][0]
    lines = journal(kvmark)
    removed = next(one["run"] for one in lines if (one["case"], one["repetition"]) == ("base", 2))
    name = kvmark.manifest(removed)["tags"][0].removesuffix(":base")
    kvmark("runs rm --yes", removed)
    answer = kvmark("ab --allow plan,invalid --json --answer", name, exits=(0, 1)).json
    assert len(answer["comparison"]["cases"][0]["baseline_runs"]) == 5
    second = resume(kvmark, AB)["comparison"]["cases"][0]
    repeated = {(one["case"], one["repetition"]) for one in journal(kvmark)[len(lines) :]}
    assert repeated == {("base", 2), ("candidate", 2)}
    assert len(journal(kvmark)) == len(lines) + 2
    before, after = ({*case["baseline_runs"], *case["candidate_runs"]} for case in (first, second))
    assert len(before & after) == 10


def test_a_failed_start_hides_no_run(kvmark: Kvmark) -> None:
    kvmark(AB, "--json", exits=(0, 1))
    before = run_folders(kvmark.runs)
    with taken_port() as port:
        kvmark(AB, "--prometheus", port, exits=(2, 3))
    resume(kvmark, AB)
    assert run_folders(kvmark.runs) == before
