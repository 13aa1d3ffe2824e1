"""`kvmark doc` with records stored beside the documents."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvmark.cli import main
from kvmark.records import Records
from kvmark.report import document_blocks

MakeRun = Callable[..., str]
COMMIT = "0123456789abcdef"
TOP = "<!-- kvmark: report from=../records/one.tar.xz view=top -->\n<!-- /kvmark -->\n"
REST = TOP.replace("top", "belief,operations")
DRAWN = TOP.replace("top", "rate")
WAYS = "proxies from=../records/one.tar.xz direct=straight ways=debug"
PAGE = Path("docs/results/page.md")


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
def page(run: str) -> None:
    """A page of results, filled from stored records."""
    stored("one", run)
    PAGE.parent.mkdir(parents=True)
    PAGE.write_text(f"# Reads\n\n{TOP}\nSome prose.\n\n{REST}")
    assert main(["doc", "-q", str(PAGE)]) == 0


def mark(words: str) -> None:
    """Writes a page with one block."""
    PAGE.write_text(f"# Ways\n\n<!-- kvmark: {words} -->\n<!-- /kvmark -->\n")


Check = Callable[..., tuple[int, str]]


@pytest.fixture
def doc(page: None, capsys: pytest.CaptureFixture[str]) -> Check:
    """Runs `kvmark doc` on the page; its exit code and messages."""

    def run(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main(["doc", *words, str(PAGE)])
        return code, capsys.readouterr().err

    return run


def change_a_digit() -> None:
    text = PAGE.read_text()
    line = next(one for one in text.splitlines() if one.startswith("- Throughput: "))
    number = line.removeprefix("- Throughput: ").split()[0]
    PAGE.write_text(text.replace(number, f"1{number}"))


def test_a_page_of_stored_records_is_current(doc: Check) -> None:
    assert doc("--check") == (0, "")
    page = PAGE.read_text()
    top = page.partition("Some prose.")[0].splitlines()
    facts = [line.partition(":")[0] for line in top if line.startswith("- ")]
    assert facts == ["- Measured", "- Machine", "- Verdicts", "- Command"]
    assert ", commit 0123456789ab" in page
    assert [line for line in top if line.startswith("**Throughput is ")]


@pytest.mark.parametrize(
    ("plant", "code", "error"),
    [
        (change_a_digit, 1, "page.md:3: this block is stale"),
        (lambda: PAGE.write_text(f"# Reads\n\n{REST}"), 1, "page.md:3: this block is stale"),
        (Path("docs/records/one.tar.xz").unlink, 2, "page.md:3: there is no ../records/one.tar.xz"),
        (lambda: PAGE.write_text("# Reads\n"), 2, "page.md: it has no marks"),
        (PAGE.unlink, 2, "page.md: it can't be read"),
    ],
)
def test_a_stale_or_unreadable_block_is_reported(
    plant: Callable[[], object], code: int, error: str, doc: Check
) -> None:
    plant()
    found = doc("--check")
    assert found[0] == code
    assert error in found[1]


@pytest.mark.parametrize(
    ("answer", "headline"),
    [
        ("It is 5. It is VALID.", "It is 5. It is VALID."),
        (f"It is 5. So{29 * ' so'}. It is SUSPECT.", "It is 5. It is SUSPECT."),
        (f"It{40 * ' is'}.", f"It{40 * ' is'}."),
    ],
)
def test_a_headline_has_the_verdict_and_at_most_thirty_words(answer: str, headline: str) -> None:
    assert document_blocks._shortened(answer) == headline


def test_an_index_has_the_headline_and_the_verdicts_of_each_page(doc: Check) -> None:
    PAGE.write_text(PAGE.read_text().replace("Some prose.", "Published: 5 ops/s.\n\nMore."))
    index = PAGE.with_name("index.md")
    index.write_text("<!-- kvmark: index pages=page.md -->\n<!-- /kvmark -->\n")
    assert main(["doc", "-q", str(index)]) == 0
    [row] = (line for line in index.read_text().splitlines() if "page.md)" in line)
    link, published, headline, verdicts = row.removeprefix("| ").removesuffix(" |").split(" | ")
    assert (link, published) == ("[Reads](page.md)", "5 ops/s.")
    assert headline.startswith("Throughput is ")
    # Their reasons stay on the page.
    assert verdicts == "the one run is SUSPECT"
    PAGE.write_text(PAGE.read_text().replace("Published: ", ""))
    assert main(["doc", "--check", str(index)]) == 2


def test_a_check_of_no_file_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doc", "--check"]) == 2
    assert "missing argument 'FILE'; see kvmark doc --help" in capsys.readouterr().err


PROXIED = {"system": "proxy", "version": "shotover 0.7.4", "kind": "shotover", "build": "debug",
           "threads": 4, "nodes": [{"name": "shotover"}]}  # fmt: skip


def test_ways_through_proxies_are_listed_with_the_direct_way(
    run: str, make_run: MakeRun, doc: Check
) -> None:
    straight = [run, make_run(2, "straight", commit=COMMIT), make_run(3, "straight", commit=COMMIT)]
    through = [make_run(age, "debug", commit=COMMIT, testbed=PROXIED) for age in (4, 5)]
    stored("one", *straight[1:], *through)
    mark(f"{WAYS} published=shotover-proxy.csv")
    assert doc("-q") == (0, "")
    assert doc("--check") == (0, "")
    page = PAGE.read_text()
    assert "| debug | debug | 4 | 0" in page
    assert "Published: shotover-proxy.csv." in page


def test_a_way_is_compared_with_the_direct_way_of_the_same_round(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, doc: Check
) -> None:
    straight = [make_run(age, "straight", commit=COMMIT) for age in (9, 7, 5)]
    through = [make_run(age, "debug", commit=COMMIT, testbed=PROXIED) for age in (8, 6, 4)]
    invalid = {straight[0], through[2]}

    def usable(_: Records, runs: list[Any]) -> list[Any]:
        return [run for run in runs if run.id not in invalid]

    monkeypatch.setattr(document_blocks, "usable", usable)
    stored("one", *straight, *through)
    mark(WAYS)
    assert doc("-q") == (0, "")
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith("| debug "))
    # The rounds in which either is INVALID have no pair: one is left of three.
    assert row.endswith("| 1 |")


def test_ways_without_common_rounds_are_rejected(make_run: MakeRun, doc: Check) -> None:
    straight = [make_run(age, "straight", commit=COMMIT) for age in (9, 7)]
    stored("one", *straight, make_run(8, "debug", commit=COMMIT, testbed=PROXIED))
    mark(WAYS)
    code, err = doc()
    assert code == 2
    assert "as many runs of each way, one a round, not straight 2, debug 1" in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("proxies direct=tag", "proxies needs direct=TAG and ways=TAG,TAG"),
        ("proxies direct=a ways=b", "no run with tag:a"),
        ("compare base=last candidate=last runs=some", "take newest or all, not 'some'"),
    ],
)
def test_a_wrong_mark_is_reported_with_its_line(words: str, told: str, doc: Check) -> None:
    mark(words)
    code, err = doc()
    assert code == 2
    assert told in err
    assert "page.md:3" in err


def test_a_log_has_the_last_of_its_intervals(run: str, records: Records) -> None:
    [block] = document_blocks.blocks("<!-- kvmark: stress -->\n<!-- /kvmark -->\n")
    source = document_blocks.BlockSource(
        records, lambda _: pytest.fail("no report"), Path(), "page",
        lambda _: "head\ntotal, 1\ntotal, 2\ntotal, 3\ntotal, 4\nEND\n",
    )  # fmt: skip
    text = document_blocks.content(block, source).text
    assert text.startswith("```text\nhead\ntotal, 2\ntotal, 3\ntotal, 4\nEND\n```\n")


def test_a_changed_picture_is_stale(doc: Check) -> None:
    PAGE.write_text(f"{PAGE.read_text()}\n{DRAWN}\n")
    assert doc("-q") == (0, "")
    assert doc("--check")[0] == 0
    picture = PAGE.with_suffix("") / "rate.svg"
    picture.write_text(picture.read_text().replace("</text>", "1</text>", 1))
    assert "this block is stale" in doc("--check")[1]


def test_a_page_needs_no_logs_of_histograms(run: str, doc: Check) -> None:
    whole = PAGE.read_text()
    large = Path("docs/records/one.tar.xz").stat().st_size
    stored("one", run, "--no-histogram-logs")
    assert Path("docs/records/one.tar.xz").stat().st_size < large
    assert doc("-q") == (0, "")
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
    (folder / "study.json").write_text('{"format": 1, "name": "mine", "design": "matrix"}')
    lines = [json.dumps({"case": "a", "repetition": n, "run": run}) for n, run in enumerate(runs)]
    (folder / "journal.jsonl").write_text("\n".join([*lines, ""]))
    found = []
    for word in (f"study:{study}", "study:mine", runs[0]):
        assert main(["runs", "archive", word, "--output", "a.tar.xz", "--force", "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out)["studies"])
    assert found == [[study], [study], []]


def test_an_archive_takes_no_going_run_no_other_ending_and_no_existing_file(
    make_going: MakeRun, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("b.tar.xz").write_text("of last year")
    for name, output, reason in (
        (make_going(0), "a.tar.xz", "is still going"),
        (run, "a.zip", "must end in .tar.xz"),
        (run, "b.tar.xz", "is there already"),
    ):
        assert main(["runs", "archive", name, "--output", output]) == 2
        assert reason in capsys.readouterr().err
    assert Path("b.tar.xz").read_text() == "of last year"
