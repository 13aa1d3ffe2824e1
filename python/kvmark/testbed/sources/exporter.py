"""A Prometheus endpoint: of a machine, Redis, memcached, ScyllaDB, or a process such as a JVM."""

from __future__ import annotations

import base64
import math
import re
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

from prometheus_client.parser import text_string_to_metric_families

from kvmark.errors import SystemUnderTestError
from kvmark.foreign_text import printable
from kvmark.spec.observe import ServerSource
from kvmark.testbed.sources.sample import TIMEOUT_S, CoreTimes, ServerSample, Source, middle_ns

_MOST_BYTES: Final = 32 << 20
_PIECE_BYTES: Final = 1 << 16
_UTILISED: Final = "utilised"
"""The share of each core's time that it works, in place of a counter of seconds."""

DISK: Final = re.compile(r"sd[a-z]+|vd[a-z]+|xvd[a-z]+|nvme\d+n\d+|mmcblk\d+")
"""Partitions and layers above disks would be counted twice."""
NETWORK: Final = re.compile(r"(?!lo$|bond|team|veth|docker|br-|cni|flannel|cali|virbr)[^.@]+")
"""Devices without those whose traffic passes through others, too."""
_USER: Final = re.compile("user|nice")
_SYSTEM: Final = re.compile("system|irq|softirq")
_COMPLETED: Final = re.compile("CompletedTasks")


@dataclass(frozen=True, slots=True)
class _Metric:
    """A metric that is summed up in a field of the sample."""

    name: str
    field: str
    label: str = ""
    """A label that has to match."""
    values: re.Pattern[str] = re.compile("")
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class _Exporter:
    """One kind of exporter."""

    metrics: tuple[_Metric, ...]
    core: str = ""
    """The label that tells cores apart in CPU time; empty for none."""
    cores: int | None = None
    """The cores that the server can use; None if unknown."""


_M = _Metric
_EXPORTERS: Final = (
    # node_exporter
    _Exporter((
        _M("node_cpu_seconds_total", "cpu_user_s", "mode", _USER),
        _M("node_cpu_seconds_total", "cpu_system_s", "mode", _SYSTEM),
        _M("node_memory_MemTotal_bytes", "resident_bytes"),
        _M("node_memory_MemAvailable_bytes", "resident_bytes", factor=-1.0),
        _M("node_disk_read_bytes_total", "disk_read_bytes", "device", DISK),
        _M("node_disk_written_bytes_total", "disk_written_bytes", "device", DISK),
        _M("node_network_transmit_bytes_total", "network_sent_bytes", "device", NETWORK),
        _M("node_network_receive_bytes_total", "network_received_bytes", "device", NETWORK),
    ), core="cpu"),
    # redis_exporter: one thread executes commands
    _Exporter((
        _M("redis_cpu_user_seconds_total", "cpu_user_s"),
        _M("redis_cpu_sys_seconds_total", "cpu_system_s"),
        _M("redis_memory_used_rss_bytes", "resident_bytes"),
        _M("redis_net_output_bytes_total", "network_sent_bytes"),
        _M("redis_net_input_bytes_total", "network_received_bytes"),
        _M("redis_evicted_keys_total", "evicted_keys"),
    ), cores=1),
    # memcached_exporter
    _Exporter((
        _M("memcached_process_user_cpu_seconds_total", "cpu_user_s"),
        _M("memcached_process_system_cpu_seconds_total", "cpu_system_s"),
        _M("memcached_written_bytes_total", "network_sent_bytes"),
        _M("memcached_read_bytes_total", "network_received_bytes"),
        _M("memcached_items_evicted_total", "evicted_keys"),
    )),
    # ScyllaDB: its threads poll, so that CPU time is no measure of their work
    _Exporter((
        _M("scylla_reactor_utilization", _UTILISED, factor=0.01),
        _M("scylla_memory_allocated_memory", "resident_bytes"),
        _M("scylla_reactor_aio_bytes_read", "disk_read_bytes"),
        _M("scylla_reactor_aio_bytes_write", "disk_written_bytes"),
        _M("scylla_compaction_manager_completed_compactions", "compactions"),
    ), core="shard"),
    # The process itself, with a JVM's collections and Cassandra's beans as jmx_exporter names them
    _Exporter((
        _M("process_cpu_seconds_total", "cpu_user_s"),
        _M("process_resident_memory_bytes", "resident_bytes"),
        _M("jvm_gc_collection_seconds_count", "gc_count"),
        _M("jvm_gc_collection_seconds_sum", "gc_time_s"),
        _M("org_apache_cassandra_metrics_Compaction_Value", "compactions", "name", _COMPLETED),
        _M("org_apache_cassandra_metrics_compaction_value", "compactions", "name", _COMPLETED),
    )),
)  # fmt: skip
"""The first kind with a metric in the text counts: exporters have metrics of their own process."""
_NAMES: Final = tuple({metric.name for one in _EXPORTERS for metric in one.metrics})


