"""What is compared, and the bounds that kvmark is held to."""

from __future__ import annotations

from bench.common.figures import CPU, MEMORY, THROUGHPUT, Bound
from bench.cql.job import Case
from bench.cql.stress import THREADS

FIGURES = (THROUGHPUT, CPU, MEMORY)
PEERS = ("kvmark", "latte", "YCSB", "bare loop")
BOUNDS = (
    Bound("latte", CPU, 0.3),
    Bound("YCSB", CPU, 0.06),
    Bound("bare loop", CPU, 1.8),
    Bound("latte", THROUGHPUT, 0.9, most=False),
    Bound("YCSB", THROUGHPUT, 0.9, most=False),
)
STRESS_PEERS = ("kvmark", "cassandra-stress", "cql-stress", "bare loop")
STRESS_BOUNDS = (
    Bound("cassandra-stress", CPU, 0.2),
    Bound("cql-stress", CPU, 1.0),
    Bound("bare loop", CPU, 1.2),
)
CASES: tuple[Case, ...] = (
    Case("read", PEERS, BOUNDS, clients=64, workload="reads"),
    Case("read, checked", PEERS, BOUNDS, clients=64, workload="reads-checked"),
    Case("stress write", STRESS_PEERS, STRESS_BOUNDS, clients=THREADS),
)

HEAP_MIB = 1024
"""Of each node."""

CROWD_NODES = 3
CROWD_OWN_CONNECTIONS = 3_000
CROWD_MOST_BYTES = 1_000_000_000
CROWD_MOST_FAILED = 0.001
CROWD_TIMES = 3
"""A bound needs an interval."""
