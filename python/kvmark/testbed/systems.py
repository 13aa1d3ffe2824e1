"""The kinds of systems that testbeds can hold. A new kind adds its line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Final

from kvmark.errors import SystemUnderTestError
from kvmark.secret import Secret
from kvmark.testbed import rocksdb
from kvmark.testbed.state import Testbed
from kvmark.testbed.system import DriverOptions, Store, System, Tables

_DRIVERS: Final[Mapping[str, str | None]] = {
    "cassandra": "cql",
    "memcached": "memcached",
    "proxy": None,
    "redis": "redis",
}
"""The packages of this folder that have a `SYSTEM`, and the systems' drivers."""


class _Systems(Mapping[str, System]):
    """The systems by name. A package is loaded when its system is used."""

    def __getitem__(self, name: str) -> System:
        if name not in _DRIVERS:
            raise KeyError(name)
        system: System = import_module(f"kvmark.testbed.{name}").SYSTEM
        return system

    def __iter__(self) -> Iterator[str]:
        return iter(_DRIVERS)

    def __len__(self) -> int:
        return len(_DRIVERS)


SYSTEMS: Final[Mapping[str, System]] = _Systems()


def store_of(driver: str) -> Store | None:
    """The store of a driver's system; None if records of such systems have no owner."""
    if driver == "rocksdb":
        return rocksdb.STORE
    name = _name_of(driver)
    return None if name is None else SYSTEMS[name].store


def tables_of(driver: str) -> Callable[[DriverOptions, Secret | None], Tables] | None:
    """The access to tables of a driver's system; None without tables."""
    name = _name_of(driver)
    return None if name is None else SYSTEMS[name].tables


def _name_of(driver: str) -> str | None:
    return next((name for name, its_driver in _DRIVERS.items() if its_driver == driver), None)


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
