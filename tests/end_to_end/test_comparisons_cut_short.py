"""Interleaved comparisons that end before their time answer with the blocks that there are."""

from __future__ import annotations

import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from command_line import Kvmark, run_folders

from kvmark.analysis.verdict.judge import Verdict
from kvmark.analysis.verdict.rules import Level, Reason
from kvmark.cli import main
from kvmark.experiment import interleaved_ab as paired
from kvmark.experiment.interleaved_ab import BlockRun, judge_block_run
from waiting import wait_until

# Time passes as it does: there is an instant at which it can be cut short.
SLOW = "ycsb/c --system 'sim:?mean_us=100' --load never --duration 300ms --interval 20ms"
# Virtual time passes at once.
QUICK = "ycsb/c --load never --operations 500"
SIM = "--system 'sim:?clock=virtual&mean_us={}&seed=1'"
PLANTED = Verdict.of(
    [Reason("errors", Level.INVALID, "measure", "A planted reason.", {}, None, "look at it")]
)
SIDES = ("--base", SIM.format(100), "--candidate", SIM.format(120), "--allow", "system")


def closed(kvmark: Kvmark) -> int:
    """How many runs have been closed and judged."""
    return len(list(kvmark.runs.glob("*.verdict.json")))


def name_of(kvmark: Kvmark) -> str:
    """The comparison that the first run belongs to."""
    tag: str = kvmark.manifest(run_folders(kvmark.runs)[0].name)["tags"][0]
    return tag.rpartition(":")[0]


def test_an_interrupted_comparison_answers_with_its_complete_blocks(kvmark: Kvmark) -> None:
    started = kvmark.start("ab", SLOW, "-q")
    wait_until(lambda: closed(kvmark) >= 5, "two blocks are complete")
    started.send_signal(signal.SIGINT)
    result = kvmark.finish(started, 130)
    assert "It was cut short after" in result.out
    assert "throughput" in result.out
    assert "interrupted" in result.err
    # Asked once more, the runs that it left say the same.
    again = kvmark("ab", "--answer", name_of(kvmark), "-q").out
    table = [line for line in result.out.splitlines() if line.startswith(("Throughput", "Reading"))]
    assert all(line in again for line in table)


def test_what_a_killed_comparison_left_is_answered_with(kvmark: Kvmark) -> None:
    started = kvmark.start("ab", SLOW, "-q")
    wait_until(lambda: closed(kvmark) >= 5, "two blocks are complete")
    kvmark.kill(started)
    blocks = closed(kvmark) // 2
    result = kvmark("ab", "--answer", name_of(kvmark), "--json")
    (case,) = result.json["comparison"]["cases"]
    assert len(case["baseline_runs"]) == len(case["candidate_runs"]) >= blocks
    said = " ".join(result.json["said"])
    assert "It was cut short after" in said
    assert "asked for was an interval of ± 1 %" in said


def test_a_comparison_that_nobody_made_is_told(kvmark: Kvmark) -> None:
    kvmark.runs.mkdir(exist_ok=True)
    said = kvmark.refuses("ab", "--answer", "ab:never")
    assert "no run of a comparison 'ab:never'" in said
    assert "leave the arguments" in kvmark.refuses("ab", "ycsb/c", "--answer", "ab:never")


@pytest.fixture
def ab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Compares in this process, and holds some runs for INVALID, by their number from 0."""
    monkeypatch.setenv("KVMARK_RUNS", str(tmp_path / "runs"))

    def compare(*words: str, doubted: tuple[int, ...] = ()) -> tuple[int, str, str]:
        numbers = count()

        def doubting(records: Any, run: str, *given: Any, **more: Any) -> BlockRun:
            if next(numbers) in doubted:
                return BlockRun(run, None, f"run {run} is INVALID (a planted reason)", PLANTED)
            return judge_block_run(records, run, *given, **more)

        monkeypatch.setattr(paired, "judge_block_run", doubting)
        code = main(["ab", QUICK, *SIDES, *words, "-q"])
        told: Any = capsys.readouterr()
        return code, told.out, told.err

    return compare


def test_one_invalid_block_is_left_out_and_the_others_answer(
    ab: Callable[..., tuple[int, str, str]],
) -> None:
    code, out, _ = ab("--max-blocks", "4", doubted=(2,))
    assert code == 1
    assert "Throughput fell by 16.7 %" in out
    assert "A block was left out: run" in out
    assert "a planted reason" in out


def test_a_comparison_whose_blocks_become_invalid_answers_with_those_before(
    ab: Callable[..., tuple[int, str, str]],
) -> None:
    code, out, err = ab(doubted=tuple(range(6, 100)))
    assert code == 1
    assert "It was cut short after 3 blocks" in out
    assert "3 blocks one after the other can't be used: run" in err


def test_a_comparison_without_one_usable_block_says_why(
    ab: Callable[..., tuple[int, str, str]],
) -> None:
    code, out, err = ab(doubted=tuple(range(100)))
    assert (code, out) == (1, "")
    assert "a planted reason" in err
