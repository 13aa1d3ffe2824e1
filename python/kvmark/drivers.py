"""The drivers of this build with their descriptions, loaded on first use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import MappingProxyType


class Location(Enum):
    """The place of a driver's system, in a URL between the scheme and the options."""

    FOLDER = "folder"
    """A folder, opened by the engine's process only; the option `create` creates it."""
    HOSTS = "hosts"
    CLASS = "class"
    """A class of Java's that a process of the engine loads once."""
    NOTHING = "nothing"
    """Part of the engine, without records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files in a database's folder: names of paths within it, with `#` for digits."""

    complete: str
    """The file that makes a folder a database."""
    early: tuple[str, ...]
    """Files without data that may exist before that one."""
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The description of a driver: `kvmark_driver::About` without the schemes."""

    name: str
    """The name in plans."""
    place: Location
    path: str | None
    """The option that follows the hosts as a path."""
    port: int | None
    """The default port."""
    files: Files | None
    """None if the system isn't a folder."""
    memory: Mapping[str, int]
    """Options for sizes of caches and buffers, with their percentages of a limit on memory."""
    counts_whole_server: bool
    """Whether its statistics cover the whole server and all its clients."""
    stores_text: bool
    """Whether its own records are text or JSON, without bytes of any value."""
    lacks: tuple[str, ...]
    """Unsupported kinds of operation."""
    one_thread_unless: str | None
    """The setting for more than one thread; None for servers with several threads."""
    ycsb_bindings: tuple[str, ...]
    """Names and classes of YCSB's bindings to the same systems."""
    ycsb_properties: tuple[str, ...]
    """Prefixes of the properties of those bindings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """The scheme of a URL."""

    name: str
    driver: Driver
    example: str
    """A complete URL."""
    implied: Mapping[str, str]
    """Options that the scheme implies."""

    @property
    def beginning(self) -> str:
        """The part before the place."""
        return f"{self.name}://" if self.driver.place is Location.HOSTS else f"{self.name}:"


@cache
def schemes() -> Mapping[str, Scheme]:
    """The schemes of URLs by name, driver by driver, the usual one of each first."""
    from kvmark import _engine  # noqa: PLC0415 - help and completion need no engine

    by_name = {}
    for about in json.loads(_engine.drivers()):
        own_schemes, place = about.pop("schemes"), Location(about.pop("place"))
        files, memory = about.pop("files"), dict(about.pop("memory"))
        made = None if files is None else Files(**files)
        driver = Driver(place=place, files=made, memory=memory, **about)
        for scheme in own_schemes:
            implied = MappingProxyType(dict(scheme.pop("implied")))
            by_name[scheme["name"]] = Scheme(driver=driver, implied=implied, **scheme)
    return MappingProxyType(by_name)


@cache
def drivers() -> Mapping[str, Driver]:
    """The drivers by name."""
    return MappingProxyType({one.driver.name: one.driver for one in schemes().values()})


def is_embedded(driver: str) -> bool:
    """Whether a driver's system is a folder, opened by one process only."""
    known = drivers()
    return driver in known and known[driver].place is Location.FOLDER


def files_of(driver: str) -> Files | None:
    """The files of an embedded store's database; None for other drivers."""
    return drivers()[driver].files if is_embedded(driver) else None
