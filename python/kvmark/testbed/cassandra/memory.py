"""How much memory the nodes of a Cassandra testbed get, and whether there is enough."""

from __future__ import annotations

from typing import Final

from kvmark.errors import UsageError

__all__ = [
    "LEAST_HEAP_BYTES",
    "OVERHEAD_BYTES",
    "check_bound",
    "check_memory",
    "heap_of",
]

_MIB: Final = 2**20
_GIB: Final = 2**30
LEAST_HEAP_BYTES: Final = 256 * _MIB
"""Below it a node starts and is busy with collecting garbage only."""
OVERHEAD_BYTES: Final = 420 * _MIB
"""What a node needs beside its heap: resident memory less the heap, measured on a loaded node."""
_SMALLEST_BY_ITSELF: Final = 512 * _MIB
_STEP: Final = 64 * _MIB


def heap_of(total_bytes: int, nodes: int) -> int:
    """The heap of each of so many nodes, by Cassandra's own rule for an equal part of the machine.

    The rule: half of the memory up to 1 GiB, or a quarter of it up to 8 GiB, whichever is more. It
    goes by the memory the machine has, not by what is free, so that it is the same each time.
    """
    share = total_bytes // nodes
    heap = max(min(share // 2, _GIB), min(share // 4, 8 * _GIB))
    return max(_SMALLEST_BY_ITSELF, heap // _STEP * _STEP)


def check_memory(heap_bytes: int, nodes: int, available_bytes: int) -> None:
    """Refuses heaps that are too small to work with, or for which there isn't enough memory.

    Raises:
        UsageError: with the figures.
    """
    if heap_bytes < LEAST_HEAP_BYTES:
        raise UsageError(
            f"heap: {heap_bytes // _MIB} MiB are too little for Cassandra; give at least"
            f" {LEAST_HEAP_BYTES // _MIB}M"
        )
    needed = nodes * (heap_bytes + OVERHEAD_BYTES)
    if needed > available_bytes:
        words = "1 node" if nodes == 1 else f"{nodes} nodes"
        raise UsageError(
            f"{words} with a heap of {heap_bytes // _MIB} MiB and {OVERHEAD_BYTES // _MIB} MiB"
            f" beside it need {needed // _MIB} MiB of memory, and {available_bytes // _MIB} MiB"
            " are available: start fewer --nodes, or lower --heap"
        )


def check_bound(bound_bytes: int, heap_bytes: int) -> None:
    """Refuses a bound on a node's memory in which the node itself has no room.

    Raises:
        UsageError: with the figures.
    """
    needed = heap_bytes + OVERHEAD_BYTES
    if bound_bytes < needed:
        raise UsageError(
            f"memory: a node with a heap of {heap_bytes // _MIB} MiB and {OVERHEAD_BYTES // _MIB}"
            f" MiB beside it doesn't fit in {bound_bytes // _MIB} MiB: give at least"
            f" {needed // _MIB}M, or lower --heap"
        )
