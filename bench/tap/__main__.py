"""Prints the cost of a tap between redis-benchmark and one Redis, beside HAProxy and MONITOR.

    python -m bench.tap [--times 5] [--operations 500000] [--generator-core 0] [--server-core 1]
        [--middle-core 0]

Between client and server is, on its own core, HAProxy in TCP mode with one thread, `kvmark trace
record` with one thread, MONITOR's reader, or nothing. Throughput is that of redis-benchmark; CPU
time is that of the program between, during the measurement.
"""

from __future__ import annotations

import argparse
import csv
import io
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
from bench.common.comparison import Benchmark, Figures, at_least, cores
from bench.common.process import PeerFailedError, Running, execute
from bench.common.servers import serving_redis
from bench.common.tools import KVMARK, program

from kvmark.analysis.peers import PeerBound, PeerCase, PeerFigure
from kvmark.testbed.state import Testbed

THROUGHPUT: Final = PeerFigure(name="throughput", heading="requests per second")
COST: Final = PeerFigure(name="cost", heading="its processor time a request, µs")
TAP, HAPROXY, MONITOR, NOTHING = "kvmark record", "HAProxy", "MONITOR", "nothing between"
CLIENTS: Final = 50
CONNECTIONS: Final = 10_000
PATIENCE_S: Final = 20.0
HAPROXY_FILE: Final = """\
global
  nbthread 1
defaults
  mode tcp
  timeout connect 2s
  timeout client 1h
  timeout server 1h
listen redis
  bind 127.0.0.1:{port}
  server redis {address}
"""
BENCHMARK: Final = Benchmark(
    "bench-tap", "What stands between clients and one Redis", (THROUGHPUT, COST)
)


class Case(PeerCase):
    """A number of requests in flight on each connection."""

    depth: int
    programs: tuple[str, ...] = (TAP, HAPROXY, MONITOR, NOTHING)
    bounds: tuple[PeerBound, ...] = (at_least(THROUGHPUT, 0.9, HAPROXY),)


CASES: Final = (
    Case(name="one request at a time", depth=1),
    Case(name="16 requests at a time", depth=16),
)


def measure(given: argparse.Namespace) -> bool:
    """Starts a server and measures every program; whether nothing failed."""
    for name in ("redis-benchmark", "redis-cli", "haproxy"):
        program(name, f"install {name} by apt-get")
    with serving_redis(cores(given.server_core), CONNECTIONS) as testbed:

        def measured(case: Case, peer: str, _: int) -> Figures:
            with between(peer, testbed, given.middle_core) as (port, process):
                words = ("-p", port, "-c", CLIENTS, "-P", case.depth, "-r", 100_000, "--csv")
                benchmark = ["redis-benchmark", "-t", "get", "-n", given.operations, *words]
                before_s = cpu_s(process)
                ended = execute(benchmark, given.generator_core)
                cost_us = (cpu_s(process) - before_s) / given.operations * 1e6
            rows = csv.DictReader(io.StringIO(ended.output))
            (rate,) = (float(row["rps"]) for row in rows if row["test"] == "GET")
            return {THROUGHPUT.name: rate} | ({COST.name: cost_us} if process else {})

        found = BENCHMARK.repetitions(CASES, measured, given)
    return BENCHMARK.publish("redis", CASES, found, given)


def cpu_s(process: psutil.Process | None) -> float:
    """The CPU time of a process so far."""
    times = process.cpu_times() if process else None
    return times.user + times.system if times else 0.0


@contextmanager
def between(peer: str, testbed: Testbed, core: int) -> Iterator[tuple[int, psutil.Process | None]]:
    """The port for clients, and the program that is between them and the server.

    Raises:
        PeerFailedError: it doesn't listen.
    """
    node, port = testbed.nodes[0], free_port()
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as name:
        file = Path(name) / "haproxy.cfg"
        file.write_text(HAPROXY_FILE.format(port=port, address=node.address))
        tap = ("trace", "record", "--listen", port, "--to", testbed.url, "--threads", 1, "-q", "-o")
        commands: dict[str, tuple[int, list[object]]] = {
            TAP: (port, [*KVMARK, *tap, Path(name) / "T.trace"]),
            HAPROXY: (port, ["haproxy", "-db", "-f", file]),
            MONITOR: (node.port, ["redis-cli", "-p", node.port, "monitor"]),
        }
        if peer == NOTHING:
            yield node.port, None
            return
        port, command = commands[peer]
        running = Running(command, core, is_silent=True)
        try:
            wait_for(port, running)
            yield port, psutil.Process(running.process.pid)
        finally:
            # The tap writes its trace.
            running.process.send_signal(signal.SIGINT)
            running.process.wait()


def wait_for(port: int, running: Running) -> None:
    """Waits until something listens at a port."""
    deadline = time.monotonic() + PATIENCE_S
    while not running.ended() and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise PeerFailedError(f"nothing listens at port {port}")


def free_port() -> int:
    """A port at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


if __name__ == "__main__":
    made = BENCHMARK.parser(__doc__, 5, 500_000)
    made.add_argument("--middle-core", type=int, default=0)
    BENCHMARK.run(measure, made)
