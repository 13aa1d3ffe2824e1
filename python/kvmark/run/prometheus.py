"""Live figures of the current run, for Prometheus, at `http://127.0.0.1:PORT/metrics`.

They come from the run's logs, which another thread reads only on a request. Counters restart with
each run, as Prometheus expects. `NAMES` has all metrics.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kvmark.errors import UsageError
from kvmark.plan.model import Plan
from kvmark.records import RunFolder, files
from kvmark.records.files import Tail

_HOST: Final = "127.0.0.1"
_NS_PER_S: Final = 1e9
_QUANTILES: Final = {"p50": "0.5", "p90": "0.9", "p95": "0.95", "p99": "0.99", "p999": "0.999"}
_TIMES: Final = ("response", "service", "wait")
_OPERATION: Final = ("group", "operation")
_GROUP: Final = ("group",)
_NODE: Final = ("node",)

NAMES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "kvmark_run_info": ("The current run.", ("run", "workload", "driver")),
    "kvmark_phase": ("1 for the current phase.", ("phase",)),
    "kvmark_operations_total": ("Ended operations by outcome.", ("phase", *_OPERATION, "outcome")),
    "kvmark_completed_per_second": ("Completed rate of the newest interval.", _OPERATION),
    **{
        f"kvmark_{time}_seconds": (
            f"Quantiles of {time} time in the newest interval; TOTAL is all operations of a group.",
            (*_OPERATION, "quantile"),
        )
        for time in _TIMES
    },
    "kvmark_clients": ("Clients of the plan.", _GROUP),
    "kvmark_target_per_second": ("Target rate of the plan; none in the closed model.", _GROUP),
    "kvmark_backlog_operations": ("Operations due and not issued; open model only.", _GROUP),
    "kvmark_in_flight_operations": ("Operations in flight.", _GROUP),
    "kvmark_late_operations_total": ("Operations issued after their intended start.", _GROUP),
    "kvmark_cpu_seconds_total": ("CPU time of the generator and of servers.", (*_NODE, "mode")),
    "kvmark_resident_bytes": ("Resident memory of the generator and of servers.", _NODE),
    "kvmark_disk_read_bytes_total": ("Bytes read from disks.", _NODE),
    "kvmark_disk_written_bytes_total": ("Bytes written to disks.", _NODE),
    "kvmark_machine_cpu_ratio": ("Share of the generator's machine that is busy.", ()),
}
"""Each metric by name, with its help and its labels. Times are in seconds, as usual there."""


@contextmanager
def exporting(port: int) -> Iterator[Exporter]:
    """Answers Prometheus on a port of 127.0.0.1, as a context; 0 is a free port.

    Raises:
        UsageError: the port can't be used.
    """
    exporter = Exporter()
    registry = CollectorRegistry()
    registry.register(exporter)
    try:
        server = make_server(_HOST, port, _guarded(make_wsgi_app(registry)), _Server, _Handler)
    except OSError as problem:
        raise UsageError(
            f"prometheus: port {port} on {_HOST} can't be used because {problem.strerror}; name"
            " another, or 0 for one that is free"
        ) from problem
    exporter.address = f"http://{_HOST}:{server.server_port}/metrics"
    thread = threading.Thread(target=server.serve_forever, name="kvmark-prometheus", daemon=True)
    thread.start()
    try:
        yield exporter
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(WSGIRequestHandler):
    """One request at a time, with a limit of a second."""

    timeout = 1

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Requests aren't logged."""


class _Server(WSGIServer):
    """Has only one thread, as it shares its process with the measurement."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Incomplete requests are ignored."""


def _guarded(app: WSGIApplication) -> WSGIApplication:
    """Answers only under names of this machine, so that other sites' pages can't read it."""

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        names = [f"{host}:{environ['SERVER_PORT']}" for host in (_HOST, "localhost")]
        if environ.get("HTTP_HOST", "").lower() in names:
            return app(environ, start)
        start("421 Misdirected Request", [("Content-Type", "text/plain")])
        return [f"this exporter answers to http://{names[0]}/ only\n".encode()]

    return answer


_Key = tuple[str, ...]
"""A metric's name and the values of its labels."""


