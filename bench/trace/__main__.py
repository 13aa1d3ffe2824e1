"""Prints the cost of importing a file as a trace, and of showing a trace.

    python -m bench.trace [--times 5] [--anyway]

The files have five million rows as of twitter/cache-trace, with keys by a zipfian law, and half a
million lines of MONITOR. Figures are of the whole command on one core, with its start.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from bench.common.comparison import Benchmark, Figures, at_most, say
from bench.common.process import execute
from bench.common.tools import KVMARK

from kvmark.analysis.peers import PeerBound, PeerCase, PeerFigure

ROWS: Final = 5_000_000
LINES: Final = 500_000
KEYS: Final = 1_000_000
CORE: Final = 1
COST: Final = PeerFigure(name="cost", heading="processor time an operation, µs")
MEMORY: Final = PeerFigure(name="memory", heading="peak memory, MB")
BENCHMARK: Final = Benchmark("bench-trace", "What traces cost", (COST, MEMORY))


class Case(PeerCase):
    """A command, and the operations that it reads."""

    words: tuple[str, ...]
    operations: int = ROWS
    programs: tuple[str, ...] = ("kvmark",)
    # A million operations a second and core.
    bounds: tuple[PeerBound, ...] = (at_most(COST, 1.0),)


IMPORT: Final = ("trace", "import", "twitter.csv", "-o")
CASES: Final = (
    Case(name="import twitter/cache-trace", words=(*IMPORT, "new.trace")),
    Case(name="trace of it", words=("trace", "show", "T.trace"), bounds=()),
    Case(
        name="import MONITOR",
        words=("trace", "import", "monitor.txt", "-o", "new.trace"),
        operations=LINES,
        bounds=(),
    ),
)


def measure(given: argparse.Namespace) -> bool:
    """Writes the files, then measures the commands; whether nothing failed."""
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as name:
        folder = Path(name)
        say(f"writing {ROWS:,} rows of CSV and {LINES:,} lines of MONITOR")
        write_csv(folder / "twitter.csv")
        write_monitor(folder / "monitor.txt")

        execute([*KVMARK, *IMPORT, "T.trace"], CORE, folder=folder)

        def measured(case: Case, _: str, __: int) -> Figures:
            command, one_core = [*KVMARK, *case.words], {"POLARS_MAX_THREADS": "1"}
            ended = execute(command, CORE, variables=one_core, watched=True, folder=folder)
            shutil.rmtree(folder / "new.trace", ignore_errors=True)
            cost_us = ended.cpu_ns / 1e3 / case.operations
            return {COST.name: cost_us, MEMORY.name: ended.peak_bytes / 1e6}

        found = BENCHMARK.repetitions(CASES, measured, given)
    return BENCHMARK.publish("no system", CASES, found, given)


def write_csv(path: Path) -> None:
    """Rows as of twitter/cache-trace."""
    chance = np.random.default_rng(1)
    ranks = np.minimum(chance.zipf(1.2, ROWS), KEYS)
    verbs = np.array(["get", "gets", "set", "add"])[
        chance.choice(4, ROWS, p=[0.7, 0.1, 0.15, 0.05])
    ]
    frame = pl.DataFrame(
        {
            "at": np.arange(ROWS) // 5000,
            "key": ranks,
            "key_size": 40,
            "value_size": chance.integers(10, 5000, ROWS),
            "client": chance.integers(0, 500, ROWS),
            "verb": verbs,
            "ttl": chance.choice([0, 3600, 86400], ROWS),
        }
    )
    named = frame.with_columns(pl.format("nz:u:eeW511W3dzz3p{}ueb3", pl.col("key")).alias("key"))
    named.write_csv(path, include_header=False)


def write_monitor(path: Path) -> None:
    """Lines of MONITOR."""
    chance = np.random.default_rng(2)
    keys, clients = chance.integers(0, KEYS, LINES), chance.integers(40_000, 40_050, LINES)
    with path.open("w") as file:
        for number, (key, client) in enumerate(zip(keys, clients, strict=True)):
            verb = '"GET" "user:{}"' if number % 4 else '"SET" "user:{}" "' + "x" * 64 + '"'
            at = f"1700000000.{number:06d}"
            file.write(f"{at} [0 127.0.0.1:{client}] {verb.format(key)}\n")


if __name__ == "__main__":
    BENCHMARK.run(measure, BENCHMARK.parser(__doc__, 5))
