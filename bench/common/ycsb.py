"""YCSB's own client: its properties as words, and what it prints."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bench.common.figures import Once
from bench.common.process import Ended, PeerFailedError

TOTAL = "[OVERALL], Throughput(ops/sec)"


def words(properties: Mapping[str, object]) -> list[str]:
    """Properties on the command line."""
    return [word for name, value in properties.items() for word in ("-p", f"{name}={value}")]


def once(ended: Ended, operations: int) -> Once:
    """A run of the core.

    Raises:
        PeerFailedError: it did not do what it was asked.
    """
    lines = re.findall(r"^(\[[^\]]+\], [^,]+), ([0-9.E-]+)$", ended.output, re.MULTILINE)
    values = {name: float(value) for name, value in lines}
    done = sum(value for name, value in values.items() if name.endswith("Return=OK"))
    # YCSB ends with 0 when one of its threads died: only its figures say that it did its work.
    if TOTAL not in values or done != operations:
        raise PeerFailedError(f"YCSB did {done:.0f} of {operations} operations")
    return Once(operations, values[TOTAL], ended.cpu_ns, ended.peak_bytes)
