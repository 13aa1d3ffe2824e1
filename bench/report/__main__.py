"""Prints how long the page of a study with 200 cases takes to write, and its size.

    python -m bench.report [--times 5] [--anyway]

The cases are run once, on the simulated driver. Then the page is written several times: by the
study itself, which finds nothing left to run, and by `kvmark runs report` from the 200 runs. Times
are those of the whole command, its start included.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from bench.common.console import carried_out, say
from bench.common.process import execute

PROGRAM: Final = str(Path(sys.executable).with_name("kvmark"))
STUDY: Final = str(Path(__file__).with_name("cases.yaml"))
CASES: Final = 200
CORES: Final = "0-1"
MOST_S: Final = 10.0
MOST_BYTES: Final = 5_000_000
REPORTED: Final = (0, 1)
"""Exit codes of a study that went to its end; a verdict that is a no is one too."""


def main() -> int:
    """Runs the cases, then times their pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--times", type=int, default=5, help="how often each page is written")
    parser.add_argument("--anyway", action="store_true", help="measure on a busy machine too")
    asked = parser.parse_args()
    return carried_out(lambda: _measure(asked.times), anyway=asked.anyway)


def _measure(times: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as name:
        folder = Path(name)
        say(f"running {CASES} cases, about five minutes")
        study = [PROGRAM, "study", STUDY, "--quiet", "--report"]
        execute([*study, "none"], CORES, REPORTED, folder=folder)
        runs = sorted(manifest.parent.name for manifest in folder.glob("runs/*/manifest.json"))
        again = [*study, "study.html", "--resume"]
        report = [PROGRAM, "runs", "report", *runs, "-o", "report.html"]
        sys.stdout.write(f"{'page of ' + str(len(runs)) + ' runs':<30}{'s':>8}{'MB':>8}\n")
        for title, command in (("kvmark study --resume", again), ("kvmark runs report", report)):
            page = folder / ("study.html" if command is again else "report.html")
            took = list(_times(command, folder, times))
            sys.stdout.write(_row(title, median(took), page.stat().st_size))
    return len(runs) == CASES


def _times(command: Sequence[str], folder: Path, times: int) -> Iterator[float]:
    """Seconds from a command's start to its end, each time it is run."""
    for _ in range(times):
        begun = time.perf_counter()
        execute(command, CORES, REPORTED, folder=folder)
        yield time.perf_counter() - begun


def _row(title: str, took_s: float, size_bytes: int) -> str:
    met = took_s <= MOST_S and size_bytes <= MOST_BYTES
    bounds = f"≤ {MOST_S:g} s, ≤ {MOST_BYTES / 1e6:g} MB  {'met' if met else 'NOT met'}"
    return f"{title:<30}{took_s:>8.2f}{size_bytes / 1e6:>8.2f}   {bounds}\n"


if __name__ == "__main__":
    sys.exit(main())
