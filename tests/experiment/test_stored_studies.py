"""A study is answered from its archive alone: no file of it, no system and no folder of runs."""

import json
import shutil
from pathlib import Path

import pytest
from studies import Program

from kvmark.cli import main
from kvmark.outputs import MADE_BY_KVMARK
from kvmark.records.archive import unpack, write_archive

TINY = """
name: tiny
question: Is it the same elsewhere?
system: "null:"
workload: ycsb/c
run: {operations: 3000, records: 200}
factors:
  clients: [1, 2]
  consistency: {path: options.cql.consistency, levels: [one, all]}
effects:
  - {title: Twice as many, from: {clients: 1}, to: {clients: 2}}
figure: {across: clients}
repetitions: 3
"""


@pytest.fixture
def archive(tmp_path: Path, program: Program) -> Path:
    """A study that was carried out and stored, with nothing else left of it but its report."""
    (tmp_path / "tiny.yaml").write_text(TINY)
    ended = program("study", "tiny.yaml", "--report", "tiny.md", "-q")
    assert ended.code in (0, 1), ended
    # What stands in a study's journal of a testbed that was up then.
    [journal] = (tmp_path / "runs" / "studies").glob("*/study.json")
    told = json.loads(journal.read_text())
    assert program("runs", "archive", "study:tiny", "-o", "tiny.tar.xz").code == 0
    told["asked"]["system"] = "up:gone"
    journal.write_text(json.dumps(told))
    assert program("runs", "archive", "study:tiny", "-o", "gone.tar.xz").code == 0
    shutil.rmtree(tmp_path / "runs")
    (tmp_path / "tiny.yaml").unlink()
    return tmp_path


def made(folder: Path, words: str) -> str:
    page = folder / "page.md"
    page.write_text(f"# Page\n\n<!-- kvmark: report {words} -->\n<!-- /kvmark -->\n")
    assert main(["doc", str(page), "-q"]) == 0
    return page.read_text()


def test_a_page_of_a_stored_study_is_its_report(archive: Path) -> None:
    _, _, report = (archive / "tiny.md").read_text().partition("\n\n")
    page = made(archive, "from=tiny.tar.xz")
    report = report.removesuffix(f"{MADE_BY_KVMARK}\n").strip()
    assert page.replace("](page/", "](tiny/").count(report) == 1
    for name in ("throughput.svg", "response.svg"):
        drawn = (archive / "page" / name).read_bytes()
        assert drawn == (archive / "tiny" / name).read_bytes()


def test_a_stored_study_needs_no_system(archive: Path) -> None:
    page = made(archive, "from=gone.tar.xz view=every-case")
    assert "| 1 |" in page
    assert "The factor consistency is the same for all cases on this system: left out." in page


def test_a_view_that_a_report_lacks_is_named(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = archive / "page.md"
    page.write_text("<!-- kvmark: report from=tiny.tar.xz view=all -->\n<!-- /kvmark -->\n")
    assert main(["doc", str(page)]) == 2
    assert "page.md:1: the report has no 'all': take some of" in capsys.readouterr().err


def test_a_page_may_show_only_some_cases_of_a_study(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = made(archive, "from=tiny.tar.xz only=clients=2 view=every-case")
    assert "| 2 |" in page
    assert "| 1 |" not in page
    # All runs of a study, and nothing that says of which they were.
    unpack(archive / "tiny.tar.xz", archive / "loose")
    shutil.rmtree(archive / "loose" / "studies")
    write_archive(
        archive / "loose", [one.name for one in (archive / "loose").iterdir()],
        archive / "loose.tar.xz",
    )  # fmt: skip
    for words, told in (
        ("from=tiny.tar.xz only=clients=3", "only: clients has no level '3'"),
        ("from=tiny.tar.xz only=client=2", "only: there is no factor 'client'"),
        ("from=tiny.tar.xz only=clients", "only: 'clients' names no level"),
        ("from=loose.tar.xz only=clients=2", "only chooses cases of a study, and there is none"),
    ):
        (archive / "page.md").write_text(f"<!-- kvmark: report {words} -->\n<!-- /kvmark -->\n")
        assert main(["doc", str(archive / "page.md")]) == 2
        assert f"page.md:1: {told}" in capsys.readouterr().err


TOO_SHORT = """
name: short
question: Are runs that say too little kept beside those that say enough?
system: "sim:?mean_us=200000&clock=virtual"
workload: ycsb/c
lengthen: 3
run: {records: 10, load: never, interval: 10ms, clients: 8}
factors:
  tenths: {levels: {1: {duration: 50ms}, 200: {duration: 20s}}}
"""


def test_an_archive_has_all_runs_of_a_study_and_its_answer_needs_the_longest(
    tmp_path: Path, program: Program
) -> None:
    ended = program.study(TOO_SHORT, "--json")
    assert ended.code in (0, 1), ended
    standing = sorted(run for row in ended.json["rows"] for run in row["figures"]["runs"])
    made = sorted(path.parent.name for path in tmp_path.glob("runs/*/manifest.json"))
    words = ("runs", "archive", "study:short", "-o", "short.tar.xz", "--json")
    assert program(*words).json["runs"] == made
    assert len(standing) < len(made)
    # Without the runs that were too short, the study knows all the same which lengths were tried.
    shutil.rmtree(tmp_path / "runs")
    (tmp_path / "runs").mkdir()
    unpack(tmp_path / "short.tar.xz", tmp_path / "runs")
    for run in set(made) - set(standing):
        shutil.rmtree(tmp_path / "runs" / run)
    resumed = program.study(TOO_SHORT, "--json", "--resume")
    assert resumed.json["rows"] == ended.json["rows"]
    assert sorted(path.parent.name for path in tmp_path.glob("runs/*/manifest.json")) == standing
    # Nor do missing folders prevent another archive.
    words = ("runs", "archive", "study:short", "-o", "again.tar.xz", "--json")
    assert program(*words).json["runs"] == standing


def test_an_effect_is_reported_only_for_selected_cases(tmp_path: Path, program: Program) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    told = {}
    for word in ("clients=1", "consistency=one"):
        words = ("--only", word, "--report", f"{word}.md", "-q", "--json")
        ended = program("study", "tiny.yaml", *words)
        told[word] = [one["asked"]["title"] for one in ended.json["effects"]]
    assert told == {"clients=1": [], "consistency=one": ["Twice as many"]}
