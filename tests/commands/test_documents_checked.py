"""`kvmark doc` with records beside the documents, and the ledger that holds them to it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kvmark.cli import main
from kvmark.records import Records
from kvmark.report.views import document_blocks

MakeRun = Callable[..., str]
COMMIT = "0123456789abcdef"
TOP = "<!-- kvmark: report from=../records/one.tar.xz view=top -->\n<!-- /kvmark -->\n"
REST = (
    "<!-- kvmark: report from=../records/one.tar.xz view=belief,operations -->\n<!-- /kvmark -->\n"
)
DRAWN = "<!-- kvmark: report from=../records/one.tar.xz view=rate -->\n<!-- /kvmark -->\n"
LEDGER = """
records = "docs/records"
results = ["docs/results/*.md"]
citing = ["README.md"]
"""
PAGE = Path("docs/results/page.md")
README = Path("README.md")


def stored(name: str, *runs: str) -> Path:
    path = Path(f"docs/records/{name}.tar.xz")
    path.parent.mkdir(parents=True, exist_ok=True)
    assert main(["runs", "archive", *runs, "--output", str(path), "--force", "-q"]) == 0
    return path


@pytest.fixture
def run(make_run: MakeRun) -> str:
    """A run at a known commit."""
    return make_run(1, commit=COMMIT)


@pytest.fixture
def ledger(run: str) -> None:
    """A page of results and one that cites it, as they are to be."""
    stored("one", run)
    PAGE.parent.mkdir(parents=True)
    PAGE.write_text(f"# Reads\n\n{TOP}\nSome prose.\n\n{REST}")
    README.write_text("# Nothing measured\n")
    Path("docs/ledger.toml").write_text(LEDGER)
    assert main(["doc", "-q"]) == 0


def checked(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["doc", "--check"])
    return code, capsys.readouterr().err


def add(path: Path, text: str) -> None:
    path.write_text(f"{path.read_text()}\n{text}\n")


def throughput() -> str:
    """The page's own figure, as it stands there."""
    line = next(one for one in PAGE.read_text().splitlines() if one.startswith("- Throughput: "))
    return line.removeprefix("- Throughput: ").split()[0]


@pytest.mark.usefixtures("ledger")
def test_pages_made_of_stored_records_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(capsys) == (0, "")
    page = PAGE.read_text()
    for word in ("Measured", "Commit: 0123456789ab", "Machine", "Verdicts", "Command"):
        assert f"- {word}" in page


@pytest.mark.usefixtures("ledger")
def test_a_number_that_a_block_gives_may_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    add(PAGE, f"So much: {throughput()} ops/s.")
    add(README, f"It does {throughput()} ops/s ([all of it](docs/results/page.md)).")
    assert checked(capsys) == (0, "")


def change_a_digit() -> None:
    number = throughput()
    PAGE.write_text(PAGE.read_text().replace(number, f"1{number}"))


