"""A file that is there already, and that kvmark didn't write, is never replaced unasked."""

from __future__ import annotations

import pytest
from command_line import Kvmark

WORK = ("ycsb/a", "--system", "null:", "--load", "never", "--operations", "100", "-q")
STRESS = ("stress", "write", "n=100", "-rate", "threads=1", "-node", "sim:")
MINE = "what somebody wrote\n"
WRITING = {
    "histograms of stress": (*STRESS, "-log", "hdrfile=mine.hdr"),
    "graph of stress": (*STRESS, "-graph", "file=mine.html"),
    "workload of a trace": ("trace", "learn", "a.trace", "-o", "mine.yaml"),
    "rates of a trace": ("trace", "show", "a.trace", "--rates", "mine.csv"),
    "trace of a run": ("run", *WORK, "--record", "mine.trace"),
    "report of a run": ("run", *WORK, "--report", "mine.html"),
    "report": ("runs", "report", "last", "-o", "mine.md"),
    "export": ("runs", "export", "last", "--format", "csv", "-o", "mine.csv"),
    "archive": ("runs", "archive", "last", "-o", "mine.tar.xz"),
    "verdicts of a comparison": ("compare", "last", "last", "--junit", "mine.xml"),
}


@pytest.mark.parametrize("kind", WRITING)
def test_it_is_refused_before_anything_is_done(kvmark: Kvmark, kind: str) -> None:
    kvmark("run", *WORK, "--record", "a.trace", exits=(0, 1))
    words = WRITING[kind]
    (name,) = (part for word in words for part in word.split("=") if part.startswith("mine."))
    mine = kvmark.folder / name
    mine.write_text(MINE)
    assert name in kvmark.refuses(*words)
    assert mine.read_text() == MINE


def test_a_log_goes_on_behind_what_is_there(kvmark: Kvmark) -> None:
    log = kvmark.folder / "mine.log"
    log.write_text(MINE)
    kvmark(*STRESS, "-log", "file=mine.log", exits=(0, 1))
    assert log.read_text().startswith(MINE)
    assert "Results:" in log.read_text()
