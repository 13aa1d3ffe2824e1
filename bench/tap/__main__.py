"""Prints what a tap costs between redis-benchmark and one Redis, beside HAProxy and MONITOR.

    python -m bench.tap [--times 5] [--requests 500000] [--client-core 0] [--server-core 1]
        [--middle-core 0]

Each stands between client and server, or beside them, on a core that is named: HAProxy in TCP mode
with one thread, `kvmark record` with one, MONITOR's reader, and nothing. Throughput is
redis-benchmark's; processor time is that of what stands between, while it measures.
"""

from __future__ import annotations

import argparse
import csv
import io
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import psutil
from bench.common.console import carried_out, publish, repeating, say
from bench.common.process import PeerFailedError, execute
from bench.common.table import peers_of
from bench.common.tools import program

from kvmark.analysis.peers import PeerBound, PeerCase, PeerFigure, PeerRun
from kvmark.testbed import redis
from kvmark.testbed.control import take_down
from kvmark.testbed.state import Testbed

KVMARK: Final = str(Path(sys.executable).with_name("kvmark"))
THROUGHPUT: Final = PeerFigure(name="throughput", heading="requests per second")
COST: Final = PeerFigure(name="cost", heading="its processor time a request, µs")
TAP, HAPROXY, MONITOR, NOTHING = "kvmark record", "HAProxy", "MONITOR", "nothing between"
PEERS: Final = (TAP, HAPROXY, MONITOR, NOTHING)
LEAST: Final = 0.9
"""Of HAProxy's throughput."""
CASES: Final = {"one request at a time": 1, "16 requests at a time": 16}
CLIENTS: Final = 50
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


@dataclass(frozen=True)
class Middle:
    """What stands between, and where clients go."""

    process: subprocess.Popen[bytes] | None
    port: int

    def cpu_s(self) -> float:
        """Its processor time so far."""
        if self.process is None:
            return 0.0
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system


Starts: TypeAlias = Callable[[Testbed, Path, int], AbstractContextManager[Middle]]


def main() -> int:
    """Starts a server, then measures every peer in turn."""
    parser = repeating(__doc__, 5, "peer is measured")
    parser.add_argument("--requests", type=int, default=500_000)
    parser.add_argument("--client-core", type=int, default=0)
    parser.add_argument("--server-core", type=int, default=1)
    parser.add_argument("--middle-core", type=int, default=0)
    asked = parser.parse_args()
    return carried_out(lambda: _measure(asked), anyway=asked.anyway)


def _measure(asked: argparse.Namespace) -> bool:
    names = ("redis-benchmark", "redis-cli", "haproxy")
    found = {name: program(name, f"install {name} by apt-get") for name in names}
    say(f"{', '.join(map(str, found.values()))}; {asked.times} times each")
    measured: list[PeerRun] = []
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as name:
        root = Path(name)
        testbed = redis.up(redis.Wanted(cores=(asked.server_core,)), root)
        try:
            for block in range(asked.times):
                for case, depth in CASES.items():
                    turn = block % len(PEERS)
                    for peer in (*PEERS[turn:], *PEERS[:turn]):
                        figures = _figures(peer, depth, testbed, root, asked)
                        one = PeerRun(block=block, case=case, program=peer, figures=figures)
                        measured.append(one)
        finally:
            take_down(root)
    bounds = (PeerBound(figure=THROUGHPUT.name, peer=HAPROXY, limit=LEAST, most=False),)
    peers = peers_of(
        "What stands between clients and one Redis",
        "redis",
        (THROUGHPUT, COST),
        [PeerCase(name=case, programs=PEERS, bounds=bounds) for case in CASES],
        measured,
    )
    publish(peers, "bench-tap", asked.results)
    return True


def _figures(
    peer: str, depth: int, testbed: Testbed, root: Path, asked: argparse.Namespace
) -> dict[str, float]:
    with STARTS[peer](testbed, root, asked.middle_core) as middle:
        words = ("-p", str(middle.port), "-c", str(CLIENTS), "-P", str(depth), "-r", "100000")
        command = ["redis-benchmark", "-t", "get", "-n", str(asked.requests), "--csv", *words]
        before_s = middle.cpu_s()
        ended = execute(command, asked.client_core)
        cost_us = (middle.cpu_s() - before_s) / asked.requests * 1e6
    (row,) = [row for row in csv.DictReader(io.StringIO(ended.output)) if row["test"] == "GET"]
    figures = {THROUGHPUT.name: float(row["rps"])}
    return figures if middle.process is None else {**figures, COST.name: cost_us}


@contextmanager
def _tap(testbed: Testbed, root: Path, core: int) -> Iterator[Middle]:
    port = _free_port()
    with tempfile.TemporaryDirectory(dir=root) as folder:
        words = ["record", "--listen", str(port), "--to", testbed.url, "--threads", "1", "-q"]
        with _started([KVMARK, *words, "-o", f"{folder}/T.trace"], port, core) as middle:
            yield middle


@contextmanager
def _haproxy(testbed: Testbed, root: Path, core: int) -> Iterator[Middle]:
    port, file = _free_port(), root / "haproxy.cfg"
    file.write_text(HAPROXY_FILE.format(port=port, address=testbed.nodes[0].address))
    with _started(["haproxy", "-db", "-f", str(file)], port, core) as middle:
        yield middle


@contextmanager
def _monitor(testbed: Testbed, root: Path, core: int) -> Iterator[Middle]:
    port = testbed.nodes[0].port
    del root
    with _started(["redis-cli", "-p", str(port), "monitor"], port, core) as middle:
        yield middle


@contextmanager
def _nothing(testbed: Testbed, root: Path, core: int) -> Iterator[Middle]:
    del root, core
    yield Middle(None, testbed.nodes[0].port)


@contextmanager
def _started(command: list[str], port: int, core: int) -> Iterator[Middle]:
    process = subprocess.Popen(  # noqa: S603 - programs that this file names
        ["taskset", "-c", str(core), *command],  # noqa: S607
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        _wait_for(port, process)
        yield Middle(process, port)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


STARTS: Final[Mapping[str, Starts]] = {
    TAP: _tap, HAPROXY: _haproxy, MONITOR: _monitor, NOTHING: _nothing,
}  # fmt: skip


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise PeerFailedError(f"nothing listens at port {port}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
