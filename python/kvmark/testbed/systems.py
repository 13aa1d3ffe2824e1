"""The kinds of systems that testbeds can hold. A new kind adds its line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from kvmark.errors import SystemUnderTestError
from kvmark.secret import Secret
from kvmark.testbed import rocksdb
from kvmark.testbed.cassandra import SYSTEM as CASSANDRA
from kvmark.testbed.memcached import SYSTEM as MEMCACHED
from kvmark.testbed.proxy import SYSTEM as PROXY
from kvmark.testbed.redis import SYSTEM as REDIS
from kvmark.testbed.state import Testbed
from kvmark.testbed.system import Store, System, Tables

SYSTEMS: Final[Mapping[str, System]] = MappingProxyType(
    {
        each.name: each
        for each in (
            CASSANDRA,
            MEMCACHED,
            PROXY,
            REDIS,
        )
    }
)
STORES: Final[Mapping[str, Store]] = MappingProxyType(
    {
        store.driver: store
        for store in (rocksdb.STORE, *(system.store for system in SYSTEMS.values()))
        if store is not None
    }
)
"""By driver; those of testbeds too."""
TABLES: Final[Mapping[str, Callable[[Mapping[str, str], Secret | None], Tables]]] = (
    MappingProxyType(
        {
            system.driver: system.tables
            for system in SYSTEMS.values()
            if system.driver is not None and system.tables is not None
        }
    )
)
"""By driver."""


def system_of(testbed: Testbed) -> System:
    """The kind of system a testbed holds.

    Raises:
        SystemUnderTestError: this kvmark doesn't know it.
    """
    try:
        return SYSTEMS[testbed.system]
    except KeyError:
        raise SystemUnderTestError(
            f"testbed {testbed.name} holds {testbed.system}, which this kvmark doesn't know: stop"
            " it with the kvmark that started it"
        ) from None
