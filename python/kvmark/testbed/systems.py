"""The kinds of systems that testbeds can hold. A new kind adds its line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kvmark.errors import SystemUnderTestError
from kvmark.secret import Secret
from kvmark.testbed import rocksdb
from kvmark.testbed.cassandra import SYSTEM as CASSANDRA
from kvmark.testbed.memcached import SYSTEM as MEMCACHED
from kvmark.testbed.proxy import SYSTEM as PROXY
from kvmark.testbed.redis import SYSTEM as REDIS
from kvmark.testbed.state import Testbed
from kvmark.testbed.system import DriverOptions, Store, System, Tables

_ALL: Final = (
    CASSANDRA,
    MEMCACHED,
    PROXY,
    REDIS,
)
SYSTEMS: Final[Mapping[str, System]] = {each.name: each for each in _ALL}
_STORES: Final = (rocksdb.STORE, *(each.store for each in _ALL))
STORES: Final[Mapping[str, Store]] = {each.driver: each for each in _STORES if each}
"""By driver; those of testbeds too."""
TABLES: Final[Mapping[str, Callable[[DriverOptions, Secret | None], Tables]]] = {
    each.driver: each.tables for each in _ALL if each.driver and each.tables
}
"""By driver."""


def system_of(testbed: Testbed) -> System:
    """The kind of system of a testbed.

    Raises:
        SystemUnderTestError: this kvmark has no such kind.
    """
    try:
        return SYSTEMS[testbed.system]
    except KeyError:
        raise SystemUnderTestError(
            f"testbed {testbed.name} holds {testbed.system}, which this kvmark doesn't know: stop"
            " it with the kvmark that started it"
        ) from None
