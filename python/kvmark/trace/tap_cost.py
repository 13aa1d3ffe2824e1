"""What a tap adds to a round trip, measured beside round trips to the server itself."""

from __future__ import annotations

import json
import socket
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any, Final

from kvmark import _engine
from kvmark.errors import SystemUnderTestError
from kvmark.trace.recording import TapProgress

_ROUND_TRIPS: Final = 300
_LONGEST_S: Final = 1.0
_TIMEOUT_S: Final = 5.0


def measure_tap(settings: Mapping[str, Any]) -> tuple[int, int] | None:
    """Median round trips to the server and through a tap, in turn, in nanoseconds.

    None for a server behind TLS.

    Raises:
        SystemUnderTestError: the server doesn't answer.
    """
    if settings["tls"]:
        return None
    address = _address(settings)
    # A tap accepts connections between the calls: another thread connects.
    with ThreadPoolExecutor(1) as pool, tempfile.TemporaryDirectory(prefix="kvmark-") as folder:
        measured: list[Future[tuple[int, int]]] = []

        def continues(progress: str) -> bool:
            if not measured:
                tap = TapProgress(**json.loads(progress))
                measured.append(pool.submit(_measure, address, tap.listens, bytes(tap.probe)))
            return not measured[0].done()

        _engine.tap(json.dumps(settings), Path(folder), bytes(16), continues)
        try:
            return measured[0].result()
        except OSError as problem:
            why = problem.strerror or str(problem)
            raise SystemUnderTestError(f"{address} doesn't answer: {why}") from problem


def _measure(direct: str, tapped: str, request: bytes) -> tuple[int, int]:
    """Median round trips of two addresses, in turn.

    Raises:
        OSError: one doesn't answer.
    """
    with closing(_connect(direct)) as first, closing(_connect(tapped)) as second:
        times_ns = [(_round_trip(first, request), _round_trip(second, request))]
        until_s = time.monotonic() + _LONGEST_S
        while len(times_ns) < _ROUND_TRIPS and time.monotonic() < until_s:
            times_ns.append((_round_trip(first, request), _round_trip(second, request)))
    direct_ns, tapped_ns = zip(*times_ns, strict=True)
    return round(median(direct_ns)), round(median(tapped_ns))


def _address(settings: Mapping[str, Any]) -> str:
    address, port = str(settings["address"]), settings["default_port"]
    has_port = address.startswith("/") or address.rpartition("]")[2].count(":") == 1
    return address if has_port else f"{address}:{port}"


def _connect(address: str) -> socket.socket:
    """A connection to HOST:PORT, or to the path of a socket."""
    if address.startswith("/"):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_TIMEOUT_S)
        connection.connect(address)
        return connection
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    connection = socket.create_connection((host, int(port)), _TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _round_trip(connection: socket.socket, request: bytes) -> int:
    """The time until the answer is received, which is so short that it arrives at once.

    Raises:
        OSError: the connection ends, or none comes in time.
    """
    began_ns = time.perf_counter_ns()
    connection.sendall(request)
    if not connection.recv(4096):
        raise ConnectionResetError(104, "it closed the connection")
    return time.perf_counter_ns() - began_ns