class Exporter(Collector):
    """The metrics of the current run, or of the last one, as far as its logs go."""

    def __init__(self) -> None:
        self.address = ""
        self._lock = threading.Lock()
        self._logs: dict[Tail, Callable[[Mapping[str, Any]], None]] = {}
        self._values: dict[_Key, float] = {}
        self._newest: dict[_Key, float] = {}
        """Values of the newest interval."""
        self._newest_ns = -1
        self._phase: dict[_Key, float] = {}

    @contextmanager
    def following(self, folder: RunFolder, plan: Plan) -> Iterator[None]:
        """Exports this run from now on; reads its end when the context ends."""
        with self._lock:
            self._logs = {
                Tail(folder.events): self._take_event,
                Tail(folder.path / files.INTERVAL_LOG): self._count,
                Tail(folder.path / files.RESOURCE_LOG): self._take_resources,
            }
            self._values = dict(_planned(folder.id, plan))
            self._newest, self._newest_ns, self._phase = {}, -1, {}
        try:
            yield
        finally:
            with self._lock:
                self._read()

    def collect(self) -> Iterator[Metric]:
        """Each metric with its newest values."""
        with self._lock:
            if not self._logs:
                return
            self._read()
            values = {**self._values, **self._phase, **self._newest}
        for name, (help_text, labels) in NAMES.items():
            counts = name.endswith("_total")
            kind = CounterMetricFamily if counts else GaugeMetricFamily
            metric = kind(name, help_text, labels=labels)
            for (found, *marks), value in values.items():
                if found == name:
                    metric.add_metric(marks, value)
            yield metric

    def _read(self) -> None:
        """Reads new lines of the logs."""
        for log, take in self._logs.items():
            for row in log.objects():
                take(row)

    def _take_event(self, event: Mapping[str, Any]) -> None:
        if event.get("kind") == "phase_started":
            self._phase = {("kvmark_phase", str(event.get("name"))): 1.0}

    def _take_resources(self, row: Mapping[str, Any]) -> None:
        node, busy_percent = str(row["node"]), row.get("machine_cpu_percent")
        found = {
            ("kvmark_cpu_seconds_total", node, "user"): row["cpu_user_s"],
            ("kvmark_cpu_seconds_total", node, "system"): row["cpu_system_s"],
            ("kvmark_resident_bytes", node): row["resident_bytes"],
            ("kvmark_disk_read_bytes_total", node): row.get("disk_read_bytes"),
            ("kvmark_disk_written_bytes_total", node): row.get("disk_written_bytes"),
            ("kvmark_machine_cpu_ratio",): None if busy_percent is None else busy_percent / 100,
        }
        self._values.update((key, value) for key, value in found.items() if value is not None)

    def _count(self, row: Mapping[str, Any]) -> None:
        if row["part"]:
            return
        if row["start_ns"] != self._newest_ns and not row["drain"]:
            # Values of the interval before don't apply any more.
            self._newest, self._newest_ns = {}, row["start_ns"]
        group, operation = str(row["group"]), str(row["operation"])
        if operation == "TOTAL":
            self._add(("kvmark_late_operations_total", group), row.get("late"))
            for name in ("backlog", "in_flight"):
                if row.get(name) is not None:
                    self._newest[f"kvmark_{name}_operations", group] = row[name]
        else:
            labels = (str(row["phase_name"]), group, operation, str(row["outcome"]))
            # Operations carried from the warm-up are counted there.
            own = row["count"] - (row.get("carried") or 0)
            self._add(("kvmark_operations_total", *labels), own)
        if row["drain"]:
            return
        if operation != "TOTAL":
            length_s = (row["end_ns"] - row["start_ns"]) / _NS_PER_S
            place: _Key = ("kvmark_completed_per_second", group, operation)
            if length_s > 0:
                self._newest[place] = self._newest.get(place, 0.0) + row["count"] / length_s
        if row["outcome"] in {"ok", "any"}:
            for time, (name, q) in product(_TIMES, _QUANTILES.items()):
                value_ns = row.get(f"{time}_ns_{name}")
                if value_ns is not None:
                    place = (f"kvmark_{time}_seconds", group, operation, q)
                    self._newest[place] = value_ns / _NS_PER_S

    def _add(self, place: _Key, count: float | None) -> None:
        self._values[place] = self._values.get(place, 0) + (count or 0)


def _planned(run: str, plan: Plan) -> Iterator[tuple[_Key, float]]:
    """Values that don't change during the run."""
    yield ("kvmark_run_info", run, plan.name, plan.system.driver), 1.0
    for group in plan.groups:
        yield ("kvmark_clients", group.name), group.clients
        rates = getattr(group.arrival, "rates", ())
        if rates:
            yield ("kvmark_target_per_second", group.name), rates[-1].rate
