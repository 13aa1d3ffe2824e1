"""`kvmark ab`: its report, INVALID runs of a side, and comparisons that end early."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from command_line import Kvmark, Result, Started, run_folders, split
from preloaded import Ended

from kvmark.analysis.verdict.judge import Verdict
from kvmark.analysis.verdict.rules import Level, Reason
from kvmark.cli import main
from kvmark.experiment import interleaved_ab
from kvmark.experiment.interleaved_ab import BlockRun, judge_block_run
from waiting import wait_until

# In virtual time twenty seconds pass at once.
SIM = "sim:?clock=virtual&mean_us={}&seed=1"
SIDES = (
    f"ab 'ycsb/c --load never --operations 500' --base '--system {SIM.format(100)}'"
    f" --candidate '--system {SIM.format(120)}'"
)
# In real time there is an instant at which it can be interrupted.
SLOW = 'ab "ycsb/c --system sim:?mean_us=100 --load never --duration 300ms --interval 20ms" -q'
PLANTED = Verdict.of(
    [Reason("errors", Level.INVALID, "measure", "A planted reason.", {}, None, "look at it")]
)
Invalid = Callable[[int, dict[str, Any]], bool]
Compare = Callable[..., Result]


def judged_runs(kvmark: Kvmark) -> int:
    """The runs with a verdict."""
    return len(list(kvmark.runs.glob("*.verdict.json")))


def test_sides_are_interleaved_and_compared(kvmark: Kvmark) -> None:
    words = f"{SIDES.replace(SIM.format(120), f'{SIM.format(120)} --commit abc')} -q"
    result = kvmark(words, "--max-blocks", "4", "--fail-if", "throughput<-5%", exits=1)
    assert "Throughput fell by 16.7 %" in result.out
    assert "Every block gave the same ratio" in result.out
    runs = kvmark.manifests()
    assert len(runs) == 8
    assert [run["commit"] for run in runs].count("abc") == 4
    # A comparison of the stored runs, block by block, gives the same answer.
    base, candidate = sorted({run["tags"][0] for run in runs})
    compare = f"compare tag:{base} tag:{candidate} --allow system"
    (case,) = kvmark(compare, "--json").json["comparison"]["cases"]
    assert case["blocks"] == 4
    assert "Every block gave the same ratio" in str(case["cautions"])
    table = kvmark(compare).out.partition("Baseline:")[0]
    assert "throughput, ops/s" in table
    assert table in result.out


def start_slow(kvmark: Kvmark) -> Started:
    """A comparison with two complete blocks."""
    started = kvmark.start(SLOW)
    wait_until(lambda: judged_runs(kvmark) >= 5, "two blocks are complete")
    return started


def name_of(kvmark: Kvmark) -> str:
    """The comparison to which the first run belongs."""
    first = run_folders(kvmark.runs)[0].name
    return str(kvmark.manifest(first)["tags"][0]).rpartition(":")[0]


def test_an_interrupted_comparison_answers_with_its_complete_blocks(kvmark: Kvmark) -> None:
    result = start_slow(kvmark).interrupt()
    assert "It was cut short after" in result.out
    assert "throughput" in result.out
    assert "interrupted" in result.err
    # Its stored runs give the same answer.
    answer = kvmark("ab -q --answer", name_of(kvmark)).out
    table = [line for line in result.out.splitlines() if line.startswith(("Throughput", "Reading"))]
    assert all(line in answer for line in table)


def test_the_runs_of_a_killed_comparison_give_an_answer(kvmark: Kvmark) -> None:
    start_slow(kvmark).kill()
    blocks = judged_runs(kvmark) // 2
    document = kvmark("ab --json --answer", name_of(kvmark)).json
    (case,) = document["comparison"]["cases"]
    assert len(case["baseline_runs"]) == len(case["candidate_runs"]) >= blocks
    text = " ".join(document["said"])
    assert "It was cut short after" in text
    assert "asked for was an interval of ± 1 %" in text


def test_an_unknown_comparison_is_refused(kvmark: Kvmark) -> None:
    kvmark.runs.mkdir()
    sentence = kvmark.refuses("ab --answer ab:never")
    assert "no run of a comparison 'ab:never'" in sentence
    assert "leave the arguments" in kvmark.refuses("ab ycsb/c --answer ab:never")


@pytest.fixture
def ab(
    kvmark: Kvmark, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Compare:
    """Compares in this process; the runs for which `invalid` holds are INVALID."""
    monkeypatch.setenv("KVMARK_RUNS", str(kvmark.runs))

    def compare(options: str, exits: int, invalid: Invalid, command: str = SIDES) -> Result:
        numbers = count()

        def judge(records: Any, run: str, *arguments: Any, allow_invalid: bool) -> BlockRun:
            judged = judge_block_run(records, run, *arguments, allow_invalid=allow_invalid)
            if not invalid(next(numbers), records.open(run).manifest.spec["ab"]):
                return judged
            problem = f"run {run} is INVALID (a planted reason)"
            value = judged.value if allow_invalid else None
            return replace(judged, value=value, problem=problem, verdict=PLANTED)

        monkeypatch.setattr(interleaved_ab, "judge_block_run", judge)
        arguments = split((f"{command} --allow {options} -q",))
        code = main(arguments)
        return kvmark.checked(arguments, Ended(code, *capsys.readouterr()), exits)

    return compare


def in_every_second_block(_: int, place: dict[str, Any]) -> bool:
    return place["side"] == "candidate" and place["block"] % 2 == 1


def test_a_candidate_that_is_often_invalid_fails_the_comparison(ab: Compare) -> None:
    result = ab("system --repetitions 4", 1, in_every_second_block)
    first, second, *_ = result.out.splitlines()
    # Four complete blocks took seven, and both sides were measured in each.
    assert first == "INVALID: 0 of 7 runs of the baseline and 3 of 7 runs of the candidate."
    assert second.startswith("The candidate's reasons: errors (3); first run ")
    assert "3 of 7 runs of the candidate" in result.err
    assert "--allow invalid" in result.err
    assert "Throughput fell by 16.7 %" in result.out


def test_allowed_invalid_runs_are_counted_too(ab: Compare) -> None:
    result = ab("system,invalid --repetitions 4", 0, in_every_second_block)
    counts = "INVALID: 0 of 4 runs of the baseline and 2 of 4 runs of the candidate."
    assert result.out.startswith(counts)


def test_invalid_runs_are_in_document_and_report(ab: Compare, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    options = f"system --repetitions 4 --json --report {page}"
    document = ab(options, 1, in_every_second_block).json
    counts = {one["side"]: (one["runs"], one["invalid"]) for one in document["failures"]}
    assert counts == {"base": (7, 0), "candidate": (7, 3)}
    assert document["failures"][1]["reasons"] == {"errors": 3}
    assert document["said"][0].startswith("INVALID: ")
    report = page.read_text()
    assert report.index("INVALID: 0 of 7") < report.index("Throughput fell by")
    name = document["said"][-1].split()[-1].removesuffix(":candidate.")
    result = ab("system", 1, in_every_second_block, f"ab --answer {name}")
    assert result.out.startswith("INVALID: 0 of 7 runs of the baseline and 3 of 7 runs")


def test_one_invalid_block_is_left_out(ab: Compare) -> None:
    out = ab("system --max-blocks 4", 1, lambda number, _: number == 2).out
    assert "Throughput fell by 16.7 %" in out
    assert "A block was left out: run" in out
    assert "a planted reason" in out


def test_three_invalid_blocks_end_it_with_the_answer_of_the_others(ab: Compare) -> None:
    result = ab("system", 1, lambda number, _: number >= 6)
    assert "It was cut short after 3 blocks" in result.out
    assert "3 blocks one after the other can't be used: run" in result.err


def test_a_comparison_without_a_usable_block_reports_the_reason(ab: Compare) -> None:
    result = ab("system", 1, lambda *_: True)
    assert result.out == ""
    assert "a planted reason" in result.err
