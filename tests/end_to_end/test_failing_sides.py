"""INVALID runs of one side of an interleaved comparison: their blocks are replaced, and counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvmark.analysis.verdict.judge import Verdict
from kvmark.analysis.verdict.rules import Level, Reason
from kvmark.cli import main
from kvmark.experiment import interleaved_ab as paired
from kvmark.experiment.interleaved_ab import BlockRun, judge_block_run

# Virtual time passes at once.
SIM = "--system 'sim:?clock=virtual&mean_us={}&seed=1'"
WORDS = (
    "ab", "ycsb/c --load never --operations 500", "--base", SIM.format(100), "--candidate",
    SIM.format(120), "--repetitions", "4", "-q",
)  # fmt: skip
PLANTED = Verdict.of(
    [Reason("errors", Level.INVALID, "measure", "A planted reason.", {}, None, "look at it")]
)
Compare = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Compare:
    """Compares in this process, with a candidate that is INVALID in every second block."""
    monkeypatch.setenv("KVMARK_RUNS", str(tmp_path / "runs"))

    def doubting(records: Any, run: str, metric: Any, *, allow_invalid: bool) -> BlockRun:
        found = judge_block_run(records, run, metric, allow_invalid=allow_invalid)
        place = records.open(run).manifest.spec["ab"]
        if place["side"] == "base" or place["block"] % 2 == 0:
            return found
        value = found.value if allow_invalid else None
        return replace(found, value=value, problem=f"run {run} is INVALID", verdict=PLANTED)

    def compare(*words: str, given: tuple[str, ...] = WORDS) -> tuple[int, str, str]:
        monkeypatch.setattr(paired, "judge_block_run", doubting)
        code = main([*given, *words])
        told: Any = capsys.readouterr()
        return code, told.out, told.err

    return compare


def test_a_candidate_that_fails_in_every_second_block_is_no_answer_of_yes(ab: Compare) -> None:
    code, out, err = ab("--allow", "system")
    assert code == 1
    first, second, *_ = out.splitlines()
    # Four whole blocks took seven, and both sides were measured in each.
    assert first == "INVALID: 0 of 7 runs of the baseline and 3 of 7 runs of the candidate."
    assert second.startswith("The candidate's reasons: errors (3); first run ")
    assert "3 of 7 runs of the candidate" in err
    assert "--allow invalid" in err
    assert "Throughput fell by 16.7 %" in out


def test_failures_that_are_allowed_are_counted_all_the_same(ab: Compare) -> None:
    code, out, _ = ab("--allow", "system,invalid")
    assert code == 0
    assert out.startswith("INVALID: 0 of 4 runs of the baseline and 2 of 4 runs of the candidate.")


def test_both_sides_failures_are_in_the_document_and_first_in_the_report(
    ab: Compare, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    code, out, _ = ab("--allow", "system", "--json", "--report", str(page))
    assert code == 1
    document = json.loads(out)
    counts = {one["side"]: (one["runs"], one["invalid"]) for one in document["failures"]}
    assert counts == {"base": (7, 0), "candidate": (7, 3)}
    assert document["failures"][1]["reasons"] == {"errors": 3}
    assert document["said"][0].startswith("INVALID: ")
    report = page.read_text()
    assert report.index("INVALID: 0 of 7") < report.index("Throughput fell by")
    name = document["said"][-1].split()[-1].removesuffix(":candidate.")
    code, out, _ = ab("--answer", name, "--allow", "system", given=("ab",))
    assert code == 1
    assert out.startswith("INVALID: 0 of 7 runs of the baseline and 3 of 7 runs")


def test_sides_that_cannot_be_compared_end_it_after_their_first_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVMARK_RUNS", str(tmp_path / "runs"))
    assert main([*WORDS]) == 2
    assert "the systems of the sides differ" in capsys.readouterr().err
    assert len(list((tmp_path / "runs").glob("*/manifest.json"))) == 2
