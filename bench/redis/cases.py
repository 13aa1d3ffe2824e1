"""What is compared, and the bounds that kvmark is held to."""

from __future__ import annotations

from bench.common.figures import CPU, THROUGHPUT, Bound
from bench.redis.peers import Case

FIGURES = (THROUGHPUT, CPU)
STRINGS = ("kvmark", "redis-benchmark", "resp-benchmark")
READS = (*STRINGS, "bare epoll loop")
# Many more operations are needed to see their cost, which takes others too long.
FASTEST = ("kvmark", "redis-benchmark")
HASHES = ("kvmark", "YCSB", "go-ycsb")
AS_FAST = Bound("redis-benchmark", THROUGHPUT, 0.97, most=False)
GET = (Bound("redis-benchmark", CPU, 0.65), Bound("bare epoll loop", CPU, 1.15), AS_FAST)
SET = (Bound("redis-benchmark", CPU, 1.0), AS_FAST)
PIPELINED = (Bound("redis-benchmark", CPU, 1.2),)
DEEP = (Bound("redis-benchmark", CPU, 0.8),)
YCSB = (Bound("YCSB", CPU, 0.5),)

CASES: tuple[Case, ...] = (
    Case("GET", "get", READS, GET),
    Case("SET", "set", STRINGS, SET),
    Case("GET, depth 16", "get", FASTEST, PIPELINED, pipeline_depth=16, factor=8),
    Case("SET, depth 16", "set", FASTEST, PIPELINED, pipeline_depth=16, factor=8),
    Case("GET, depth 128", "get", FASTEST, DEEP, pipeline_depth=128, factor=16),
    Case("SET, depth 128", "set", FASTEST, DEEP, pipeline_depth=128, factor=16),
    # Java compiles while it runs: the more --operations, the less of that is in YCSB's figure.
    Case("YCSB C", "ycsb-c", HASHES, YCSB),
    Case("YCSB A", "ycsb-a", HASHES, YCSB),
)

CONNECTIONS = 10_000
CONNECTIONS_NAME = "10,000 connections"
CONNECTIONS_MOST_BYTES = 40_000_000
"""What they may add to the memory of a run with one."""

STALL_NAME = "stall"
STALL_S = 1.0
STALL_RUN_S = 10.0
STALL_RUNS = 3
STALL_SHARE = 0.5
"""Of the maximum rate."""
STALL_MOST_ERROR = 0.03
