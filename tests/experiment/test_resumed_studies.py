"""A study that is killed at any instant loses nothing, and is resumed with its missing runs."""

import json
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from studies import Program, journal_lines

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


def test_a_study_killed_ten_times_loses_nothing_and_runs_nothing_twice(program: Program) -> None:
    (program.folder / "tiny.yaml").write_text(TINY)
    runs = program.folder / "runs"
    chance = random.Random(7)
    closed: dict[str, dict[str, object]] = {}
    for _ in range(KILLS):
        resume = ["--resume"] if any(runs.glob("studies/*")) else []
        process = program.start("study", "tiny.yaml", *WORDS, *resume)
        # Somewhere within one of the next runs, or while the study is being begun.
        until = journal_lines(runs) + chance.choice([0, 1, 1, 2, 3])
        later_s = time.monotonic() + chance.uniform(0, 0.05)
        while process.is_alive() and not (
            journal_lines(runs) >= until and time.monotonic() >= later_s
        ):
            time.sleep(0.001)
        process.kill()
        process.join()
        now = program.manifests()
        assert {run: now.get(run) for run in closed} == closed
        closed = dict(now)

    resume = ["--resume"] if any(runs.glob("studies/*")) else []
    ended = program("study", "tiny.yaml", *WORDS, *resume)
    answer = ended.json
    assert ended.code in (0, 1), ended
    assert len(list(runs.glob("studies/[0-9]*"))) == 1
    assert answer["missing"] == 0
    assert len(answer["runs"]) == RUNS
    now = program.manifests()
    assert {run: now.get(run) for run in closed} == closed
    whole = Counter(place(one) for one in now.values() if one["closed_by"] == "engine")
    assert len(whole) == RUNS
    assert set(whole.values()) == {1}


def test_an_interrupted_run_is_no_repetition_of_its_case(tmp_path: Path, program: Program) -> None:
    # Long enough for the second repetition to be seen while it goes.
    text = TINY.replace("operations: 3000", "duration: 6s").replace("[1, 2, 3]", "[1]")
    (tmp_path / "tiny.yaml").write_text(text)
    runs = tmp_path / "runs"
    process = program.start("study", "tiny.yaml", *WORDS)
    # The first case of the second repetition.
    program.wait_for(lambda: measuring(runs, 1), process, "the second repetition goes")
    program.terminate(process)
    rows = json.loads((tmp_path / "out").read_bytes())["rows"]
    ended = program.manifests()
    cut = {run for run, manifest in ended.items() if manifest["engine"]["interrupted"]}
    assert len(cut) <= 1
    # None is cut if the request came between two runs.
    assert any("interrupted" in failure for row in rows for failure in row["failures"]) == bool(cut)
    counted = [run for row in rows for run in row["figures"]["runs"]]
    assert sorted(counted) == sorted(ended.keys() - cut)
    assert len(counted) >= 2


ONCE = TINY.replace("repetitions: 4", "repetitions: 1")
RESUME = ("--json", "--resume")


@pytest.mark.parametrize(
    ("text", "words", "sentence"),
    [
        (TINY.replace("tiny", "other"), (), "no study other was begun in runs; leave --resume out"),
        (ONCE, ("--only", "clients=2"), "was begun with"),
        (ONCE.replace("3000", "4000"), (), "was begun with another file"),
    ],
)
def test_a_changed_study_is_not_resumed(
    program: Program, text: str, words: tuple[str, ...], sentence: str
) -> None:
    first = program.study(ONCE, "--json", "--only", "clients=1")
    assert len(first.json["rows"]) == 2
    changed = program.study(text, *RESUME, *words)
    assert changed.code == 2
    assert sentence in changed.err


def test_repetitions_are_added_to_measured_ones(program: Program) -> None:
    twice = TINY.replace("repetitions: 4", "repetitions: 2")
    first = program.study(twice, "--json").json
    fewer = program.study(twice, *RESUME, "--repetitions", "1")
    assert fewer.code == 2
    assert "was begun with 2, and 1 are fewer" in fewer.err
    before = program.manifests()
    more = program.study(twice, *RESUME, "--repetitions", "3").json
    assert more["study"] == first["study"]
    assert set(first["runs"]) < set(more["runs"])
    after = program.manifests()
    assert Counter(place(one)[1] for one in after.values()) == {0: 6, 1: 6, 2: 6}
    assert {run: after[run] for run in before} == before
    # The increased number is stored.
    again = program.study(twice, *RESUME).json
    assert (again["runs"], again["missing"]) == (more["runs"], 0)


def test_a_study_of_selected_cases_is_resumed_besides_a_newer_one(program: Program) -> None:
    one, other = ("--only", "clients=1"), ("--only", "clients=2")
    first = program.study(ONCE, "--json", *one).json
    second = program.study(ONCE, "--json", *other).json
    assert first["study"] != second["study"]
    again = program.study(ONCE, *RESUME, *one).json
    assert (again["study"], again["runs"]) == (first["study"], first["runs"])
    assert program.study(ONCE, *RESUME).json["study"] == second["study"]
