"""Studies that were killed, resumed or stored: nothing is lost, and the archive has all of it."""

import json
import random
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from studies import TOO_SHORT, Program, journal_lines

from kvmark.cli import main
from kvmark.outputs import MADE_BY_KVMARK
from kvmark.records.archive import unpack, write_archive

TINY = """
name: tiny
question: Does anything get lost?
system: "null:"
workload: ycsb/c
run: {operations: 3000, records: 200, interval: 50ms}
factors:
  clients: [1, 2, 3]
  value_size: {path: workload.dataset.fields.length, levels: [10, 20]}
repetitions: 4
"""
RUNS = 24
KILLS = 10
WORDS = ("--report", "none", "-q", "--json")


def place(manifest: dict[str, object]) -> tuple[str, int]:
    """The case and the repetition of a run."""
    spec = manifest["spec"]
    assert isinstance(spec, dict)
    return spec["study"]["case"], spec["study"]["repetition"]


def measuring(runs: Path, repetition: int) -> bool:
    """Whether a run of this repetition goes, and has written an interval."""
    for path in runs.glob("*/running.json"):
        log = path.with_name("intervals.jsonl")
        if log.exists() and log.stat().st_size:
            return place(json.loads(path.read_bytes()))[1] == repetition
    return False


def test_a_study_killed_ten_times_loses_nothing_and_runs_nothing_twice(program: Program) -> None:
    (program.folder / "tiny.yaml").write_text(TINY)
    runs = program.folder / "runs"
    chance = random.Random(7)
    closed: dict[str, dict[str, object]] = {}
    for _ in range(KILLS):
        resume = ["--resume"] if any(runs.glob("studies/*")) else []
        process = program.start("study", "tiny.yaml", *WORDS, *resume)
        # Somewhere within one of the next runs, or while the study is being begun.
        until = journal_lines(runs) + chance.choice([0, 1, 1, 2, 3])
        later_s = time.monotonic() + chance.uniform(0, 0.05)
        while process.is_alive() and not (
            journal_lines(runs) >= until and time.monotonic() >= later_s
        ):
            time.sleep(0.001)
        process.kill()
        process.join()
        now = program.manifests()
        assert {run: now.get(run) for run in closed} == closed
        closed = dict(now)

    resume = ["--resume"] if any(runs.glob("studies/*")) else []
    ended = program("study", "tiny.yaml", *WORDS, *resume)
    answer = ended.json
    assert ended.code in (0, 1), ended
    assert len(list(runs.glob("studies/[0-9]*"))) == 1
    assert answer["missing"] == 0
    assert len(answer["runs"]) == RUNS
    now = program.manifests()
    assert {run: now.get(run) for run in closed} == closed
    whole = Counter(place(one) for one in now.values() if one["closed_by"] == "engine")
    assert len(whole) == RUNS
    assert set(whole.values()) == {1}


def test_an_interrupted_run_is_no_repetition_of_its_case(tmp_path: Path, program: Program) -> None:
    # Long enough for the second repetition to be seen while it goes.
    text = TINY.replace("operations: 3000", "duration: 6s").replace("[1, 2, 3]", "[1]")
    (tmp_path / "tiny.yaml").write_text(text)
    runs = tmp_path / "runs"
    process = program.start("study", "tiny.yaml", *WORDS)
    # The first case of the second repetition.
    program.wait_for(lambda: measuring(runs, 1), process, "the second repetition goes")
    program.terminate(process)
    rows = json.loads((tmp_path / "out").read_bytes())["rows"]
    ended = program.manifests()
    cut = {run for run, manifest in ended.items() if manifest["engine"]["interrupted"]}
    assert len(cut) <= 1
    # None is cut if the request came between two runs.
    assert any("interrupted" in failure for row in rows for failure in row["failures"]) == bool(cut)
    counted = [run for row in rows for run in row["figures"]["runs"]]
    assert sorted(counted) == sorted(ended.keys() - cut)
    assert len(counted) >= 2


ONCE = TINY.replace("repetitions: 4", "repetitions: 1")
RESUME = ("--json", "--resume")


