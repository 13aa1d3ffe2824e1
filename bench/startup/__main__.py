"""Prints how long the words take that a user types all day, as a Markdown table beside the bounds.

    python -m bench.startup [--runs 2000] [--times 15] [--anyway]

One run of the null driver is made and copied under so many ids. The first listing, which judges
every one of them, is timed once; what follows, as many times as asked. What reads many runs is
asked a third as often, with twice as many runs. Times are those of the whole command from its start
to its end, memory is its peak.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from bench.common.console import carried_out, publish, repeating, say
from bench.common.process import execute, usable_cores
from bench.common.table import peers_of

from kvmark.analysis.peers import PeerBound, PeerCase, PeerFigure, PeerRun, Peers

PROGRAM: Final = str(Path(sys.executable).with_name("kvmark"))
RUN: Final = ("run", "ycsb/c", "--system", "null:", "--operations", "1000", "--tag", "bench", "-q")
FIRST: Final = "the first listing of all of them, once"
TOGETHER: Final = {"base": range(100), "candidate": range(100, 200)}
"""The tags of runs that are read together, by their place."""
REPORTED: Final = 500
"""Runs of one page."""
MOST_MB: Final = 200
"""What a command may take that reads runs."""
JUDGED: Final = (0, 1)
"""Exit codes of a run that was measured; one whose verdict is a no is too."""


Figures = Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Asked:
    """A command line, and the time in which it has to be answered, if that is bounded."""

    title: str
    words: tuple[str, ...] = ()
    most_s: float | None = None
    #: Whether it reads runs, and not only their list.
    reads: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)


def completed(*words: str) -> Mapping[str, str]:
    """What bash tells of words whose last one is to be completed."""
    told = {"COMP_WORDS": "\n".join(("kvmark", *words)), "COMP_CWORD": str(len(words))}
    return {**told, "_KVMARK_COMPLETE": "complete_bash"}


def asked(runs: int) -> tuple[Asked, ...]:
    """What is timed all day, with so many runs in the folder."""
    return (
        Asked("`kvmark --help`", ("--help",), 0.25),
        Asked("`kvmark run --help`", ("run", "--help")),
        Asked("`kvmark runs`, the newest 30", ("runs",), 0.4),
        Asked(f"`kvmark runs --limit {runs}`", ("runs", "--limit", str(runs)), 0.4),
        Asked("`kvmark runs --tag bench`", ("runs", "--tag", "bench"), 0.4),
        Asked("Tab after `kvmark`", variables=completed(""), most_s=0.25),
        Asked("Tab after `kvmark run --`", variables=completed("run", "--"), most_s=0.25),
        Asked("Tab after `kvmark show`", variables=completed("show", ""), most_s=0.25),
        Asked(
            "Tab after `kvmark compare tag:`",
            variables=completed("compare", "tag", ":"),
            most_s=0.4,
        ),
    )


def read_together(runs: int, ids: Sequence[str]) -> tuple[Asked, ...]:
    """What reads many runs, with twice as many in the folder, of which a page is made of some."""
    page = ("runs", "report", *ids, "--output", "page.html")
    return (
        Asked(f"`kvmark runs --limit {runs}`", ("runs", "--limit", str(runs)), 1, reads=True),
        Asked(f"`kvmark show last` of {runs:,}", ("show", "last"), 0.8, reads=True),
        Asked(
            "`kvmark compare`, 100 runs and 100", ("compare", "tag:base", "tag:candidate"), 3, True
        ),
        Asked(f"`kvmark runs report` of {len(ids)}", page, 10, True),
        Asked(f"`kvmark runs history` of {runs:,}", ("runs", "history"), 5, True),
    )


def main() -> int:
    """Makes the runs, then times what is asked of them."""
    parser = repeating(__doc__, 15, "command is run")
    parser.add_argument("--runs", type=int, default=2000, help="how many there are to list")
    given = parser.parse_args()
    return carried_out(
        lambda: _measure(given.runs, given.times, given.results), anyway=given.anyway
    )


def _measure(runs: int, times: int, results: Path | None) -> bool:
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as name:
        folder = Path(name)
        half = runs // 2
        say(f"making {half} runs")
        execute([PROGRAM, *RUN], usable_cores(), JUDGED, folder=folder)
        _copy(folder / "runs", range(1, half))
        say("listing them for the first time, which judges each")
        first = Asked(FIRST, ("runs", "--limit", str(half)), reads=True)
        took = {first: list(_times(first, folder, 1))}
        took |= {one: list(_times(one, folder, times)) for one in asked(half)}
        say(f"making {runs - half} more, and listing them")
        _copy(folder / "runs", range(half, runs))
        list(_times(Asked("all", ("runs", "--limit", str(runs))), folder, 1))
        ids = sorted(path.name for path in (folder / "runs").iterdir() if path.is_dir())
        together = read_together(runs, ids[-REPORTED:])
        took |= {one: list(_times(one, folder, max(1, times // 3))) for one in together}
    peers = _peers(f"a folder of {runs // 2:,} small runs, then of {runs:,}", took)
    publish(peers, "bench-startup", results)
    return True


def _peers(system: str, took: Mapping[Asked, Sequence[Figures]]) -> Peers:
    """Everything that was measured."""
    return peers_of(
        "How soon commands answer",
        system,
        [
            PeerFigure(name="time", heading="time, s"),
            PeerFigure(name="memory", heading="memory, MB"),
        ],
        [PeerCase(name=one.title, programs=("kvmark",), bounds=_bounds(one)) for one in took],
        [
            PeerRun(block=block, case=one.title, program="kvmark", figures=figures)
            for one, each in took.items()
            for block, figures in enumerate(each)
        ],
    )


def _bounds(one: Asked) -> tuple[PeerBound, ...]:
    time_s = () if one.most_s is None else (PeerBound(figure="time", limit=one.most_s),)
    memory = (PeerBound(figure="memory", limit=MOST_MB),) if one.reads else ()
    return (*time_s, *memory)


def _copy(runs: Path, numbers: range) -> None:
    """Copies a run in a folder for each number, a second between each two."""
    original = max(path.parent for path in runs.glob("*/manifest.json"))
    manifest = json.loads((original / "manifest.json").read_text())
    created, suffix = datetime.fromisoformat(manifest["created"]), original.name[15:]
    for number in numbers:
        instant = created - timedelta(seconds=number)
        copy = runs / f"{instant:%Y%m%d-%H%M%S}{suffix}"
        shutil.copytree(original, copy)
        (copy / "manifest.json").chmod(0o644)
        tags = [tag for tag, places in TOGETHER.items() if number in places]
        told = {**manifest, "id": copy.name, "created": instant.isoformat(), "tags": tags}
        told["tags"] += manifest["tags"]
        (copy / "manifest.json").write_text(json.dumps(told))


def _times(one: Asked, folder: Path, times: int) -> Iterator[Figures]:
    """Seconds from a command's start to its end and its memory's peak, each time it is run."""
    for _ in range(times):
        begun = time.perf_counter()
        ended = execute(
            [PROGRAM, *one.words], usable_cores(), JUDGED, one.variables, watched=one.reads,
            folder=folder,
        )  # fmt: skip
        figures = {"time": time.perf_counter() - begun}
        yield {**figures, "memory": ended.peak_bytes * 1e-6} if one.reads else figures


if __name__ == "__main__":
    sys.exit(main())