# The numbers have more digits than a measured run's page gives by chance.
@pytest.mark.usefixtures("ledger")
@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (change_a_digit, "this block is stale"),
        (lambda: add(PAGE, "It took 47.3819 ms."), "'47.3819 ms' looks measured and no block"),
        (lambda: add(PAGE, "About 71.2389 ± 3.4571 of them."), "'71.2389 ± 3.4571' looks measured"),
        (
            lambda: add(PAGE, "A ratio [0.123457, 0.456791]."),
            "'[0.123457, 0.456791]' looks measured",
        ),
        (
            lambda: add(PAGE, "| a | b |\n|---|---|\n| x | 987654321 |"),
            "'987654321' looks measured",
        ),
        (lambda: add(PAGE, "```text\nGET 987654321\n```"), "'987654321' looks measured"),
        (lambda: add(PAGE, "![a](page/old.svg)"), "no block makes the picture page/old.svg"),
        (
            lambda: add(README, "About 71.2389 ± 3.4571 of them."),
            "'71.2389 ± 3.4571' looks measured and neither",
        ),
        (
            lambda: add(README, "It does 987,654,321 ops/s."),
            "'987,654,321 ops/s' looks measured and neither",
        ),
        (
            lambda: add(README, "It took 47.3819 ms ([there](docs/results/page.md))."),
            "'47.3819 ms' looks measured and neither",
        ),
        (lambda: add(PAGE, "<!-- kvmark given\n7 GiB: a heap\n-->"), "given and not said"),
        (
            lambda: add(PAGE, "<!-- kvmark given\n7 s: of cassandra-initial.cvs.csv\n-->\n\n7 s."),
            "isn't in cassandra-initial.cvs.csv",
        ),
        (lambda: PAGE.write_text(f"# Reads\n\n{REST}"), "this block is stale"),
        (
            lambda: Path("docs/ledger.toml").write_text(f"most_bytes = 100\n{LEDGER}"),
            "more than 100: store fewer",
        ),
        (
            lambda: add(Path("docs/ledger.toml"), '[untraced]\n"docs/gone.md" = "gone"'),
            "no document of it",
        ),
        (lambda: Path("docs/records/one.tar.xz").unlink(), "there is no ../records/one.tar.xz"),
    ],
)
def test_a_planted_fault_is_found(
    plant: Callable[[], object], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plant()
    code, err = checked(capsys)
    assert code in (1, 2)
    assert told in err


@pytest.mark.usefixtures("ledger")
def test_a_page_without_a_top_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    PAGE.write_text(f"# Reads\n\n{REST}")
    assert main(["doc", "-q"]) == 1
    code, err = checked(capsys)
    assert code == 1
    assert "page.md:1: its first block doesn't say Measured, Commit, Machine" in err


@pytest.mark.usefixtures("ledger")
def test_a_setting_and_a_published_figure_are_said_with_their_source(
    capsys: pytest.CaptureFixture[str],
) -> None:
    figure = "147,001 ops/s"
    theirs = f"{figure}: published, hydra-cassandra-3.0.6.csv"
    given = f"<!-- kvmark given\n7 GiB: the heap\n{theirs}\n-->"
    add(PAGE, f"{given}\n\nWith 7 GiB it did {figure}.")
    assert checked(capsys) == (0, "")


@pytest.mark.usefixtures("ledger")
def test_one_thing_has_the_same_figures_on_all_pages(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    other = PAGE.with_name("other.md")
    other.write_text(PAGE.read_text())
    assert checked(capsys)[0] == 0
    stored("two", make_run(2, commit=COMMIT))
    other.write_text(f"# Again\n\n{TOP}\n{REST}".replace("one.tar.xz", "two.tar.xz"))
    assert main(["doc", "-q"]) == 1
    code, err = checked(capsys)
    assert code == 1
    assert "page.md:3: C on null" in err
    assert f"has other figures than on {other}:3: make both of the same records" in err


@pytest.mark.usefixtures("ledger")
def test_the_newest_of_several_runs_contradicts_none_that_shows_them_all(
    run: str, make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    stored("one", run, make_run(2, commit=COMMIT))
    newest = "<!-- kvmark: operations from=../records/one.tar.xz -->\n<!-- /kvmark -->"
    PAGE.write_text(f"# Reads\n\n{TOP}\n{newest}\n")
    assert main(["doc", "-q"]) == 0
    assert checked(capsys) == (0, "")
    stored("other", make_run(3, commit=COMMIT))
    add(PAGE, newest.replace("one.tar", "other.tar"))
    assert main(["doc", "-q"]) == 1
    assert "has other figures than on" in checked(capsys)[1]


PROXIED = {"system": "proxy", "version": "shotover 0.7.4", "kind": "shotover", "build": "debug",
           "threads": 4, "nodes": [{"name": "shotover"}]}  # fmt: skip


@pytest.mark.usefixtures("ledger")
def test_ways_through_proxies_stand_beside_the_straight_one(
    run: str, make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    straight = [run, make_run(2, "straight", commit=COMMIT), make_run(3, "straight", commit=COMMIT)]
    through = [make_run(age, "debug", commit=COMMIT, testbed=PROXIED) for age in (4, 5)]
    stored("one", *straight[1:], *through)
    words = "proxies from=../records/one.tar.xz direct=straight ways=debug"
    PAGE.write_text(f"# Ways\n\n{TOP}\n<!-- kvmark: {words} published=shotover-proxy.csv -->\n"
                    "<!-- /kvmark -->\n")  # fmt: skip
    assert main(["doc", "-q"]) == 0
    # A run through a proxy is another thing than one without.
    assert checked(capsys) == (0, "")
    page = PAGE.read_text()
    assert "| debug | debug | 4 | 0" in page
    assert "Published: shotover-proxy.csv." in page


@pytest.mark.usefixtures("ledger")
def test_a_way_is_held_against_the_straight_one_of_its_own_round(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = [make_run(age, "straight", commit=COMMIT) for age in (9, 7, 5)]
    through = [make_run(age, "debug", commit=COMMIT, testbed=PROXIED) for age in (8, 6, 4)]
    invalid = {straight[0], through[2]}
    monkeypatch.setattr(
        document_blocks,
        "usable",
        lambda _, runs: [run for run in runs if run.id not in invalid],
    )
    stored("one", *straight, *through)
    words = "proxies from=../records/one.tar.xz direct=straight ways=debug"
    PAGE.write_text(f"# Ways\n\n<!-- kvmark: {words} -->\n<!-- /kvmark -->\n")
    assert main(["doc", "-q", str(PAGE)]) == 0
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith("| debug "))
    # The rounds in which either is INVALID have no pair: one is left of three.
    assert row.endswith("| 1 |")


@pytest.mark.usefixtures("ledger")
def test_ways_that_were_not_measured_in_rounds_are_refused(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    straight = [make_run(age, "straight", commit=COMMIT) for age in (9, 7)]
    stored("one", *straight, make_run(8, "debug", commit=COMMIT, testbed=PROXIED))
    words = "proxies from=../records/one.tar.xz direct=straight ways=debug"
    PAGE.write_text(f"# Ways\n\n<!-- kvmark: {words} -->\n<!-- /kvmark -->\n")
    assert main(["doc", str(PAGE)]) == 2
    assert "as many runs of each way, one a round, not straight 2, debug 1" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("proxies direct=tag", "proxies needs direct=TAG and ways=TAG,TAG"),
        ("proxies direct=a ways=b", "no run with tag:a"),
        ("compare base=last candidate=last runs=some", "take newest or all, not 'some'"),
    ],
)
@pytest.mark.usefixtures("ledger")
def test_what_a_mark_can_not_mean_is_told_with_its_line(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    README.write_text(f"# Ways\n\n<!-- kvmark: {words} -->\n<!-- /kvmark -->\n")
    assert main(["doc", str(README)]) == 2
    err = capsys.readouterr().err
    assert told in err
    assert "README.md:3" in err


@pytest.mark.usefixtures("ledger")
def test_a_picture_is_held_against_the_records_too(capsys: pytest.CaptureFixture[str]) -> None:
    add(PAGE, DRAWN)
    assert main(["doc", "-q"]) == 0
    assert checked(capsys)[0] == 0
    picture = PAGE.with_suffix("") / "rate.svg"
    picture.write_text(picture.read_text().replace("</text>", "1</text>", 1))
    code, err = checked(capsys)
    assert code == 1
    assert "this block is stale" in err


@pytest.mark.usefixtures("ledger")
def test_what_is_not_traced_yet_is_told_and_stays(capsys: pytest.CaptureFixture[str]) -> None:
    Path("docs/records/one.tar.xz").unlink()
    add(PAGE, "It took 47.3819 ms.")
    add(Path("docs/ledger.toml"), f'[untraced]\n"{PAGE}" = "its runs are gone"')
    before = PAGE.read_text()
    code, err = checked(capsys)
    assert (code, "its runs are gone" in err) == (0, True)
    assert main(["doc", "-q"]) == 0
    assert PAGE.read_text() == before


def test_runs_without_a_commit_are_no_results(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    stored("one", make_run(1))
    PAGE.parent.mkdir(parents=True)
    PAGE.write_text(f"# Reads\n\n{TOP}")
    Path("docs/ledger.toml").write_text(LEDGER.replace('["README.md"]', "[]"))
    assert main(["doc", "-q"]) == 1
    code, err = checked(capsys)
    assert code == 1
    assert "measure with --commit" in err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('records = "a"', "results: Field required"),
        ("[", "docs/ledger.toml"),
        (LEDGER.replace("*.md", "*.txt"), "there is no document docs/results/*.txt"),
    ],
)
def test_a_ledger_that_is_none_is_refused(
    text: str, told: str, records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("docs").mkdir()
    Path("docs/ledger.toml").write_text(text)
    code, err = checked(capsys)
    assert (code, told in err) == (2, True), err
    assert not records.root.exists()


@pytest.mark.usefixtures("ledger")
@pytest.mark.parametrize("smaller", ["--no-histogram-logs", "--small"])
def test_a_page_needs_no_logs_of_histograms(run: str, smaller: str) -> None:
    whole = PAGE.read_text()
    large = Path("docs/records/one.tar.xz").stat().st_size
    stored("one", run, smaller)
    assert Path("docs/records/one.tar.xz").stat().st_size < large
    assert main(["doc", "-q"]) == 0
    assert PAGE.read_text() == whole


def test_an_archive_follows_from_its_folders_alone(run: str, records: Records) -> None:
    first = stored("one", run).read_bytes()
    for path in (records.root / run).iterdir():
        os.utime(path, (1, 1))
    assert stored("two", run).read_bytes() == first


def test_an_archive_has_a_study_only_with_all_of_its_runs(
    make_run: MakeRun, records: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    study = "20261121-074812-mine-0a1b"
    runs = [make_run(hours, f"study:{study}") for hours in (1, 2)]
    folder = records.root / "studies" / study
    folder.mkdir(parents=True)
    (folder / "study.json").write_text(json.dumps({"name": "mine", "design": "matrix"}))
    lines = [json.dumps({"case": "a", "repetition": n, "run": run}) for n, run in enumerate(runs)]
    (folder / "journal.jsonl").write_text("\n".join([*lines, ""]))
    found = []
    for word in (f"study:{study}", "study:mine", runs[0]):
        assert main(["runs", "archive", word, "--output", "a.tar.xz", "--force", "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out)["studies"])
    assert found == [[study], [study], []]


def test_an_archive_takes_no_going_run_and_no_other_ending(
    make_going: MakeRun, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "archive", make_going(0), "--output", "a.tar.xz"]) == 2
    assert "is still going" in capsys.readouterr().err
    assert main(["runs", "archive", run, "--output", "a.zip"]) == 2
    assert "must end in .tar.xz" in capsys.readouterr().err
    Path("a.tar.xz").write_text("of last year")
    assert main(["runs", "archive", run, "--output", "a.tar.xz"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert Path("a.tar.xz").read_text() == "of last year"
