"""Prints how long frequent commands take, with their bounds.

    python -m bench.startup [--runs 2000] [--times 15] [--anyway]

One run of the null driver is copied under many ids. The first listing, which judges every run, is
timed once. Commands that read many runs are timed a third as often, with twice as many runs. Times
are those of the whole command, with its start; memory is its peak.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from bench.common.comparison import Benchmark, Figures, at_most, say
from bench.common.kvmark import JUDGED
from bench.common.process import ALL_CORES, execute
from bench.common.tools import KVMARK

from kvmark.analysis.peers import PeerCase, PeerFigure

RUN: Final = ("run", "ycsb/c", "--system", "null:", "--operations", "1000", "--tag", "bench", "-q")
TAGS: Final = {"base": range(100), "candidate": range(100, 200)}
"""The tags of runs that are read together, by number."""
REPORTED: Final = 500
"""Runs of one page."""
TIME: Final = PeerFigure(name="time", heading="time, s")
MEMORY: Final = PeerFigure(name="memory", heading="memory, MB")
BENCHMARK: Final = Benchmark("bench-startup", "How soon commands answer", (TIME, MEMORY))


class Case(PeerCase):
    """A command line."""

    words: tuple[str, ...] = ()
    #: Whether it reads runs, and not only their list.
    reads: bool = False
    #: The words to complete, if it is a completion.
    completed: tuple[str, ...] = ()
    programs: tuple[str, ...] = ("kvmark",)


def command(name: str, line: str, most_s: float | None = None) -> Case:
    """A command that reads no run."""
    bounds = () if most_s is None else (at_most(TIME, most_s),)
    return Case(name=name, words=tuple(line.split()), bounds=bounds)


def completion(name: str, most_s: float, *words: str) -> Case:
    """A completion of the last of these words."""
    return Case(name=name, completed=words, bounds=(at_most(TIME, most_s),))


def reading(name: str, most_s: float, *words: str) -> Case:
    """A command that reads many runs."""
    bounds = (at_most(TIME, most_s), at_most(MEMORY, 200))
    return Case(name=name, words=words, bounds=bounds, reads=True)


def first_listing(runs: int) -> Case:
    """The command that judges every run."""
    name, bounds = "the first listing of all of them, once", (at_most(MEMORY, 200),)
    words = ("runs", "--limit", str(runs))
    return Case(name=name, words=words, bounds=bounds, reads=True)


def frequent(runs: int) -> tuple[Case, ...]:
    """Commands of a folder with this number of runs."""
    return (
        command("`kvmark --help`", "--help", 0.25),
        command("`kvmark run --help`", "run --help"),
        command("`kvmark runs`, the newest 30", "runs", 0.4),
        command(f"`kvmark runs --limit {runs}`", f"runs --limit {runs}", 0.4),
        command("`kvmark runs --tag bench`", "runs --tag bench", 0.4),
        completion("Tab after `kvmark`", 0.25, ""),
        completion("Tab after `kvmark run --`", 0.25, "run", "--"),
        completion("Tab after `kvmark show`", 0.25, "show", ""),
        completion("Tab after `kvmark compare tag:`", 0.4, "compare", "tag", ":"),
    )


def reading_many(runs: int, ids: Sequence[str]) -> tuple[Case, ...]:
    """Commands that read many of this number of runs; a page is made of those with these ids."""
    page = ("runs", "report", *ids, "--output", "page.html")
    return (
        reading(f"`kvmark runs --limit {runs}`", 1, "runs", "--limit", str(runs)),
        reading(f"`kvmark show last` of {runs:,}", 0.8, "show", "last"),
        reading("`kvmark compare`, 100 runs and 100", 3, "compare", "tag:base", "tag:candidate"),
        reading(f"`kvmark runs report` of {len(ids)}", 10, *page),
        reading(f"`kvmark runs history` of {runs:,}", 5, "runs", "history"),
    )


def measure(given: argparse.Namespace) -> bool:
    """Makes the runs, then times the commands; whether nothing failed."""
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as name:
        folder, half = Path(name), given.runs // 2

        def timed(case: Case, _: str = "", __: int = 0) -> Figures:
            line, variables = [*KVMARK, *case.words], variables_of(case)
            watched = case.reads
            ended = execute(line, ALL_CORES, JUDGED, variables, watched=watched, folder=folder)
            memory = {MEMORY.name: ended.peak_bytes / 1e6} if watched else {}
            return {TIME.name: ended.took_s} | memory

        say(f"making {half} runs")
        execute([*KVMARK, *RUN], ALL_CORES, JUDGED, folder=folder)
        copy_run(folder / "runs", range(1, half))
        first, cases = first_listing(half), frequent(half)
        found = BENCHMARK.repetitions([first], timed, given, blocks=1)
        found += BENCHMARK.repetitions(cases, timed, given)
        say(f"making {given.runs - half} more, and listing them")
        copy_run(folder / "runs", range(half, given.runs))
        timed(first_listing(given.runs))
        ids = sorted(path.name for path in (folder / "runs").iterdir() if path.is_dir())
        many = reading_many(given.runs, ids[-REPORTED:])
        fewer = max(1, given.blocks // 3)
        found += BENCHMARK.repetitions(many, timed, given, blocks=fewer)
    system = f"a folder of {half:,} small runs, then of {given.runs:,}"
    return BENCHMARK.publish(system, (first, *cases, *many), found, given)


def variables_of(case: Case) -> Mapping[str, str]:
    """The variables by which bash asks for a completion."""
    if not case.completed:
        return {}
    words = {"COMP_WORDS": "\n".join(("kvmark", *case.completed))}
    number = str(len(case.completed))
    return {**words, "COMP_CWORD": number, "_KVMARK_COMPLETE": "complete_bash"}


def copy_run(runs: Path, numbers: range) -> None:
    """Copies a run into a folder for each number, one second apart."""
    original = max(path.parent for path in runs.glob("*/manifest.json"))
    manifest = json.loads((original / "manifest.json").read_text())
    created, suffix = datetime.fromisoformat(manifest["created"]), original.name[15:]
    for number in numbers:
        instant = created - timedelta(seconds=number)
        place = runs / f"{instant:%Y%m%d-%H%M%S}{suffix}"
        shutil.copytree(original, place)
        (place / "manifest.json").chmod(0o644)
        tags = [tag for tag, tagged in TAGS.items() if number in tagged] + manifest["tags"]
        changed = {**manifest, "id": place.name, "created": instant.isoformat(), "tags": tags}
        (place / "manifest.json").write_text(json.dumps(changed))


if __name__ == "__main__":
    made = BENCHMARK.parser(__doc__, 15)
    made.add_argument("--runs", type=int, default=2000, help="number of runs")
    BENCHMARK.run(measure, made)
