"""The drivers of this build, as they speak of themselves; asked once, when somebody must know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import MappingProxyType


class Location(Enum):
    """Where a driver's system is, which stands in a URL between the scheme and the options."""

    FOLDER = "folder"
    """In a folder, opened by the engine's process alone; the option `create` makes it."""
    HOSTS = "hosts"
    NOTHING = "nothing"
    """Within the engine; it keeps no records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """What a driver says, field for field `kvmark_driver::About` without the schemes."""

    name: str
    """In plans."""
    place: Location
    path: str | None
    """The option that stands behind the hosts as a path."""
    port: int | None
    """That of a host without one."""
    counts_whole_server: bool
    """Whether its statistics are the server's, which all clients see alike."""
    lacks: tuple[str, ...]
    """Kinds of operation that its systems don't have."""
    one_thread_unless: str | None
    """The setting that gives a server more than its one thread; None where it has more anyway."""
    ycsb_bindings: tuple[str, ...]
    """YCSB's bindings to the same systems, by names and classes."""
    ycsb_properties: tuple[str, ...]
    """How the names of those bindings' own properties begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """How a URL begins."""

    name: str
    driver: Driver
    example: str
    """A whole URL."""
    implied: Mapping[str, str]
    """Options that the scheme itself says."""

    @property
    def beginning(self) -> str:
        """All that stands before the place."""
        return f"{self.name}://" if self.driver.place is Location.HOSTS else f"{self.name}:"


@cache
def schemes() -> Mapping[str, Scheme]:
    """The beginnings of URLs by name: of each driver in turn, its usual one first."""
    from kvmark import _engine  # noqa: PLC0415 - help and completion need no engine

    found = {}
    for about in json.loads(_engine.drivers()):
        own, place = about.pop("schemes"), Location(about.pop("place"))
        driver = Driver(place=place, **about)
        for one in own:
            implied = MappingProxyType(dict(one.pop("implied")))
            found[one["name"]] = Scheme(driver=driver, implied=implied, **one)
    return MappingProxyType(found)


@cache
def drivers() -> Mapping[str, Driver]:
    """The drivers by name."""
    return MappingProxyType({one.driver.name: one.driver for one in schemes().values()})


def is_embedded(driver: str) -> bool:
    """Whether a driver's system keeps its records in a folder, opened by one process alone."""
    found = drivers().get(driver)
    return found is not None and found.place is Location.FOLDER
