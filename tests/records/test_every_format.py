"""Runs of every supported format: `kept` contains a small one of each."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from kvmark.analysis.compare.comparison import compare
from kvmark.analysis.compare.history import histories
from kvmark.analysis.summary.run import summarize
from kvmark.analysis.verdict.judge import judge
from kvmark.records import Records, Run
from kvmark.records.files import FORMAT
from kvmark.records.model import COUNTINGS, counting_changes
from kvmark.report.views.comparison import history_sentence
from kvmark.report.views.gather import run_answer
from kvmark.report.views.run import run_text
from kvmark.spec.metric import THROUGHPUT

KEPT = Path(__file__).parent / "kept"
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"

RUN = "20261123-064602-ycsb-a-a8b9"
ALLOWED = ("plan", "system", "invalid")


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(shutil.copytree(KEPT, tmp_path / "runs"))


def counted(records: Records, counting: int) -> Run:
    """A copy of the run as of an engine with this way of counting."""
    name = f"{RUN[:-4]}000{counting}"
    path = shutil.copytree(KEPT / RUN, records.root / name) / "manifest.json"
    document = json.loads(path.read_text())
    document["engine"]["counting"] = counting
    path.chmod(0o644)
    path.write_text(json.dumps({**document, "id": name}))
    return records.open(name)


def test_a_stored_run_is_read_judged_and_shown(records: Records) -> None:
    # One of each supported format.
    written = {path.parent.name: path for path in KEPT.glob("*/manifest.json")}
    assert {run: json.loads(path.read_text())["format"] for run, path in written.items()} == {
        RUN: FORMAT
    }
    opened = records.open(RUN)
    assert opened.manifest.engine.counting == 3
    assert judge(opened).reasons is not None
    assert opened.manifest.plan["name"] in run_text(run_answer(opened), 100).plain
    (phase,) = [one for one in summarize(opened).phases if one.name == "measure"]
    assert phase.throughput.value > 0
    assert phase.operations
    for path in (KEPT / RUN).iterdir():
        assert (records.root / RUN / path.name).read_bytes() == path.read_bytes()


def test_a_comparison_reports_different_ways_of_counting(records: Records) -> None:
    first, last = counted(records, 1), counted(records, 3)
    (case,) = compare([first], [last], allow=ALLOWED).cases
    cautions = {caution.code: caution.sentence for caution in case.cautions}
    assert "count differently (1 against 3)" in cautions["counting"]
    assert "service times of several clients" in cautions["counting"]
    (case,) = compare([last], [records.open(RUN)], allow=ALLOWED).cases
    assert "counting" not in {caution.code for caution in case.cautions}


def test_a_history_reports_the_run_that_changes_the_counting(records: Records) -> None:
    runs = [counted(records, 1), counted(records, 3), records.open(RUN)]
    (history,) = histories(runs, THROUGHPUT)
    (place,) = history.recounted
    assert history.points[place.index].run == runs[1].id
    sentence = history_sentence(history)
    assert f"From {runs[1].id} on: The runs were measured by engines that count" in sentence


def test_the_changelog_has_each_way_of_counting() -> None:
    measurement = CHANGELOG.read_text().partition("### Measurement")[2]
    named = {int(number) for number in re.findall(r"^- Counting (\d+):", measurement, re.M)}
    assert named == set(COUNTINGS) - {1}
    assert sorted(COUNTINGS) == list(range(1, max(COUNTINGS) + 1))
    assert "newer kvmark" in counting_changes(max(COUNTINGS), max(COUNTINGS) + 1)
