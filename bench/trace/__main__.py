"""Prints what it costs to make a trace of a file, and to say what is in it.

    python -m bench.trace [--times 5] [--anyway]

Files are made for it: five million rows as of twitter/cache-trace, with keys by a zipfian law,
and half a million lines of MONITOR. Figures are of the whole command on one core, with its start.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from bench.common.console import carried_out, publish, repeating, say
from bench.common.process import Going
from bench.common.table import peers_of

from kvmark.analysis.peers import PeerBound, PeerCase, PeerFigure, PeerRun

PROGRAM: Final = str(Path(sys.executable).with_name("kvmark"))
ROWS: Final = 5_000_000
LINES: Final = 500_000
KEYS: Final = 1_000_000
CORE: Final = "1"
COST: Final = PeerFigure(name="cost", heading="processor time an operation, µs")
MEMORY: Final = PeerFigure(name="memory", heading="peak memory, MB")
MOST_US: Final = 1.0
"""A million operations a second and core."""


def main() -> int:
    """Makes the files, then times the commands."""
    asked = repeating(__doc__, 5, "command is run").parse_args()
    return carried_out(lambda: _measure(asked.times, asked.results), anyway=asked.anyway)


def _measure(times: int, results: Path | None) -> bool:
    measured: list[PeerRun] = []
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as name:
        folder = Path(name)
        say(f"writing {ROWS:,} rows of CSV and {LINES:,} lines of MONITOR")
        _write_csv(folder / "twitter.csv")
        _write_monitor(folder / "monitor.txt")
        for block in range(times):
            for case, words, operations in (
                ("import twitter/cache-trace", ("import", "twitter.csv", "-o", "T.trace"), ROWS),
                ("trace of it", ("trace", "T.trace"), ROWS),
                ("import MONITOR", ("import", "monitor.txt", "-o", "M.trace"), LINES),
            ):
                figures = _figures(words, folder, operations)
                one = PeerRun(block=block, case=case, program="kvmark", figures=figures)
                measured.append(one)
            for trace in folder.glob("*.trace"):
                shutil.rmtree(trace)
    bound = (PeerBound(figure=COST.name, limit=MOST_US),)
    peers = peers_of(
        "What traces cost",
        "no system",
        (COST, MEMORY),
        [
            PeerCase(name=name, programs=("kvmark",), bounds=bound if "twitter" in name else ())
            for name in dict.fromkeys(one.case for one in measured)
        ],
        measured,
    )
    publish(peers, "bench-trace", results)
    return True


def _figures(words: Sequence[str], folder: Path, operations: int) -> dict[str, float]:
    # One core is what an operation a microsecond is promised for.
    going = Going([PROGRAM, *words], CORE, {"POLARS_MAX_THREADS": "1"}, folder)
    going.watch_memory()
    ended = going.finish()
    return {COST.name: ended.cpu_ns / 1e3 / operations, MEMORY.name: ended.peak_bytes / 1e6}


def _write_csv(path: Path) -> None:
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


def _write_monitor(path: Path) -> None:
    chance = np.random.default_rng(2)
    keys, clients = chance.integers(0, KEYS, LINES), chance.integers(40_000, 40_050, LINES)
    with path.open("w") as file:
        for number, (key, client) in enumerate(zip(keys, clients, strict=True)):
            verb = '"GET" "user:{}"' if number % 4 else '"SET" "user:{}" "' + "x" * 64 + '"'
            at = f"1700000000.{number:06d}"
            file.write(f"{at} [0 127.0.0.1:{client}] {verb.format(key)}\n")


if __name__ == "__main__":
    sys.exit(main())
