"""Prints how long the words take that a user types all day, as a Markdown table beside the bounds.

    python -m bench.startup [--runs 1000] [--times 15] [--anyway]

One run of the null driver is made and copied under so many ids. The first listing, which judges
every one of them, is timed once; what follows, as many times as asked. Times are those of the whole
command from its start to its end.
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

from kvmark.analysis.external.peers import PeerBound, PeerCase, PeerFigure, PeerRun, Peers

PROGRAM: Final = str(Path(sys.executable).with_name("kvmark"))
RUN: Final = ("run", "ycsb/c", "--system", "null:", "--operations", "1000", "--tag", "bench", "-q")
FIRST: Final = "the first listing of all of them, once"
JUDGED: Final = (0, 1)
"""Exit codes of a run that was measured; one whose verdict is a no is too."""


@dataclass(frozen=True, eq=False)
class Asked:
    """A command line, and the time in which it has to be answered, if that is bounded."""

    title: str
    words: tuple[str, ...] = ()
    most_s: float | None = None
    variables: Mapping[str, str] = field(default_factory=dict)


def completed(*words: str) -> Mapping[str, str]:
    """What bash tells of words whose last one is to be completed."""
    told = {"COMP_WORDS": "\n".join(("kvmark", *words)), "COMP_CWORD": str(len(words))}
    return {**told, "_KVMARK_COMPLETE": "complete_bash"}


def asked(runs: int) -> tuple[Asked, ...]:
    """What is timed, with so many runs in the folder."""
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


def main() -> int:
    """Makes the runs, then times what is asked of them."""
    parser = repeating(__doc__, 15, "command is run")
    parser.add_argument("--runs", type=int, default=1000, help="how many there are to list")
    given = parser.parse_args()
    return carried_out(
        lambda: _measure(given.runs, given.times, given.results), anyway=given.anyway
    )


def _measure(runs: int, times: int, results: Path | None) -> bool:
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as name:
        folder = Path(name)
        say(f"making {runs} runs")
        execute([PROGRAM, *RUN], usable_cores(), JUDGED, folder=folder)
        _copy(folder / "runs", runs)
        say("listing them for the first time, which judges each")
        first = Asked(FIRST, ("runs", "--limit", str(runs)))
        took = {first: list(_times(first, folder, 1))}
        took |= {one: list(_times(one, folder, times)) for one in asked(runs)}
    peers = _peers(f"a folder of {runs:,} small runs", took)
    publish(peers, "bench-startup", results)
    return True


def _peers(system: str, took: Mapping[Asked, Sequence[float]]) -> Peers:
    """Everything that was measured."""
    bounds = {
        one: () if one.most_s is None else (PeerBound(figure="time", limit=one.most_s),)
        for one in took
    }
    return peers_of(
        "How soon commands answer",
        system,
        [PeerFigure(name="time", heading="time, s")],
        [PeerCase(name=one.title, programs=("kvmark",), bounds=bounds[one]) for one in took],
        [
            PeerRun(block=block, case=one.title, program="kvmark", figures={"time": seconds})
            for one, times in took.items()
            for block, seconds in enumerate(times)
        ],
    )


def _copy(runs: Path, count: int) -> None:
    """Copies the only run in a folder until there are so many, a second between each two."""
    original = next(path.parent for path in runs.glob("*/manifest.json"))
    manifest = json.loads((original / "manifest.json").read_text())
    created, suffix = datetime.fromisoformat(manifest["created"]), original.name[15:]
    for number in range(1, count):
        instant = created - timedelta(seconds=number)
        copy = runs / f"{instant:%Y%m%d-%H%M%S}{suffix}"
        shutil.copytree(original, copy)
        (copy / "manifest.json").chmod(0o644)
        told = {**manifest, "id": copy.name, "created": instant.isoformat()}
        (copy / "manifest.json").write_text(json.dumps(told))


def _times(one: Asked, folder: Path, times: int) -> Iterator[float]:
    """Seconds from a command's start to its end, each time it is run."""
    for _ in range(times):
        begun = time.perf_counter()
        execute([PROGRAM, *one.words], usable_cores(), variables=one.variables, folder=folder)
        yield time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