class ExporterSource(Source):
    """One endpoint. A text without a known metric isn't a sample."""

    def __init__(self, source: ServerSource) -> None:
        super().__init__(source)
        parts = urlsplit(source.place.reveal())
        host = parts.netloc.rpartition("@")[2]
        path = parts.path if parts.path.strip("/") else "/metrics"
        url = urlunsplit((parts.scheme, host, path, parts.query, ""))
        # The spec allows http and https only.
        self._request = urllib.request.Request(url)  # noqa: S310
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            basic = f"Basic {base64.b64encode(login).decode()}"
            self._request.add_unredirected_header("Authorization", basic)
        self._cores = CoreTimes()
        self._worked_s: defaultdict[str, float] = defaultdict(float)
        self._read_ns: int | None = None

    def read(self) -> ServerSample:
        """The sample of the endpoint's newest text."""
        begun_ns = time.time_ns()
        try:
            return self.sample_of(self._text(), middle_ns(begun_ns))
        except (OSError, HTTPException, ValueError) as problem:
            reason = getattr(problem, "reason", None) or problem
            text = printable(str(getattr(reason, "strerror", None) or reason))
            raise SystemUnderTestError(f"doesn't answer: {text}") from problem

    def sample_of(self, text: str, at_wall_ns: int) -> ServerSample:
        """The sample of an endpoint's text.

        Raises:
            SystemUnderTestError: no metric in it is known.
            ValueError: it is no such text.
        """
        known = "\n".join(line for line in text.splitlines() if line.startswith(_NAMES)) + "\n"
        series: defaultdict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
        for family in text_string_to_metric_families(known):
            for one in family.samples:
                series[one.name].append((one.labels, one.value))
        kinds = (one for one in _EXPORTERS if any(metric.name in series for metric in one.metrics))
        kind = next(kinds, None)
        if kind is None:
            raise SystemUnderTestError("has no metric that kvmark knows (docs/guide/observe.md)")
        values: defaultdict[str, float] = defaultdict(float)
        worked_s: defaultdict[str, float] = defaultdict(float)
        for metric in kind.metrics:
            for labels, value in series.get(metric.name, ()):
                matches = not metric.label or metric.values.fullmatch(labels.get(metric.label, ""))
                if not matches or not math.isfinite(value):
                    continue
                values[metric.field] += value * metric.factor
                if metric.field in {_UTILISED, "cpu_user_s", "cpu_system_s"}:
                    worked_s[labels.get(kind.core, "")] += value * metric.factor
        if values.pop(_UTILISED, None) is not None:
            worked_s = self._integrated(at_wall_ns, worked_s)
            values["cpu_user_s"] = sum(worked_s.values())
        if "cpu_user_s" in values:
            values["cpu_system_s"] += 0.0
        if not kind.core:
            return ServerSample.of(at_wall_ns, values, cores=kind.cores)
        busiest = self._cores.busiest(at_wall_ns, dict(worked_s))
        return ServerSample.of(
            at_wall_ns, values, cores=len(worked_s) or None, busiest_core=busiest
        )

    def _integrated(self, at_wall_ns: int, shares: Mapping[str, float]) -> defaultdict[str, float]:
        """The seconds that each core worked since the first sample."""
        since_s = (at_wall_ns - (self._read_ns or at_wall_ns)) / 1e9
        self._read_ns = at_wall_ns
        for core, share in shares.items():
            self._worked_s[core] += share * since_s
        return self._worked_s

    def _text(self) -> str:
        """The endpoint's answer.

        Raises:
            OSError: there is none in time.
        """
        until_s = time.monotonic() + TIMEOUT_S
        with urllib.request.urlopen(self._request, timeout=TIMEOUT_S) as answer:  # noqa: S310
            text = b"".join(_pieces(answer, until_s))
        return text.decode("utf-8", "replace")


def _pieces(answer: HTTPResponse, until_s: float) -> Iterator[bytes]:
    """The body, unless it is too long or comes too slowly."""
    length = 0
    while piece := answer.read1(_PIECE_BYTES):
        length += len(piece)
        if length > _MOST_BYTES or time.monotonic() > until_s:
            raise TimeoutError("timed out")
        yield piece
