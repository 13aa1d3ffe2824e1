"""A study that is killed at any instant loses nothing, and goes on with what is missing."""

import json
import random
import time
from collections import Counter
from pathlib import Path

from studies import Program, journal_lines, manifests, terminate, wait_for

TINY = """
name: tiny
question: Does anything get lost?
system: "null:"
workload: ycsb/c
run: {operations: 3000, records: 200, interval: 50ms}
factors:
  clients: [1, 2, 3]
  value_size: {path: workload.dataset.fields.length, levels: [10, 20]}
repetitions: 4
"""
RUNS = 24
KILLS = 10
WORDS = ("--report", "none", "-q", "--json")


def place(manifest: dict[str, object]) -> tuple[str, int]:
    """The case and the repetition of a run."""
    spec = manifest["spec"]
    assert isinstance(spec, dict)
    return spec["study"]["case"], spec["study"]["repetition"]


def measuring(runs: Path, repetition: int) -> bool:
    """Whether a run of this repetition goes, and has written an interval."""
    for path in runs.glob("*/running.json"):
        log = path.with_name("intervals.jsonl")
        if log.exists() and log.stat().st_size:
            return place(json.loads(path.read_bytes()))[1] == repetition
    return False


def test_a_study_killed_at_ten_random_instants_loses_nothing_and_runs_nothing_twice(
    tmp_path: Path, program: Program
) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    runs = tmp_path / "runs"
    chance = random.Random(7)
    closed: dict[str, dict[str, object]] = {}
    killed = 0
    while killed < KILLS:
        resume = ["--resume"] if any(runs.glob("studies/*")) else []
        process = program.start(tmp_path, "study", "tiny.yaml", *WORDS, *resume)
        # Somewhere within one of the next runs, or while the study is being begun.
        until = journal_lines(runs) + chance.choice([0, 1, 1, 2, 3])
        later_s = time.monotonic() + chance.uniform(0, 0.05)
        while process.is_alive() and not (
            journal_lines(runs) >= until and time.monotonic() >= later_s
        ):
            time.sleep(0.001)
        process.kill()
        process.join()
        killed += 1
        now = manifests(runs)
        assert {run: now.get(run) for run in closed} == closed
        closed = dict(now)

    resume = ["--resume"] if any(runs.glob("studies/*")) else []
    ended = program(tmp_path, "study", "tiny.yaml", *WORDS, *resume)
    answer = ended.json
    assert ended.code in (0, 1), ended
    assert len(list(runs.glob("studies/[0-9]*"))) == 1
    assert answer["missing"] == 0
    assert len(answer["runs"]) == RUNS
    now = manifests(runs)
    assert {run: now.get(run) for run in closed} == closed
    whole = Counter(place(one) for one in now.values() if one["closed_by"] == "engine")
    assert len(whole) == RUNS
    assert set(whole.values()) == {1}


def test_a_run_that_was_interrupted_is_no_repetition_of_its_case(
    tmp_path: Path, program: Program
) -> None:
    # Long enough for the second repetition to be seen while it goes.
    text = TINY.replace("operations: 3000", "duration: 6s").replace(
        "clients: [1, 2, 3]", "clients: [1]"
    )
    (tmp_path / "tiny.yaml").write_text(text)
    runs = tmp_path / "runs"
    process = program.start(tmp_path, "study", "tiny.yaml", *WORDS)
    # The first case of the second repetition.
    wait_for(lambda: measuring(runs, 1), process, tmp_path, "the second repetition goes")
    terminate(process, tmp_path)
    rows = json.loads((tmp_path / "out").read_bytes())["rows"]
    assert [len(row["figures"]["runs"]) for row in rows] == [1, 1]
    assert any("interrupted" in failure for row in rows for failure in row["failures"])


def test_a_finished_study_has_nothing_left_to_run(tmp_path: Path, program: Program) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY.replace("repetitions: 4", "repetitions: 1"))
    first = program(tmp_path, "study", "tiny.yaml", *WORDS)
    again = program(tmp_path, "study", "tiny.yaml", *WORDS, "--resume")
    assert again.json["study"] == first.json["study"]
    assert again.json["runs"] == first.json["runs"]


def test_a_changed_study_is_not_gone_on_with(tmp_path: Path, program: Program) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY.replace("repetitions: 4", "repetitions: 1"))
    first = program(tmp_path, "study", "tiny.yaml", *WORDS, "--only", "clients=1")
    assert len(first.json["rows"]) == 2
    other = program(tmp_path, "study", "tiny.yaml", *WORDS, "--resume", "--only", "clients=2")
    assert other.code == 2
    assert "was begun with" in other.err
    (tmp_path / "tiny.yaml").write_text(TINY.replace("3000", "4000"))
    changed = program(tmp_path, "study", "tiny.yaml", *WORDS, "--resume")
    assert changed.code == 2
    assert "was begun with another file" in changed.err


def test_repetitions_are_added_to_those_that_were_measured(
    tmp_path: Path, program: Program
) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY.replace("repetitions: 4", "repetitions: 2"))
    runs = tmp_path / "runs"
    first = program(tmp_path, "study", "tiny.yaml", *WORDS)
    fewer = program(tmp_path, "study", "tiny.yaml", *WORDS, "--resume", "--repetitions", "1")
    assert fewer.code == 2
    assert "was begun with 2, and 1 are fewer" in fewer.err
    before = manifests(runs)
    more = program(tmp_path, "study", "tiny.yaml", *WORDS, "--resume", "--repetitions", "3")
    assert more.json["study"] == first.json["study"]
    assert set(first.json["runs"]) < set(more.json["runs"])
    assert Counter(place(one)[1] for one in manifests(runs).values()) == {0: 6, 1: 6, 2: 6}
    assert {run: manifests(runs)[run] for run in before} == before
    # Whoever goes on with it needn't say it again.
    again = program(tmp_path, "study", "tiny.yaml", *WORDS, "--resume")
    assert again.json["runs"] == more.json["runs"]
    assert again.json["missing"] == 0


def test_a_study_of_a_choice_of_cases_is_gone_on_with_beside_a_newer_one(
    tmp_path: Path, program: Program
) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY.replace("repetitions: 4", "repetitions: 1"))
    one, other = ("--only", "clients=1"), ("--only", "clients=2")
    first = program(tmp_path, "study", "tiny.yaml", *WORDS, *one)
    second = program(tmp_path, "study", "tiny.yaml", *WORDS, *other)
    assert first.json["study"] != second.json["study"]
    again = program(tmp_path, "study", "tiny.yaml", *WORDS, "--resume", *one)
    assert (again.json["study"], again.json["runs"]) == (first.json["study"], first.json["runs"])
    newest = program(tmp_path, "study", "tiny.yaml", *WORDS, "--resume")
    assert newest.json["study"] == second.json["study"]


def test_there_must_be_a_study_to_go_on_with(tmp_path: Path, program: Program) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    ended = program(tmp_path, "study", "tiny.yaml", *WORDS, "--resume")
    assert ended.code == 2
    assert ended.err == "kvmark: no study tiny was begun in runs; leave --resume out\n"
