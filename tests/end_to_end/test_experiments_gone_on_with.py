"""Experiments of every design that were killed go on where they were, and measure nothing twice."""

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
RUN = ("ycsb/c", "--load", "never", "--system", SLOW, "--interval", "20ms")
AB = ("ab", " ".join(["ycsb/c --load never --duration 200ms --interval 20ms"]),
      "--base", f"--system '{SLOW}'", "--candidate", f"--system '{SLOW}' --clients 2",
      "--allow", "plan,invalid", "--repetitions", "6")  # fmt: skip
CAPACITY = ("capacity", *RUN, "--slo", "p99<50ms", "--duration", "200ms", "--warmup", "50ms",
            "--within", "30%", "--repetitions", "2", "--clients", "4")  # fmt: skip
YCSB = ("ycsb", "--system", SLOW, "--workloads", "load,a,c", "--records", "200", "--operations",
        "800", "--repetitions", "3", "--report", "none")  # fmt: skip


@contextmanager
def taken_port() -> Iterator[int]:
    """A port at which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


def lines(kvmark: Kvmark) -> list[dict[str, Any]]:
    """What the journal says so far of runs."""
    found = list(kvmark.runs.glob("studies/*/journal.jsonl"))
    text = found[0].read_text() if found else ""
    documents = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    return [one for one in documents if "case" in one]


def killed_after(kvmark: Kvmark, count: int, words: Sequence[str]) -> list[dict[str, Any]]:
    """What was done of an experiment that is killed after so many runs."""
    started = kvmark.start(*words, "--json", "--quiet")
    wait_until(lambda: len(lines(kvmark)) >= count, f"{count} runs have ended")
    kvmark.kill(started)
    return lines(kvmark)


def places(made: Sequence[dict[str, Any]]) -> Counter[tuple[str, int]]:
    """How often each run was made to its end."""
    return Counter((one["case"], one["repetition"]) for one in made if one["failure"] is None)


def test_blocks_that_were_complete_are_not_measured_again(kvmark: Kvmark) -> None:
    before = killed_after(kvmark, 5, AB)
    told = kvmark(*AB, "--resume", "--json", "--quiet", exits=(0, 1)).json
    made = lines(kvmark)
    assert made[: len(before)] == before
    (case,) = told["comparison"]["cases"]
    assert len(case["baseline_runs"]) == len(case["candidate_runs"]) == 6
    # Two blocks and one run were there; only the run whose block wasn't complete is made again.
    whole = {one["run"] for one in before[: len(before) // 2 * 2]}
    assert whole <= {*case["baseline_runs"], *case["candidate_runs"]}
    again = places(made)
    assert sum(count - 1 for count in again.values()) <= 1
    assert {place for place, _ in again.items()} == {
        (side, block) for side in ("base", "candidate") for block in range(6)
    }


def test_a_search_goes_on_from_the_rates_that_it_tried(kvmark: Kvmark) -> None:
    before = killed_after(kvmark, 3, CAPACITY)
    kvmark(*CAPACITY, "--resume", "--json", "--quiet", exits=(0, 1))
    made = lines(kvmark)
    assert made[: len(before)] == before
    assert set(places(made).values()) == {1}
    # Nothing is left: the answer is given once more, and no run is made for it.
    kvmark(*CAPACITY, "--resume", "--json", "--quiet", exits=(0, 1))
    assert lines(kvmark) == made


def test_a_sequence_begins_the_repetition_anew_that_was_cut_short(kvmark: Kvmark) -> None:
    before = killed_after(kvmark, 4, YCSB)
    told = kvmark(*YCSB, "--resume", "--json", "--quiet", exits=(0, 1)).json
    made = lines(kvmark)
    first = [one["run"] for one in before[:3]]
    assert told["runs"][:3] == first
    assert len(told["runs"]) == 9
    assert [(one["case"], one["repetition"]) for one in made[len(before) :]] == [
        (f"{step}, 200 records", repetition) for repetition in (1, 2) for step in ("load", "A", "C")
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("stress", "--repetitions", "3", "read", "n=400", "no-warmup", "-rate", "threads=2",
         "-node", SLOW),
        ("app", "RedisKeyValue", "--system", SLOW, "--num_reads", "400", "--num_writes", "10",
         "--num_unique_keys", "50", "--num_threads_read", "1", "--num_threads_write", "1",
         "--repetitions", "3"),
    ],
    ids=["stress", "app"],
)  # fmt: skip
def test_repetitions_of_other_tools_command_lines_go_on(
    kvmark: Kvmark, words: tuple[str, ...]
) -> None:
    own = ("--json", "--quiet")
    resumed = (words[0], "--resume", *own, *words[1:]) if words[0] == "stress" else (
        *words, "--resume", *own)  # fmt: skip
    begun = (words[0], *own, *words[1:]) if words[0] == "stress" else (*words, *own)
    started = kvmark.start(*begun)
    wait_until(lambda: len(lines(kvmark)) >= 1, "a run has ended")
    kvmark.kill(started)
    before = lines(kvmark)
    told = kvmark(*resumed, exits=(0, 1)).json
    assert [one["run"] for one in told["runs"]] == [one["run"] for one in lines(kvmark)]
    assert len(told["runs"]) == 3
    assert lines(kvmark)[: len(before)] == before


@pytest.mark.parametrize("words", [AB, CAPACITY, YCSB], ids=["ab", "capacity", "ycsb"])
def test_other_words_are_another_experiment(kvmark: Kvmark, words: tuple[str, ...]) -> None:
    said = kvmark.refuses(*words, "--seed", "7", "--resume")
    assert f"no {words[0]} with these words was begun in" in said
    assert "leave --resume out" in said


def test_what_a_budget_decided_is_decided_again(kvmark: Kvmark) -> None:
    words = ("ycsb", "--system", "rocksdb:db", "--records", "500,20000", "--workloads", "load,a,c",
             "--budget", "3s", "--report", "none", "--json", "--quiet")  # fmt: skip
    told = kvmark(*words, exits=(0, 1)).json
    again = kvmark(*words, "--resume", exits=(0, 1)).json
    # Whatever a step took is known to the instant, and so is all that follows from it.
    assert again == told


def test_records_that_are_not_a_sequence_s_own_are_not_removed_by_going_on(kvmark: Kvmark) -> None:
    words = ("ycsb", "--system", "rocksdb:db", "--records", "100", "--workloads", "load,c",
             "--repetitions", "1", "--report", "none", "--quiet")  # fmt: skip
    with taken_port() as port:
        kvmark(*words, "--prometheus", str(port), exits=(2, 3))
    kvmark("run", "ycsb/load", "--system", "rocksdb:db", "--records", "300", "-q", exits=(0, 1))
    before = run_folders(kvmark.runs)
    assert "already holds a database" in kvmark(*words, "--resume", exits=2).err
    assert run_folders(kvmark.runs) == before


def test_a_block_without_one_of_its_runs_is_measured_anew(kvmark: Kvmark) -> None:
    first = kvmark(*AB, "--json", "--quiet", exits=(0, 1)).json["comparison"]["cases"][0]
    gone = next(one["run"] for one in lines(kvmark) if (one["case"], one["repetition"]) == (
        "base", 2))  # fmt: skip
    name = kvmark.manifest(gone)["tags"][0].removesuffix(":base")
    kvmark("runs", "rm", gone, "--yes")
    answered = kvmark("ab", "--answer", name, "--allow", "plan,invalid", "--json", exits=(0, 1))
    assert len(answered.json["comparison"]["cases"][0]["baseline_runs"]) == 5
    made = len(lines(kvmark))
    after = kvmark(*AB, "--resume", "--json", "--quiet", exits=(0, 1)).json["comparison"]["cases"][
        0
    ]
    assert [(one["case"], one["repetition"]) for one in lines(kvmark)[made:]] in (
        [("base", 2), ("candidate", 2)], [("candidate", 2), ("base", 2)],
    )  # fmt: skip
    kept = {*first["baseline_runs"], *first["candidate_runs"]}
    assert len(kept & {*after["baseline_runs"], *after["candidate_runs"]}) == 10


def test_a_start_that_failed_hides_nothing(kvmark: Kvmark) -> None:
    kvmark(*AB, "--json", "--quiet", exits=(0, 1))
    made = len(run_folders(kvmark.runs))
    with taken_port() as port:
        kvmark(*AB, "--quiet", "--prometheus", str(port), exits=(2, 3))
    kvmark(*AB, "--resume", "--json", "--quiet", exits=(0, 1))
    assert len(run_folders(kvmark.runs)) == made
