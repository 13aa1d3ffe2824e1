"""A study is answered from its archive alone: no file of it, no system and no folder of runs."""

import json
import shutil
from pathlib import Path

import pytest
from studies import TOO_SHORT, Program

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


def test_a_page_may_show_a_part_of_a_study(
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
        ("from=tiny.tar.xz view=all", "the report has no 'all': take some of"),
        ("from=tiny.tar.xz only=clients=3", "only: clients has no level '3'"),
        ("from=tiny.tar.xz only=client=2", "only: there is no factor 'client'"),
        ("from=tiny.tar.xz only=clients", "only: 'clients' names no level"),
        ("from=loose.tar.xz only=clients=2", "only chooses cases of a study, and there is none"),
    ):
        (archive / "page.md").write_text(f"<!-- kvmark: report {words} -->\n<!-- /kvmark -->\n")
        assert main(["doc", str(archive / "page.md")]) == 2
        assert f"page.md:1: {told}" in capsys.readouterr().err


def test_short_runs_are_lengthened_and_archived(tmp_path: Path, program: Program) -> None:
    ended = program.study(TOO_SHORT, "--json")
    assert ended.code in (0, 1), ended
    manifests = program.manifests()
    lengths = sorted(
        (one["clients"], one["duration_ns"] // 10**6, one["study"]["repetition"])
        for one in (manifest["spec"] for manifest in manifests.values())
    )
    # Eight clients are asked once, fewer operations end than there are clients, until some do.
    few = [(8, 50 * 2**times, 0) for times in range(len(manifests) - 2)]
    assert lengths == [(2, 20_000, 0), (2, 20_000, 1), *few], ended
    assert 1 < len(few) <= 4
    rows = {row["levels"]["clients"]: row["figures"]["runs"] for row in ended.json["rows"]}
    assert [len(rows[clients]) for clients in ("8", "2")] == [1, 2]
    standing, made = sorted(rows["8"] + rows["2"]), sorted(manifests)
    words = ("runs", "archive", "study:mine", "-o", "short.tar.xz", "--json")
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
    assert sorted(program.manifests()) == standing
    # Nor do missing folders prevent another archive.
    words = ("runs", "archive", "study:mine", "-o", "again.tar.xz", "--json")
    assert program(*words).json["runs"] == standing


def test_an_effect_is_reported_only_for_selected_cases(program: Program) -> None:
    for word, titles in (("clients=1", []), ("consistency=one", ["Twice as many"])):
        ended = program.study(TINY, "--only", word, "--json")
        assert [one["asked"]["title"] for one in ended.json["effects"]] == titles
