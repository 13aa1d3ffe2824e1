"""What a server elsewhere uses of its machine, as a Prometheus node exporter on it tells.

The rows are those of `observe`, with two differences: they are about the machine, not about one
process of it, and `cores` says how many it has.
"""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from kvmark.errors import SystemUnderTestError, UsageError

__all__ = ["NodeExporter", "row_of"]

_PATIENCE_S: Final = 0.5
_LARGEST: Final = 8 << 20
_LINE: Final = re.compile(r"(\w+)(?:\{([^}]*)\})?\s+(\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_USER: Final = ("user", "nice")
_SYSTEM: Final = ("system", "irq", "softirq")
# Partitions and what is layered above disks would be counted twice.
_DISK: Final = re.compile(r"(sd[a-z]+|vd[a-z]+|xvd[a-z]+|nvme\d+n\d+)")

Sample = tuple[str, Mapping[str, str], float]


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


def _samples(text: str) -> Iterator[Sample]:
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None or line.startswith("#"):
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        yield found[1], dict(_LABEL.findall(found[2] or "")), value


def _sum(samples: Sequence[Sample], name: str, label: str, wanted: Sequence[str]) -> float:
    return sum(
        value for found, labels, value in samples if found == name and labels.get(label) in wanted
    )


def _devices(samples: Sequence[Sample], name: str) -> int | None:
    found = [
        value
        for other, labels, value in samples
        if other == name and _DISK.fullmatch(labels.get("device", ""))
    ]
    return int(sum(found)) if found else None


def _links(samples: Sequence[Sample], name: str) -> int | None:
    found = [
        value
        for other, labels, value in samples
        if other == name and labels.get("device") not in {None, "lo"}
    ]
    return int(sum(found)) if found else None
