"""Runs of every format that was ever written are read: `kept` holds a small one of each."""

from __future__ import annotations

import json
import platform
import re
import shutil
from pathlib import Path

import pytest

from kvmark.analysis import judge, summarize
from kvmark.analysis.compare.comparison import compare
from kvmark.analysis.compare.history import histories
from kvmark.analysis.compare.metrics import THROUGHPUT
from kvmark.records import Records, Run
from kvmark.records.counting import COUNTINGS, moved_between
from kvmark.records.formats import NEWEST
from kvmark.report.format.terminal import run_text
from kvmark.report.views.gather import run_answer
from kvmark.report.views.history import history_sentence

KEPT = Path(__file__).parent / "kept"
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"

FIRST = "20261123-001639-ycsb-a-bbfd"
LAST_OF_1 = "20261123-064546-ycsb-a-60da"
KILLED = "20261123-063019-ycsb-c-e43a"
IMPORTED = "20261123-002221-db-bench-88d9"
OF_2 = "20261123-064602-ycsb-a-a8b9"

WRITTEN = {FIRST: 1, LAST_OF_1: 1, KILLED: 1, IMPORTED: 1, OF_2: 2}
"""The format in which each was written."""
COUNTED = {FIRST: 1, LAST_OF_1: 3, KILLED: None, IMPORTED: None, OF_2: 3}
"""How the engine counted; none where nobody knows."""
ALLOWED = ("plan", "system", "invalid")


@pytest.fixture
def records(tmp_path: Path) -> Records:
    root = shutil.copytree(KEPT, tmp_path / "runs")
    # On the machine that reads it, its writer is gone.
    running = root / KILLED / "running.json"
    document = json.loads(running.read_text())
    document["writer"]["host"] = platform.node()
    running.write_text(json.dumps(document))
    return Records(root)


def document_of(run: str) -> dict[str, object]:
    """What is kept of a run, as it was written."""
    path = KEPT / run / "manifest.json"
    text = path if path.exists() else KEPT / run / "running.json"
    written: dict[str, object] = json.loads(text.read_text())
    return written


def test_a_run_of_each_format_is_kept() -> None:
    assert {path.name for path in KEPT.iterdir()} == set(WRITTEN)
    assert {run: document_of(run)["format"] for run in WRITTEN} == WRITTEN
    assert set(WRITTEN.values()) == set(range(1, NEWEST + 1))


@pytest.mark.parametrize("run", WRITTEN)
def test_it_is_read_judged_and_shown(records: Records, run: str) -> None:
    opened = records.open(run)
    assert opened.manifest.format == NEWEST
    assert opened.manifest.engine.counting == COUNTED[run]
    assert judge(opened).reasons is not None
    assert opened.manifest.plan["name"] in run_text(run_answer(opened), 100).plain
    if run != IMPORTED:
        (phase,) = [one for one in summarize(opened).phases if one.name == "measure"]
        assert phase.throughput.value > 0
        assert phase.operations


def test_a_run_that_an_older_kvmark_left_killed_is_closed(records: Records) -> None:
    assert records.find(KILLED).state == "killed"
    closed = records.open(KILLED)
    assert closed.manifest.closed_by == "recovered"
    assert json.loads((closed.path / "manifest.json").read_text())["format"] == NEWEST
    assert closed.histogram(0, "clients", "READ").n > 0


def test_reading_an_old_run_changes_nothing_of_it(records: Records) -> None:
    for run in (FIRST, LAST_OF_1, IMPORTED):
        judge(records.open(run))
        for path in (KEPT / run).iterdir():
            assert (records.root / run / path.name).read_bytes() == path.read_bytes()


def of_one_case(records: Records, *runs: str) -> list[Run]:
    """Runs as if they had carried out the first one's plan."""
    plan = document_of(runs[0])["plan"]
    for run in runs:
        path = records.root / run / "manifest.json"
        written = json.loads(path.read_text())
        path.chmod(0o644)
        path.write_text(json.dumps({**written, "plan": plan}))
    return [records.open(run) for run in runs]


def two(records: Records) -> tuple[Run, Run]:
    return records.open(FIRST), records.open(LAST_OF_1)


def test_a_comparison_says_when_its_sides_were_counted_differently(records: Records) -> None:
    first, last = two(records)
    (case,) = compare([first], [last], allow=ALLOWED).cases
    said = {caution.code: caution.sentence for caution in case.cautions}
    assert "count differently (1 against 3)" in said["counting"]
    assert "service times of several clients" in said["counting"]
    (case,) = compare([last], [records.open(OF_2)], allow=ALLOWED).cases
    assert "counting" not in {caution.code for caution in case.cautions}


def test_a_history_says_from_which_run_on_it_is_counted_differently(records: Records) -> None:
    runs = of_one_case(records, FIRST, LAST_OF_1, OF_2)
    (history,) = histories(runs, THROUGHPUT)
    (place,) = history.recounted
    assert history.points[place.index].run == LAST_OF_1
    said = history_sentence(history)
    assert f"From {LAST_OF_1} on: The runs were measured by engines that count differently" in said


def test_what_a_newer_kvmark_counted_is_told_without_knowing_how() -> None:
    assert "newer kvmark" in moved_between(max(COUNTINGS), max(COUNTINGS) + 1)


def test_the_changelog_says_which_figures_each_way_of_counting_moves() -> None:
    measurement = CHANGELOG.read_text().partition("### Measurement")[2]
    named = {int(number) for number in re.findall(r"^- Counting (\d+):", measurement, re.M)}
    assert named == set(COUNTINGS) - {1}
    assert sorted(COUNTINGS) == list(range(1, max(COUNTINGS) + 1))
