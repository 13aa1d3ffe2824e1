"""`kvmark compare`, `history` and `doc` on stored runs, and wrong sides of `ab`."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from command_line import Kvmark

# In virtual time twenty seconds pass at once.
SIM = "sim:?clock=virtual&mean_us={}&seed={}"
SIDES = "compare before after --allow system"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Kvmark:
    """Two runs; the second one is slower by a tenth."""
    folder = tmp_path_factory.mktemp("compare")
    kvmark = Kvmark(folder, folder / "runs")
    for tag, mean_us in (("before", 1000), ("after", 1100)):
        words = f"run ycsb/a --system {SIM.format(mean_us, mean_us)} --load never --duration 20s -q"
        kvmark(words, "--tag", tag, "--commit", f"c0ffee{tag}")
    return kvmark


def test_a_build_fails_only_beyond_its_margin_and_chance(measured: Kvmark, tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    words = f"{SIDES} --fail-if 'throughput<-3%' 'p99>50%'"
    result = measured(words, "--junit", report, exits=1)
    assert "throughput<-3%: FAILED" in result.out
    assert "p99>50%: passed" in result.out
    assert "the candidate is worse than allowed: throughput<-3%" in result.err
    suite = ET.parse(report).getroot()
    assert suite.attrib["tests"] == "2"
    failed = [test for test in suite.iter("testcase") if test.find("failure") is not None]
    assert [test.attrib["name"] for test in failed] == ["throughput<-3%"]
    measured(SIDES, "--fail-if", "throughput<-30%")


def test_a_comparison_answers_as_text_markdown_and_json(measured: Kvmark) -> None:
    sides = "compare commit:c0ffeeb commit:c0ffeea --allow system"
    assert "Throughput fell by" in measured(sides).out
    assert "| throughput, ops/s |" in measured(sides, "--format", "md").out
    (case,) = measured(sides, "--json").json["comparison"]["cases"]
    throughput = case["rows"][0]
    assert throughput["metric"]["quantile"] is None
    assert throughput["effect"]["ratio"]["value"] == pytest.approx(1 / 1.1, rel=0.03)
    assert throughput["effect"]["ratio"]["low"] < throughput["effect"]["ratio"]["high"] < 1


def test_an_undecided_limit_fails_unless_it_may_pass(measured: Kvmark, tmp_path: Path) -> None:
    # A mean of a single run has no error.
    words = f"{SIDES} --fail-if 'READ.mean>500%'"
    result = measured(words, exits=1)
    assert "READ.mean>500%: undecided" in result.out
    assert "can't be told: READ.mean>500%" in result.err
    report = tmp_path / "junit.xml"
    measured(words, "--if-unknown", "pass", "--junit", report)
    suite = ET.parse(report).getroot()
    assert (suite.attrib["failures"], suite.attrib["skipped"]) == ("0", "1")


def test_history_shows_each_run_with_its_commit(measured: Kvmark) -> None:
    out = measured("runs history --metric p99 --workload ycsb/a").out
    assert "c0ffeebefore" in out
    assert "c0ffeeafter" in out
    assert "Over 1 run no change of the level of p99 can be seen: that takes 10 of them." in out
    wrong = "runs history --metric REED.p99 --workload ycsb/a"
    assert "take one of READ, UPDATE" in measured.refuses(wrong)


def test_a_document_shows_the_runs_of_a_tag(measured: Kvmark, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    around = "# Page  \n\ntext\n<!-- kvmark: operations tag=after -->\n{}<!-- /kvmark -->\nend"
    path.write_text(around.format(""))
    measured("doc", path)
    assert "| READ |" in path.read_text()
    measured("doc", path, "--check")
    path.write_text(around.format("").replace("after", "never"))
    assert "page.md:4: no valid run has tag=never" in measured.refuses("doc", path)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("compare before nothing", "nothing"),
        ("compare tag:before tag:after", "(system.mean_us 1000 against 1100"),
        ("compare tag:before tag:after", "--allow system"),
        ("compare before after --allow plans", "plan"),
        ("compare before after --fail-if 'REED.p99>5%'", "take one of READ, UPDATE"),
        ("compare before after 'p99>5%'", "--fail-if"),
        ("ab --base '--system null:'", "base: missing argument 'workload'"),
        ("ab ycsb/c --base '--system null: --rate x'", "base: "),
        ("ab ycsb/c --base '--system null:' --candidate ''", "candidate: run needs a system"),
        ("ab 'ycsb/c --system null:' --find 2% --within 1%", "give one of"),
        ("ab 'ycsb/c --system null:' --find much", "not a share"),
        ("ab 'ycsb/c --system null:' --fail-if 'SCAN.p99>5%'", "take one of read"),
    ],
)
def test_a_wrong_comparison_is_refused(measured: Kvmark, words: str, part: str) -> None:
    assert part.lower() in measured.refuses(words).lower()
