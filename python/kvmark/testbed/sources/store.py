"""A store that reports its own resources: INFO of Redis, stats of memcached."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from kvmark.drivers import drivers
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.spec.observe import ServerSource, store_url
from kvmark.testbed import memcached
from kvmark.testbed.console import Console
from kvmark.testbed.redis import info_fields
from kvmark.testbed.sources.sample import TIMEOUT_S, ServerSample, Source, middle_ns


@dataclass(frozen=True, slots=True)
class _Store:
    """How one kind of store reports."""

    counters: Callable[[Console], Mapping[str, str]]
    fields: Mapping[str, str]
    """The fields of samples, by counters."""
    threads: Callable[[Console], str]
    """The number of threads that execute commands."""


_STORES: Final = {
    "redis": _Store(
        lambda console: info_fields(console.ask("INFO")),
        {
            "used_cpu_user": "cpu_user_s",
            "used_cpu_sys": "cpu_system_s",
            "used_memory_rss": "resident_bytes",
            "total_net_output_bytes": "network_sent_bytes",
            "total_net_input_bytes": "network_received_bytes",
            "evicted_keys": "evicted_keys",
        },
        lambda console: console.ask("CONFIG", "GET", str(drivers()["redis"].one_thread_unless))[1],
    ),
    "memcached": _Store(
        memcached.stats,
        {
            "rusage_user": "cpu_user_s",
            "rusage_system": "cpu_system_s",
            "bytes_written": "network_sent_bytes",
            "bytes_read": "network_received_bytes",
            "evictions": "evicted_keys",
        },
        lambda console: memcached.stats(console)["threads"],
    ),
}
"""The stores by driver."""


class StoreSource(Source):
    """One server of a store, over a connection of its own."""

    def __init__(self, source: ServerSource) -> None:
        super().__init__(source)
        url = store_url(source.place)
        limit = {"connect_timeout_ms": f"{TIMEOUT_S * 1000:.0f}"}
        if url.driver not in _STORES:
            raise UsageError(
                f"observe: {self.text} doesn't report its resources; name its machine's exporter"
            )
        self._store = _STORES[url.driver]
        self._console = Console(url.driver, {**url.options, **limit}, url.password)
        self._threads: int | None = None

    def read(self) -> ServerSample:
        """The sample of the server's answer."""
        begun_ns = time.time_ns()
        try:
            counters = self._store.counters(self._console)
            at_wall_ns = middle_ns(begun_ns)
            values = {
                field: float(counters[name])
                for name, field in self._store.fields.items()
                if name in counters
            }
        except (SystemUnderTestError, ValueError) as problem:
            raise SystemUnderTestError(f"doesn't answer: {problem}") from problem
        if self._threads is None:
            self._threads = self._count_threads()
        return ServerSample.of(at_wall_ns, values, cores=self._threads)

    def _count_threads(self) -> int:
        """The number of threads; 1 where the server doesn't report it."""
        with suppress(SystemUnderTestError, LookupError, ValueError):
            return int(self._store.threads(self._console))
        return 1
