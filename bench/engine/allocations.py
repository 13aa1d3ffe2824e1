"""How often the engine allocates, as its own test counts it with an allocator of its own."""

from __future__ import annotations

import re
import subprocess
import sys

from bench.engine.runs import ROOT, RunFailedError

COUNTED = re.compile(r"(\d+) allocations in (\d+) operations")
TEST = ("--release", "--locked", "-p", "kvmark-engine", "--test", "no_allocation")


def allocations_per_operation() -> int:
    """Whole allocations of a worker per operation, where they are most.

    A histogram that grows because a duration was longer than any before isn't one.

    Raises:
        RunFailedError: the test doesn't build or finds too many.
    """
    command = [sys.executable, str(ROOT / "scripts" / "cargo.py"), "test", *TEST]
    done = subprocess.run(  # noqa: S603 - our own program
        [*command, "--", "--nocapture"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    counted = COUNTED.findall(done.stdout)
    if done.returncode != 0 or not counted:
        raise RunFailedError(f"the test no_allocation failed: {done.stderr.strip()[-2000:]}")
    return max(int(found) // int(operations) for found, operations in counted)
