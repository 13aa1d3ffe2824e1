"""What servers use of their machine, as rows of `resources`, one a server.

A row has the columns of the generator's own, and `gc_count` and `gc_time_s`, the collections of
garbage and the time they took, which only servers on a Java virtual machine know. Counters began
with the server's process: a smaller value than before means that it was started again. A value that
can't be known is None.

A server elsewhere is observed by a Prometheus node exporter on its machine. Its rows have two
differences: they are about the machine, not about one process of it, and `cores` says how many it
has.
"""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Self
from urllib.parse import urlsplit

import psutil

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed.state import Node, Testbed
from kvmark.testbed.system import Meter
from kvmark.testbed.systems import system_of

_PATIENCE_S: Final = 0.5
_LARGEST: Final = 8 << 20
_LINE: Final = re.compile(r"(\w+)(?:\{([^}]*)\})?\s+(\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_USER: Final = ("user", "nice")
_SYSTEM: Final = ("system", "irq", "softirq")
# Partitions and what is layered above disks would be counted twice.
_DISK: Final = re.compile(r"(sd[a-z]+|vd[a-z]+|xvd[a-z]+|nvme\d+n\d+)")

_Sample = tuple[str, Mapping[str, str], float]


class Observer:
    """Looks at a testbed's servers. Call `sample` once a second, from one thread."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._system = system_of(testbed)
        self._seen: dict[str, _Seen] = {}

    def __enter__(self) -> Self:
        """Begins without looking."""
        return self

    def __exit__(self, *_: object) -> None:
        """Lets go of the servers."""
        self.close()

    def close(self) -> None:
        """Lets go of the servers."""
        for seen in self._seen.values():
            seen.meter.close()
        self._seen.clear()

    def sample(self) -> list[dict[str, Any]]:
        """A row for each server that is there; one that was started again is found again.

        It takes a fraction of a second at most, even if a server doesn't answer.
        """
        if not self._testbed.lives:
            self._read_again()
        rows = (self._row(node) for node in self._testbed.nodes if node.lives)
        return [row for row in rows if row is not None]

    def _read_again(self) -> None:
        try:
            self._testbed = Testbed.read(self._testbed.folder)
        except SystemUnderTestError:
            # The folder was removed with its servers: there is nothing to see.
            return

    def _row(self, node: Node) -> dict[str, Any] | None:
        try:
            seen = self._look_at(node)
            with seen.process.oneshot():
                times, memory = seen.process.cpu_times(), seen.process.memory_info()
        except psutil.NoSuchProcess:
            return None
        disk = _disk(seen.process)
        counted = seen.meter.look()
        return {
            "at_wall_ns": time.time_ns(),
            "node": node.name,
            "cpu_user_s": times.user,
            "cpu_system_s": times.system,
            "resident_bytes": memory.rss,
            "disk_read_bytes": disk[0] if disk else None,
            "disk_written_bytes": disk[1] if disk else None,
            "network_sent_bytes": counted.network_sent_bytes,
            "network_received_bytes": counted.network_received_bytes,
            # The machine is the generator's, whose rows have it.
            "machine_cpu_percent": None,
            "gc_count": counted.gc_count,
            "gc_time_s": counted.gc_time_s,
        }

    def _look_at(self, node: Node) -> _Seen:
        pid = node.process.pid if node.process else 0
        seen = self._seen.get(node.name)
        if seen is None or seen.process.pid != pid:
            if seen is not None:
                seen.meter.close()
            seen = _Seen(psutil.Process(pid), self._system.meter(self._testbed, node))
            self._seen[node.name] = seen
        return seen


class _Seen:
    """A server's process and the way to ask it."""

    def __init__(self, process: psutil.Process, meter: Meter) -> None:
        self.process = process
        self.meter = meter


def _disk(process: psutil.Process) -> tuple[int, int] | None:
    """Bytes read from and written to disks; the kernel may keep them to itself."""
    try:
        counters = process.io_counters()
    except (psutil.AccessDenied, NotImplementedError):
        return None
    return counters.read_bytes, counters.write_bytes


class NodeExporter:
    """One machine's exporter. Call `sample` once a second, from one thread."""

    def __init__(self, url: str) -> None:
        """Looks once, so that a wrong address is told before anything begins.

        Raises:
            UsageError: the URL isn't one of HTTP.
            SystemUnderTestError: there is no answer, or not an exporter's.
        """
        parts = urlsplit(url)
        if parts.username is not None:
            raise UsageError("observe: a node exporter is asked without a user; leave it out")
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(
                f"observe: '{url}' is not a node exporter's address;"
                " write it as http://host:9100/metrics"
            )
        self._url = url if parts.path.strip("/") else f"{url.rstrip('/')}/metrics"
        self.node = parts.hostname
        try:
            row = row_of(self._read(), self.node)
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "reason", problem)
            raise SystemUnderTestError(f"observe: {url} doesn't answer: {reason}") from problem
        if row is None:
            raise SystemUnderTestError(f"observe: {url} has no node_cpu_seconds_total")

    def sample(self) -> dict[str, Any] | None:
        """A row, or None where there was no answer within half a second."""
        try:
            return row_of(self._read(), self.node)
        except (OSError, ValueError):
            return None

    def _read(self) -> str:
        # The scheme is checked above.
        with urllib.request.urlopen(self._url, timeout=_PATIENCE_S) as answer:  # noqa: S310
            return bytes(answer.read(_LARGEST)).decode("utf-8", "replace")


def row_of(text: str, node: str) -> dict[str, Any] | None:
    """The row that an exporter's text makes; None where it doesn't tell of processors."""
    samples = list(_samples(text))
    cores = {labels.get("cpu") for name, labels, _ in samples if name == "node_cpu_seconds_total"}
    if not cores:
        return None
    plain = {name: value for name, labels, value in samples if not labels}
    total, free = (
        plain.get("node_memory_MemTotal_bytes"),
        plain.get("node_memory_MemAvailable_bytes"),
    )
    return {
        "at_wall_ns": time.time_ns(),
        "node": node,
        "cpu_user_s": _sum(samples, "node_cpu_seconds_total", "mode", _USER),
        "cpu_system_s": _sum(samples, "node_cpu_seconds_total", "mode", _SYSTEM),
        "resident_bytes": None if total is None or free is None else int(total - free),
        "disk_read_bytes": _devices(samples, "node_disk_read_bytes_total"),
        "disk_written_bytes": _devices(samples, "node_disk_written_bytes_total"),
        "network_sent_bytes": _links(samples, "node_network_transmit_bytes_total"),
        "network_received_bytes": _links(samples, "node_network_receive_bytes_total"),
        "machine_cpu_percent": None,
        "gc_count": None,
        "gc_time_s": None,
        "cores": len(cores),
    }


def _samples(text: str) -> Iterator[_Sample]:
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None or line.startswith("#"):
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        yield found[1], dict(_LABEL.findall(found[2] or "")), value


def _sum(samples: Sequence[_Sample], name: str, label: str, wanted: Sequence[str]) -> float:
    return sum(
        value for found, labels, value in samples if found == name and labels.get(label) in wanted
    )


def _devices(samples: Sequence[_Sample], name: str) -> int | None:
    found = [
        value
        for other, labels, value in samples
        if other == name and _DISK.fullmatch(labels.get("device", ""))
    ]
    return int(sum(found)) if found else None


def _links(samples: Sequence[_Sample], name: str) -> int | None:
    found = [
        value
        for other, labels, value in samples
        if other == name and labels.get("device") not in {None, "lo"}
    ]
    return int(sum(found)) if found else None
