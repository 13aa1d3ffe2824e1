"""Runs of kvmark, and the figures in their records."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import polars as pl
from bench.common.peers import Once
from bench.common.process import PeerFailedError, execute
from bench.common.tools import KVMARK

from kvmark.records import Records, Run
from kvmark.records.files import COORDINATOR

JUDGED: Final = (0, 1)
"""Exit codes of a measured run; 1 means that its verdict is a no."""


@contextmanager
def kvmark_run(words: Sequence[object], cores: int | str) -> Iterator[Run]:
    """The records of a run, as long as they are read.

    Raises:
        PeerFailedError: it ended with an error.
    """
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        command = [*KVMARK, *words, "--json", "--quiet"]
        execute(command, cores, JUDGED, {"KVMARK_RUNS": folder})
        yield Records(Path(folder)).open("last")


def kvmark_once(words: Sequence[object], cores: int | str, commands: int = 1) -> Once:
    """A run in which every operation succeeded; a pipeline counts as its commands.

    Raises:
        PeerFailedError: it ended with an error, or an operation failed.
    """
    with kvmark_run(words, cores) as run:
        found = outcomes(run)
        if set(found) - {"ok"}:
            raise PeerFailedError(f"kvmark recorded outcomes other than ok: {dict(found)}")
        cpu_ns, peak_bytes = cost(run)
        operations = commands * found.total()
        return Once(operations, operations / drained_s(run), cpu_ns, peak_bytes)


def kvmark_load(words: Sequence[object], cores: int | str) -> None:
    """Loads the records of a workload."""
    with kvmark_run([*words, "--load", "always", "--operations", 1], cores):
        pass


def outcomes(run: Run) -> Counter[str]:
    """The number of operations of the measured phase by outcome."""
    found: Counter[str] = Counter()
    for total in run.totals(run.counted[0].index):
        if total.count and not total.part:
            found[total.outcome] += total.count
    return found


def drained_s(run: Run) -> float:
    """The length of the measured phase, to the end of its last operation."""
    phase = run.counted[0]
    return ((phase.drained_ns or phase.end_ns) - phase.start_ns) / 1e9


def cost(run: Run) -> tuple[int, int]:
    """CPU time and peak memory in the measured phase: of the generator and of the command."""
    process = run.counted[0].process
    rows = run.resources.filter(pl.col("node") == COORDINATOR).sort("at_wall_ns")
    first, last = rows.row(0, named=True), rows.row(-1, named=True)
    used_s = sum(last[name] - first[name] for name in ("cpu_user_s", "cpu_system_s"))
    share = used_s * 1e9 / max(last["at_wall_ns"] - first["at_wall_ns"], 1)
    generator_ns = (process.cpu_user_ns or 0) + (process.cpu_system_ns or 0)
    peak_bytes = (process.max_resident_bytes or 0) + int(rows["resident_bytes"].max() or 0)  # type: ignore[arg-type]
    return generator_ns + round(share * drained_s(run) * 1e9), peak_bytes
