"""What is compared, and the bounds that kvmark is held to."""

from __future__ import annotations

from bench.common.figures import CPU, MEMORY, THROUGHPUT, Bound
from bench.cql.peers import Case

FIGURES = (THROUGHPUT, CPU, MEMORY)
PEERS = ("kvmark", "latte", "YCSB", "bare loop")
BOUNDS = (
    Bound("latte", CPU, 0.3),
    Bound("YCSB", CPU, 0.06),
    Bound("bare loop", CPU, 1.8),
    Bound("latte", THROUGHPUT, 0.9, most=False),
    Bound("YCSB", THROUGHPUT, 0.9, most=False),
)
CASES: tuple[Case, ...] = (Case("read, 64 in flight", PEERS, BOUNDS, clients=64),)

HEAP_MIB = 1024
"""Of each node."""

CROWD_NODES = 3
CROWD_OWN_CONNECTIONS = 3_000
CROWD_MOST_BYTES = 1_000_000_000
CROWD_MOST_FAILED = 0.001
