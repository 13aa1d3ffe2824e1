"""`kvmark compare`, `ab`, `history` and `doc`, from runs that they were given."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Kvmark, Result, run_folders, sentence_of

from kvmark.cli import main

# Simulated stores hold every key; their time is virtual, so that twenty seconds pass at once.
SIM = "sim:?clock=virtual&mean_us={}&seed={}"
QUICK = ("--load", "never", "--duration", "20s", "-q")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Kvmark:
    """Two runs: the one after is slower by a tenth."""
    folder = tmp_path_factory.mktemp("compare")
    kvmark = Kvmark(folder, folder / "runs")
    for tag, mean_us in (("before", 1000), ("after", 1100)):
        words = ("--system", SIM.format(mean_us, mean_us), "--tag", tag, "--commit", f"c0ffee{tag}")
        kvmark("run", "ycsb/a", *words, *QUICK)
    return kvmark


@pytest.fixture
def answer(
    measured: Kvmark, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """Asks about those runs in this process, which has everything loaded already."""
    monkeypatch.setenv("KVMARK_RUNS", str(measured.runs))

    def ask(*words: object, exits: int = 0) -> Result:
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        result = Result(code, out, err, ("kvmark", *map(str, words)), measured.folder)
        assert code == exits, result
        return result

    return ask


def refused(result: Result) -> str:
    """The one sentence of a command that wrote nothing else."""
    assert result.out == "", result
    return sentence_of(result.err)


def test_a_run_keeps_its_commit(measured: Kvmark) -> None:
    first, second = (measured.manifest(path.name) for path in run_folders(measured.runs))
    assert (first["commit"], second["commit"]) == ("c0ffeebefore", "c0ffeeafter")


def test_unlike_systems_are_refused_with_what_differs(answer: Callable[..., Result]) -> None:
    said = refused(answer("compare", "tag:before", "tag:after", exits=2))
    assert "system.mean_us 1000 against 1100" in said
    assert "--allow system" in said


def test_a_build_fails_only_beyond_margin_and_chance(
    answer: Callable[..., Result], tmp_path: Path
) -> None:
    sides = ("compare", "before", "after", "--allow", "system")
    report = tmp_path / "junit.xml"
    words = ("--fail-if", "throughput<-3%", "p99>50%", "--junit", report)
    result = answer(*sides, *words, exits=1)
    assert "throughput<-3%: FAILED" in result.out
    assert "p99>50%: passed" in result.out
    assert "the candidate is worse than allowed: throughput<-3%" in result.err
    suite = ET.parse(report).getroot()
    assert suite.attrib["tests"] == "2"
    assert [test.attrib["name"] for test in suite.iter("testcase") if test.find("failure") is not
            None] == ["throughput<-3%"]  # fmt: skip
    answer(*sides, "--fail-if", "throughput<-30%")


def test_a_comparison_answers_as_text_markdown_and_json(answer: Callable[..., Result]) -> None:
    sides = ("compare", "commit:c0ffeeb", "commit:c0ffeea", "--allow", "system")
    assert "Throughput fell by" in answer(*sides).out
    assert "| throughput, ops/s |" in answer(*sides, "--format", "md").out
    (case,) = answer(*sides, "--json").json["comparison"]["cases"]
    throughput = case["rows"][0]
    assert throughput["metric"]["quantile"] is None
    assert throughput["effect"]["ratio"]["value"] == pytest.approx(1 / 1.1, rel=0.03)
    assert throughput["effect"]["ratio"]["low"] < throughput["effect"]["ratio"]["high"] < 1


def test_a_build_fails_where_it_can_not_be_told_unless_that_may_pass(
    answer: Callable[..., Result], tmp_path: Path
) -> None:
    # A mean of a single run has no error.
    sides = ("compare", "before", "after", "--allow", "system", "--fail-if", "READ.mean>500%")
    told = answer(*sides, exits=1)
    assert "READ.mean>500%: undecided" in told.out
    assert "can't be told: READ.mean>500%" in told.err
    report = tmp_path / "junit.xml"
    answer(*sides, "--if-unknown", "pass", "--junit", report)
    suite = ET.parse(report).getroot()
    assert (suite.attrib["failures"], suite.attrib["skipped"]) == ("0", "1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("before", "nothing"), "nothing"),
        (("before", "after", "--allow", "plans"), "plan"),
        (("before", "after", "--fail-if", "mesn>5%"), "did you mean 'mean'"),
        (("before", "after", "--fail-if", "REED.p99>5%"), "take one of READ, UPDATE"),
        (("before", "after", "--fail-if", "errors>5%"), "can't be compared"),
        (("before", "after", "p99>5%"), "--fail-if"),
    ],
)
def test_wrong_words_are_told(
    answer: Callable[..., Result], words: tuple[str, ...], said: str
) -> None:
    assert said in refused(answer("compare", *words, exits=2))


def test_history_shows_each_run_with_its_commit(answer: Callable[..., Result]) -> None:
    out = answer("runs", "history", "--metric", "p99", "--workload", "ycsb/a").out
    assert "c0ffeebefore" in out
    assert "Over 1 run no change of the level of p99 can be seen: that takes 10 of them." in out
    asked = ("runs", "history", "--metric", "REED.p99", "--workload", "ycsb/a")
    assert "take one of READ, UPDATE" in refused(answer(*asked, exits=2))


def test_a_document_is_stale_until_it_is_made_anew(
    answer: Callable[..., Result], tmp_path: Path
) -> None:
    path = tmp_path / "page.md"
    around = "# Page  \n\ntext\n<!-- kvmark: operations tag=after -->\n{}<!-- /kvmark -->\nend"
    path.write_text(around.format(""))
    assert "page.md:4: this block is stale" in answer("doc", path, "--check", exits=1).err
    answer("doc", path)
    made = path.read_text()
    assert made.startswith("# Page  \n\ntext\n<!-- kvmark:")
    assert made.endswith("<!-- /kvmark -->\nend")
    assert "| READ |" in made
    answer("doc", path, "--check")
    path.write_text(around.format("").replace("after", "never"))
    assert "page.md:4: no valid run has tag=never" in refused(answer("doc", path, exits=2))


def test_sides_are_measured_in_turn_and_compared(kvmark: Kvmark) -> None:
    words = ("ab", "ycsb/c --load never --operations 500", "--max-blocks", "4", "--allow", "system")
    base, slower = (f"--system '{SIM.format(mean_us, 1)}'" for mean_us in (100, 120))
    sides = ("--base", base, "--candidate", f"{slower} --commit abc")
    result = kvmark(*words, *sides, "--fail-if", "throughput<-5%", "-q", exits=1)
    assert "Throughput fell by 16.7 %" in result.out
    assert "Every block gave the same ratio" in result.out
    runs = [kvmark.manifest(path.name) for path in run_folders(kvmark.runs)]
    assert len(runs) == 8
    assert [run["commit"] for run in runs].count("abc") == 4
    # What was kept is compared once more, block by block: the answer is the same.
    base, candidate = sorted({run["tags"][0] for run in runs})
    later = kvmark("compare", f"tag:{base}", f"tag:{candidate}", "--allow", "system", "--json")
    (case,) = later.json["comparison"]["cases"]
    assert case["blocks"] == 4
    assert "Every block gave the same ratio" in str(case["cautions"])
    again = kvmark("compare", f"tag:{base}", f"tag:{candidate}", "--allow", "system")
    table = again.out.partition("Baseline:")[0]
    assert "throughput, ops/s" in table
    assert table in result.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--base", "--system null:"), "base: missing argument 'WORKLOAD'"),
        (("ycsb/c", "--base", "--system null: --rate x"), "base: "),
        (
            ("ycsb/c", "--base", "--system null:", "--candidate", ""),
            "candidate: run needs a system",
        ),
        (("ycsb/c --system null:", "--find", "2%", "--within", "1%"), "give one of"),
        (("ycsb/c --system null:", "--find", "much"), "not a share"),
        (("ycsb/c --system null:", "--metric", "max"), "a maximum is one operation"),
        (("ycsb/c --system null:", "--fail-if", "SCAN.p99>5%"), "take one of READ"),
    ],
)
def test_wrong_sides_are_told(
    answer: Callable[..., Result], words: tuple[str, ...], said: str
) -> None:
    assert said.lower() in refused(answer("ab", *words, exits=2)).lower()
