"""What kvmark itself says of a run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.common.figures import Once, Program
from bench.common.process import PeerFailedError, execute

MEASURED = (0, 1)
"""Exit codes of a run that was measured; one whose verdict is a no is too: two cores are few."""


def once(
    program: Program,
    words: Sequence[str],
    cores: int | str,
    commands: int = 1,
    *,
    watched: bool = False,
) -> Once:
    """A run of ours, all three instants and histograms on; its figures come from its manifest.

    To kvmark a pipeline of commands is one operation; here each of them is.

    Raises:
        PeerFailedError: it ended badly, or an operation didn't go well.
    """
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        variables = {"KVMARK_RUNS": folder}
        ended = execute([*program, *words], cores, MEASURED, variables, watched=watched)
        manifest = newest_manifest(Path(folder), ended.errors)
    phase, totals = measured(manifest)
    refuse_failures(totals)
    operations = commands * sum(row["count"] for row in totals)
    rate = operations * 1e9 / (phase["drained_ns"] - phase["start_ns"])
    return Once(operations, rate, ended.cpu_ns, ended.peak_bytes)


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
