"""Prints the time that a study's page of 200 cases takes, and its size.

    python -m bench.report [--times 5] [--anyway]

The cases run once, on the simulated driver. Then the page is written several times: by the study
itself, which finds nothing left to run, and by `kvmark runs report` from the 200 runs. Times are
those of the whole command, with its start.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.common.comparison import Benchmark, Figures, at_most, say
from bench.common.kvmark import JUDGED
from bench.common.process import ALL_CORES, execute
from bench.common.tools import KVMARK

from kvmark.analysis.peers import PeerCase, PeerFigure

STUDY: Final = Path(__file__).with_name("cases.yaml")
RUNS: Final = 200
TIME: Final = PeerFigure(name="time", heading="time, s")
SIZE: Final = PeerFigure(name="size", heading="size, MB")
BY_STUDY, BY_RUNS = "kvmark study --resume", "kvmark runs report"
CASES: Final = tuple(
    PeerCase(name=name, programs=("kvmark",), bounds=(at_most(TIME, 10), at_most(SIZE, 5)))
    for name in (BY_STUDY, BY_RUNS)
)
BENCHMARK: Final = Benchmark(
    "bench-report", f"How long the page of {RUNS} cases takes", (TIME, SIZE)
)


def measure(given: argparse.Namespace) -> bool:
    """Runs the cases, then times their pages; whether all have run."""
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as name:
        folder = Path(name)
        say(f"running {RUNS} cases, about five minutes")
        study = [*KVMARK, "study", STUDY, "--quiet", "--report"]
        execute([*study, "none"], ALL_CORES, JUDGED, folder=folder)
        runs = sorted(manifest.parent.name for manifest in folder.glob("runs/*/manifest.json"))
        commands: Mapping[str, Sequence[object]] = {
            BY_STUDY: [*study, "page.html", "--resume"],
            BY_RUNS: [*KVMARK, "runs", "report", *runs, "-o", "page.html"],
        }

        def timed(case: PeerCase, _: str, __: int) -> Figures:
            (folder / "page.html").unlink(missing_ok=True)
            ended = execute(commands[case.name], ALL_CORES, JUDGED, folder=folder)
            size = (folder / "page.html").stat().st_size / 1e6
            return {TIME.name: ended.took_s, SIZE.name: size}

        found = BENCHMARK.repetitions(CASES, timed, given)
    done = BENCHMARK.publish("the simulated driver", CASES, found, given)
    return done and len(runs) == RUNS


if __name__ == "__main__":
    BENCHMARK.run(measure, BENCHMARK.parser(__doc__, 5))
