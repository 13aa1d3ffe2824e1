"""An existing file that kvmark didn't write is never replaced without a request."""

from __future__ import annotations

import pytest
from command_line import Kvmark

WORK = "run ycsb/a --system null: --load never --operations 100 -q"
STRESS = "stress write n=100 -rate threads=1 -node sim:"
TEXT = "the user's notes on kvmark\n"
REFUSED = {
    "histograms of stress": f"{STRESS} -log hdrfile=mine.hdr",
    "graph of stress": f"{STRESS} -graph file=mine.html",
    "workload of a trace": "trace learn a.trace -o mine.yaml",
    "rates of a trace": "trace show a.trace --rates mine.csv",
    "trace of a run": f"{WORK} --record mine.trace",
    "report of a run": f"{WORK} --report mine.html",
    "report": "runs report last -o mine.md",
    "export": "runs export last --format csv -o mine.csv",
    "archive": "runs archive last -o mine.tar.xz",
    "verdicts of a comparison": "compare last last --junit mine.xml",
}
NOT_OURS = {
    "kvmark-ycsb.html": "ycsb --records 100 --workloads load",
    "kvmark-study.html": "study smoke --system null:",
    "mine.md": f"{WORK} --report mine.md",
    "kvmark-report.html": "runs report last",
    "mine.xml": "ab 'ycsb/c --system null:' --candidate '--clients 2' --fail-if 'p99>5%'"
    " --junit mine.xml",
}


@pytest.fixture(autouse=True)
def earlier(kvmark: Kvmark) -> None:
    """A run and a trace."""
    kvmark(WORK, "--record", "a.trace", exits=(0, 1))


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_a_command_refuses_to_replace_a_file_before_it_starts(kvmark: Kvmark, words: str) -> None:
    (name,) = (part for part in words.replace("=", " ").split() if part.startswith("mine."))
    mine = kvmark.folder / name
    mine.write_text(TEXT)
    assert name in kvmark.refuses(words)
    assert mine.read_text() == TEXT


@pytest.mark.parametrize(("name", "words"), NOT_OURS.items(), ids=NOT_OURS)
def test_a_report_replaces_no_file_of_the_user(kvmark: Kvmark, name: str, words: str) -> None:
    (kvmark.folder / name).write_text(TEXT)
    assert "kvmark didn't make it" in kvmark.refuses(words)
    assert (kvmark.folder / name).read_text() == TEXT


def test_a_log_is_appended_to_an_existing_file(kvmark: Kvmark) -> None:
    log = kvmark.folder / "mine.log"
    log.write_text(TEXT)
    kvmark(f"{STRESS} -log file=mine.log", exits=(0, 1))
    assert log.read_text().startswith(TEXT)
    assert "Results:" in log.read_text()
