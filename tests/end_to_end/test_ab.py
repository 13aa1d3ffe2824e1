"""`kvmark ab`, its INVALID runs and early ends; `compare`, `history` and `doc` on stored runs."""

from __future__ import annotations

import xml.etree.ElementTree as ET
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
    options = ("--max-blocks", "4", "--metric", "p95", "--fail-if", "throughput<-5%")
    result = kvmark(words, *options, exits=1)
    # The metric that decides comes first.
    parts = ("\np95 ", "\nthroughput, ", "\nResponse time at p95 ", ". Throughput fell by 16.7 %")
    assert [*map(result.out.index, parts)] == sorted(map(result.out.index, parts))
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
    assert set(table.splitlines()) <= set(result.out.splitlines())


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


# In virtual time twenty seconds pass at once.
SEEDED = "sim:?clock=virtual&mean_us={}&seed={}"
COMPARE = "compare before after --allow system"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Kvmark:
    """Two runs; the second one is slower by a tenth."""
    folder = tmp_path_factory.mktemp("compare")
    kvmark = Kvmark(folder, folder / "runs")
    for tag, mean_us in (("before", 1000), ("after", 1100)):
        words = (
            f"run ycsb/a --system {SEEDED.format(mean_us, mean_us)} --load never --duration 20s -q"
        )
        kvmark(words, "--tag", tag, "--commit", f"c0ffee{tag}")
    return kvmark


def test_a_build_fails_only_beyond_its_margin_and_chance(measured: Kvmark, tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    words = f"{COMPARE} --fail-if 'throughput<-3%' 'p99>50%'"
    result = measured(words, "--junit", report, exits=1)
    assert "throughput<-3%: FAILED" in result.out
    assert "p99>50%: passed" in result.out
    assert "the candidate is worse than allowed: throughput<-3%" in result.err
    suite = ET.parse(report).getroot()
    assert suite.attrib["tests"] == "2"
    failed = [test for test in suite.iter("testcase") if test.find("failure") is not None]
    assert [test.attrib["name"] for test in failed] == ["throughput<-3%"]
    measured(COMPARE, "--fail-if", "throughput<-30%")


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
    words = f"{COMPARE} --fail-if 'READ.mean>500%'"
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
    around = "# Page  \n\ntext\n<!-- kvmark: screen tag=after -->\n{}<!-- /kvmark -->\nend"
    path.write_text(around.format(""))
    measured("doc", path)
    assert "READ " in path.read_text()
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
