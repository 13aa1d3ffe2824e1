"""Prints how long the page of a study with 200 cases takes to write, and its size.

    python -m bench.report [--times 5] [--anyway]

The cases are run once, on the simulated driver. Then the page is written several times: by the
study itself, which finds nothing left to run, and by `kvmark runs report` from the 200 runs. Times
are those of the whole command, its start included.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.common.console import carried_out, publish, repeating, say
from bench.common.process import execute, usable_cores
from bench.common.table import peers_of

from kvmark.analysis.peers import PeerBound, PeerCase, PeerFigure, PeerRun, Peers

PROGRAM: Final = str(Path(sys.executable).with_name("kvmark"))
STUDY: Final = str(Path(__file__).with_name("cases.yaml"))
CASES: Final = 200
MOST_S: Final = 10.0
MOST_BYTES: Final = 5_000_000
TIME: Final = PeerFigure(name="time", heading="time, s")
SIZE: Final = PeerFigure(name="size", heading="size, MB")
REPORTED: Final = (0, 1)
"""Exit codes of a study that went to its end; a verdict that is a no is one too."""


def main() -> int:
    """Runs the cases, then times their pages."""
    asked = repeating(__doc__, 5, "page is written").parse_args()
    return carried_out(lambda: _measure(asked.times, asked.results), anyway=asked.anyway)


def _measure(times: int, results: Path | None) -> bool:
    measured: list[PeerRun] = []
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as name:
        folder = Path(name)
        say(f"running {CASES} cases, about five minutes")
        study = [PROGRAM, "study", STUDY, "--quiet", "--report"]
        execute([*study, "none"], usable_cores(), REPORTED, folder=folder)
        runs = sorted(manifest.parent.name for manifest in folder.glob("runs/*/manifest.json"))
        again = [*study, "study.html", "--resume"]
        report = [PROGRAM, "runs", "report", *runs, "-o", "report.html"]
        for title, command in (("kvmark study --resume", again), ("kvmark runs report", report)):
            page = folder / ("study.html" if command is again else "report.html")
            for block, took in enumerate(_times(command, folder, times)):
                figures = {TIME.name: took, SIZE.name: page.stat().st_size / 1e6}
                one = PeerRun(block=block, case=title, program="kvmark", figures=figures)
                measured.append(one)
    peers = _peers(len(runs), measured)
    publish(peers, "bench-report", results)
    return len(runs) == CASES


def _peers(runs: int, measured: Sequence[PeerRun]) -> Peers:
    """Everything that was measured, with the bounds."""
    bounds = (
        PeerBound(figure=TIME.name, limit=MOST_S),
        PeerBound(figure=SIZE.name, limit=MOST_BYTES / 1e6),
    )
    return peers_of(
        f"How long the page of {runs} cases takes",
        "the simulated driver",
        (TIME, SIZE),
        [
            PeerCase(name=name, programs=("kvmark",), bounds=bounds)
            for name in dict.fromkeys(one.case for one in measured)
        ],
        measured,
    )


def _times(command: Sequence[str], folder: Path, times: int) -> Iterator[float]:
    """Seconds from a command's start to its end, each time it is run."""
    for _ in range(times):
        begun = time.perf_counter()
        execute(command, usable_cores(), REPORTED, folder=folder)
        yield time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
