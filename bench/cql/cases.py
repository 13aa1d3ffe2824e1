"""What is compared, and the bounds that kvmark is held to."""

from __future__ import annotations

from bench.common.figures import CPU, MEMORY, THROUGHPUT, Bound
from bench.cql.peers import Case

FIGURES = (THROUGHPUT, CPU, MEMORY)
PEERS = ("kvmark", "latte", "YCSB")
BOUNDS = (
    Bound("latte", CPU, 0.8),
    Bound("YCSB", CPU, 0.1),
    # At least the best peer's is at least each one's.
    Bound("latte", THROUGHPUT, 1.0, most=False),
    Bound("YCSB", THROUGHPUT, 1.0, most=False),
)
CASES: tuple[Case, ...] = (Case("read, 64 in flight", PEERS, BOUNDS, clients=64),)

HEAP_MIB = 1024
"""Of each node."""

CROWD_NODES = 3
CROWD_OWN_CONNECTIONS = 3_000
CROWD_MOST_BYTES = 1_000_000_000
CROWD_MOST_FAILED = 0.001
