"""What kvmark itself says of a run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from bench.common.figures import Once, Program
from bench.common.process import PeerFailedError, execute

from kvmark.records.files import COORDINATOR

MEASURED = (0, 1)
"""Exit codes of a run that was measured; one whose verdict is a no is too: two cores are few."""


def once(
    program: Program,
    words: Sequence[str],
    cores: int | str,
    commands: int = 1,
) -> Once:
    """A run of ours, all three instants and histograms on; its figures come from its records.

    Its processor time is that of the process that generates load in the measured phase, and of the
    one that watches it meanwhile: both are recorded, so that no start is in it.
    To kvmark a pipeline of commands is one operation; here each of them is.

    Raises:
        PeerFailedError: it ended badly, or an operation didn't go well.
    """
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        variables = {"KVMARK_RUNS": folder}
        ended = execute([*program, *words], cores, MEASURED, variables)
        manifest = newest_manifest(Path(folder), ended.errors)
        watching = watched(Path(folder))
    phase, totals = measured(manifest)
    refuse_failures(totals)
    operations = commands * sum(row["count"] for row in totals)
    length_ns = phase["drained_ns"] - phase["start_ns"]
    cpu_ns, peak_bytes = spent(phase, watching)
    return Once(operations, operations * 1e9 / length_ns, cpu_ns, peak_bytes)


def spent(phase: Mapping[str, Any], watching: tuple[float, int]) -> tuple[int, int]:
    """Processor time and peak memory of both processes in a phase."""
    used, length_ns = phase["process"], phase["drained_ns"] - phase["start_ns"]
    cpu_ns = used["cpu_user_ns"] + used["cpu_system_ns"] + round(watching[0] * length_ns)
    return cpu_ns, used["max_resident_bytes"] + watching[1]


def watched(runs: Path) -> tuple[float, int]:
    """What the process of the command took while the only run went: of a core, and of memory."""
    (file,) = runs.glob("*/resources.parquet")
    rows = pl.read_parquet(file).filter(pl.col("node") == COORDINATOR).sort("at_wall_ns")
    first, last = rows.row(0, named=True), rows.row(-1, named=True)
    used_s = sum(last[name] - first[name] for name in ("cpu_user_s", "cpu_system_s"))
    share = used_s * 1e9 / max(last["at_wall_ns"] - first["at_wall_ns"], 1)
    return share, max(rows["resident_bytes"])


def newest_manifest(runs: Path, said: str) -> dict[str, Any]:
    """The manifest of the only run in a folder."""
    manifests = list(runs.glob("*/manifest.json"))
    if not manifests:
        raise PeerFailedError(f"kvmark left no closed run: {said.strip()}")
    manifest: dict[str, Any] = json.loads(manifests[0].read_text())
    return manifest


def measured(manifest: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The measure phase and its totals by operation and outcome."""
    engine = manifest["engine"]
    phase = next(phase for phase in engine["phases"] if phase["name"] == "measure")
    totals = [row for row in engine["totals"] if row["phase"] == phase["index"] and not row["part"]]
    return phase, totals


def refuse_failures(totals: Sequence[Mapping[str, Any]]) -> None:
    """Raises when an operation had an outcome other than ok."""
    bad = {row["outcome"] for row in totals if row["count"]} - {"ok"}
    if bad:
        raise PeerFailedError(f"kvmark recorded outcomes other than ok: {', '.join(sorted(bad))}")
