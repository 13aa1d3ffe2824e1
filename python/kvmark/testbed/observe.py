"""Resource usage of servers, as rows of `resources`, one for each server.

A row has the columns of the generator's row, and `gc_count` and `gc_time_s` for servers on a Java
virtual machine. Counters start with the server's process: a smaller value than before means a
restart. Unknown values are None.

A Prometheus node exporter observes a server on another machine. Its rows are about the whole
machine, and `cores` is the machine's number of cores.
"""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final
from urllib.parse import urlsplit

import psutil

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed.process import Identity, family
from kvmark.testbed.state import Node, Testbed
from kvmark.testbed.system import NO_COUNTERS, Meter, system_of

_TIMEOUT_S: Final = 0.5
_MOST_BYTES: Final = 8 << 20
_LINE: Final = re.compile(r"(\w+)(?:\{([^}]*)\})?\s+(\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_USER: Final = re.compile("user|nice")
_SYSTEM: Final = re.compile("system|irq|softirq")
# Partitions and layers above disks would be counted twice.
_DISK: Final = re.compile(r"(sd[a-z]+|vd[a-z]+|xvd[a-z]+|nvme\d+n\d+)")
_NETWORK: Final = re.compile(r"(?!lo$).+")


def process_row(process: psutil.Process, node: str) -> dict[str, Any]:
    """The columns of a process.

    Raises:
        psutil.NoSuchProcess: it has ended.
    """
    with process.oneshot():
        times, memory = process.cpu_times(), process.memory_info()
    disk = None
    with suppress(psutil.AccessDenied, NotImplementedError):
        disk = process.io_counters()
    return {
        "at_wall_ns": time.time_ns(),
        "node": node,
        "cpu_user_s": times.user,
        "cpu_system_s": times.system,
        "resident_bytes": memory.rss,
        "disk_read_bytes": disk and disk.read_bytes,
        "disk_written_bytes": disk and disk.write_bytes,
    }


class Observer:
    """Observes a testbed's servers. Call `sample` once a second, from one thread."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._system = system_of(testbed)
        self._observed: dict[Identity, tuple[psutil.Process, Meter]] = {}

    def close(self) -> None:
        """Closes the connections to the servers."""
        for _, meter in self._observed.values():
            meter.close()
        self._observed.clear()

    def sample(self) -> list[dict[str, Any]]:
        """A row for each living server, also after a restart.

        It takes a fraction of a second at most, even if a server doesn't answer.
        """
        if not self._testbed.lives:
            # The folder may have been removed with its servers.
            with suppress(SystemUnderTestError):
                self._testbed = Testbed.read(self._testbed.folder)
        rows = []
        for node in self._testbed.nodes:
            if node.process and node.lives:
                with suppress(psutil.NoSuchProcess):
                    rows.append(self._row(node, node.process))
        return rows

    def _row(self, node: Node, identity: Identity) -> dict[str, Any]:
        if identity not in self._observed:
            process = psutil.Process(identity.pid)
            self._observed[identity] = process, self._system.meter(self._testbed, node)
        process, meter = self._observed[identity]
        # The percentage of the machine is in the generator's row.
        row = _with_children(process_row(process, node.name), process, identity)
        return {**row, "machine_cpu_percent": None, **meter.read()}


def _with_children(
    row: dict[str, Any], process: psutil.Process, identity: Identity
) -> dict[str, Any]:
    """The row of a process with its children's usage; memory that they share counts once."""
    ended = process.cpu_times()
    row["cpu_user_s"] += ended.children_user
    row["cpu_system_s"] += ended.children_system
    for child in islice(family(identity), 1, None):
        with suppress(psutil.NoSuchProcess):
            one = psutil.Process(child.pid)
            usage = process_row(one, row["node"])
            usage["resident_bytes"] -= one.memory_info().shared
            for name, value in usage.items():
                if name not in {"at_wall_ns", "node"} and None not in (value, row[name]):
                    row[name] += value
    return row


class NodeExporter:
    """One machine's exporter. Call `sample` once a second, from one thread."""

    def __init__(self, url: str) -> None:
        """Reads one sample, to report a wrong address before a run begins.

        Raises:
            UsageError: it isn't an HTTP URL.
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
            row = self._row()
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "reason", problem)
            raise SystemUnderTestError(f"observe: {url} doesn't answer: {reason}") from problem
        if row is None:
            raise SystemUnderTestError(f"observe: {url} has no node_cpu_seconds_total")

    def sample(self) -> dict[str, Any] | None:
        """A row; None without an answer within half a second."""
        with suppress(OSError, ValueError):
            return self._row()
        return None

    def _row(self) -> dict[str, Any] | None:
        # The scheme is checked above.
        with urllib.request.urlopen(self._url, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            text = bytes(answer.read(_MOST_BYTES)).decode("utf-8", "replace")
        return row_of(text, self.node)


def row_of(text: str, node: str) -> dict[str, Any] | None:
    """The row of an exporter's text; None without figures of processors."""
    samples = list(_samples(text))
    cores = {labels.get("cpu") for name, labels, _ in samples if name == "node_cpu_seconds_total"}
    if not cores:
        return None

    def total(metric: str, label: str, counted: re.Pattern[str]) -> float | None:
        values = [
            value
            for name, labels, value in samples
            if name == f"node_{metric}" and counted.fullmatch(labels.get(label, ""))
        ]
        return sum(values) if values else None

    def device_bytes(metric: str, counted: re.Pattern[str]) -> int | None:
        value = total(f"{metric}_bytes_total", "device", counted)
        return None if value is None else int(value)

    values = {name: value for name, _, value in samples}
    memory, free = map(values.get, ("node_memory_MemTotal_bytes", "node_memory_MemAvailable_bytes"))
    return {
        **NO_COUNTERS,
        "at_wall_ns": time.time_ns(),
        "node": node,
        "cpu_user_s": total("cpu_seconds_total", "mode", _USER) or 0.0,
        "cpu_system_s": total("cpu_seconds_total", "mode", _SYSTEM) or 0.0,
        "resident_bytes": None if memory is None or free is None else int(memory - free),
        "disk_read_bytes": device_bytes("disk_read", _DISK),
        "disk_written_bytes": device_bytes("disk_written", _DISK),
        "network_sent_bytes": device_bytes("network_transmit", _NETWORK),
        "network_received_bytes": device_bytes("network_receive", _NETWORK),
        "machine_cpu_percent": None,
        "cores": len(cores),
    }


def _samples(text: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None or line.startswith("#"):
            continue
        with suppress(ValueError):
            yield match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])