@pytest.mark.parametrize(
    ("text", "words", "sentence"),
    [
        (TINY.replace("tiny", "other"), (), "no study other was begun in runs; leave --resume out"),
        (ONCE, ("--only", "clients=2"), "was begun with"),
        (ONCE.replace("3000", "4000"), (), "was begun with another file"),
    ],
)
def test_a_changed_study_is_not_resumed(
    program: Program, text: str, words: tuple[str, ...], sentence: str
) -> None:
    first = program.study(ONCE, "--json", "--only", "clients=1")
    assert len(first.json["rows"]) == 2
    changed = program.study(text, *RESUME, *words)
    assert changed.code == 2
    assert sentence in changed.err


def test_repetitions_are_added_to_measured_ones(program: Program) -> None:
    twice = TINY.replace("repetitions: 4", "repetitions: 2")
    first = program.study(twice, "--json").json
    fewer = program.study(twice, *RESUME, "--repetitions", "1")
    assert fewer.code == 2
    assert "was begun with 2, and 1 are fewer" in fewer.err
    before = program.manifests()
    more = program.study(twice, *RESUME, "--repetitions", "3").json
    assert more["study"] == first["study"]
    assert set(first["runs"]) < set(more["runs"])
    after = program.manifests()
    assert Counter(place(one)[1] for one in after.values()) == {0: 6, 1: 6, 2: 6}
    assert {run: after[run] for run in before} == before
    # The increased number is stored.
    again = program.study(twice, *RESUME).json
    assert (again["runs"], again["missing"]) == (more["runs"], 0)


def test_a_study_of_selected_cases_is_resumed_besides_a_newer_one(program: Program) -> None:
    one, other = ("--only", "clients=1"), ("--only", "clients=2")
    first = program.study(ONCE, "--json", *one).json
    second = program.study(ONCE, "--json", *other).json
    assert first["study"] != second["study"]
    again = program.study(ONCE, *RESUME, *one).json
    assert (again["study"], again["runs"]) == (first["study"], first["runs"])
    assert program.study(ONCE, *RESUME).json["study"] == second["study"]


# A study is answered from its archive alone: no file of it, no system and no folder of runs.

STORED = """
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
    (tmp_path / "tiny.yaml").write_text(STORED)
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
    told = ("runs", "report", str(archive / "tiny.tar.xz"), "-o", str(archive / "again.md"), "-q")
    assert main([*told]) == 0
    assert (archive / "again.md").read_text().replace("](again/", "](tiny/").count(report) == 1
    for name in ("throughput.svg", "response.svg"):
        drawn = (archive / "page" / name).read_bytes()
        assert drawn == (archive / "tiny" / name).read_bytes()


def test_a_stored_study_needs_no_system(archive: Path) -> None:
    page = made(archive, "from=gone.tar.xz view=every-case")
    assert "| 1 |" in page
    assert "The factor consistency is the same for all cases on this system: left out." in page


def test_a_page_may_show_part_of_a_study(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = made(archive, "from=tiny.tar.xz only=clients=2 view=every-case")
    assert "| 2 |" in page
    assert "| 1 |" not in page
    assert "| 1 |" not in made(archive, "from=tiny.tar.xz rows=clients=2 view=every-case")
    both = made(archive, 'from=tiny.tar.xz "rows=clients=1|clients=2" view=every-case')
    assert "| 1 |" in both
    assert "| 2 |" in both
    # All runs of a study, and nothing that says of which they were.
    unpack(archive / "tiny.tar.xz", archive / "loose")
    shutil.rmtree(archive / "loose" / "studies")
    write_archive(
        archive / "loose", [one.name for one in (archive / "loose").iterdir()],
        archive / "loose.tar.xz",
    )  # fmt: skip
    for words, told in (
        ("from=tiny.tar.xz rows=clients=3", "rows: no row has clients=3"),
        ("from=tiny.tar.xz effects=hcassandra view=effects", "the report has no 'effects'"),
        ("from=tiny.tar.xz view=all", "the report has no 'all': take some of"),
        ("from=tiny.tar.xz only=clients=3", "only: clients has no level '3'"),
        ("from=tiny.tar.xz only=client=2", "only: there is no factor 'client'"),
        ("from=tiny.tar.xz only=clients", "only: 'clients' names no level"),
        ("from=loose.tar.xz only=clients=2", "only and effects need a study, and there is none"),
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
        ended = program.study(STORED, "--only", word, "--json")
        assert [one["asked"]["title"] for one in ended.json["effects"]] == titles
