"""The URL of a system under test: `rocksdb:PATH?option=value`, `null:`, `sim:?servers=1`.

Options stay raw text here: the driver alone knows them and checks them when it opens. Only percent
escapes are resolved; `+` is a plus sign. Credentials never appear in the text that is shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

from kvmark.errors import SpecError
from kvmark.spec.suggest import did_you_mean, is_text, shown

__all__ = ["SCHEMES", "Place", "Scheme", "SystemUrl", "parse_system_url"]


class Place(Enum):
    """What stands between the scheme and the options."""

    FOLDER = "a folder"
    HOSTS = "hosts"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Scheme:
    """One kind of system URL and the driver that serves it."""

    driver: str
    place: Place
    available: bool
    example: str


SCHEMES: Final[Mapping[str, Scheme]] = MappingProxyType(
    {
        "rocksdb": Scheme("rocksdb", Place.FOLDER, True, "rocksdb:PATH"),
        "null": Scheme("null", Place.NOTHING, True, "null:"),
        "sim": Scheme("sim", Place.NOTHING, True, "sim:?servers=1"),
        "redis": Scheme("redis", Place.HOSTS, False, "redis://host:6379"),
        "rediss": Scheme("redis", Place.HOSTS, False, "rediss://host:6379"),
        "cql": Scheme("cql", Place.HOSTS, False, "cql://host:9042/keyspace"),
    }
)
"""Every scheme that is recognised. A new driver adds its line here."""

_SECRET: Final = re.compile(r"pass|secret|token|credential|auth", re.IGNORECASE)


@dataclass(frozen=True)
class SystemUrl:
    """A system to measure, as the user named it."""

    driver: str
    """The driver's name in the registry."""
    options: Mapping[str, str]
    """The driver's options as raw text; a folder is `path`, hosts and what follows `address`."""
    text: str
    """The URL to show and to keep, without credentials."""

    def __str__(self) -> str:
        return self.text


def parse_system_url(text: str) -> SystemUrl:
    """Reads a system URL.

    Raises `SpecError` for an unknown scheme, a scheme without a driver in this build, a missing
    folder, and an option without a value or given twice.
    """
    if not is_text(text):
        raise SpecError(f"{shown(_masked(text))} is not UTF-8 text, as a system's URL must be")
    name, colon, rest = text.partition(":")
    if not colon:
        forms = ", ".join(scheme.example for scheme in SCHEMES.values())
        raise SpecError(f"{shown(_masked(text))} is not the URL of a system; write one of {forms}")
    scheme = SCHEMES.get(name)
    if scheme is None:
        hint = did_you_mean(name, SCHEMES)
        raise SpecError(f"unknown kind of system {shown(name)}{hint}")
    if not scheme.available:
        usable = ", ".join(f"{key}:" for key, known in SCHEMES.items() if known.available)
        raise SpecError(f"this build has no driver for {name}; it has {usable}")
    path, _, query = rest.partition("?")
    options = _options(query, name)
    if scheme.place is Place.FOLDER:
        options = _with_folder(options, path, scheme, name)
    elif scheme.place is Place.HOSTS:
        options = _with_address(options, path, scheme, name)
    elif path:
        raise SpecError(f"{name}: takes options only, like {scheme.example}, not {shown(path)}")
    return SystemUrl(scheme.driver, MappingProxyType(options), _masked(text))


def _with_folder(options: dict[str, str], path: str, scheme: Scheme, name: str) -> dict[str, str]:
    if not path:
        raise SpecError(f"{name}: needs a folder; write {scheme.example}")
    if "\0" in path:
        raise SpecError(f"{name}: a folder's name cannot hold a NUL character")
    if "path" in options:
        raise SpecError(f"{name}: the folder stands after the colon, not in the option 'path'")
    return {"path": path, **options}


def _with_address(options: dict[str, str], path: str, scheme: Scheme, name: str) -> dict[str, str]:
    address = path.removeprefix("//")
    if not address or address == path:
        raise SpecError(f"{name}: needs a host; write {scheme.example}")
    if "address" in options:
        raise SpecError(f"{name}: the host stands after the colon, not in the option 'address'")
    return {"address": address, **options}


def _options(query: str, scheme: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in query.split("&") if query else ():
        key, equals, value = part.partition("=")
        if not key or not equals:
            raise SpecError(f"{scheme}: option {shown(part)} needs a value; write option=value")
        if key in options:
            raise SpecError(f"{scheme}: option {shown(key)} is given twice")
        options[key] = unquote(value)
    return options


def _masked(text: str) -> str:
    """The URL without user, password and options that look like a secret."""
    head, question, query = text.partition("?")
    if "://" in head:
        scheme, _, authority = head.partition("://")
        head = f"{scheme}://{authority.rpartition('@')[2]}"
    parts = [_masked_option(part) for part in query.split("&")]
    return head + question + "&".join(parts)


def _masked_option(part: str) -> str:
    key, equals, value = part.partition("=")
    return f"{key}=***" if equals and value and _SECRET.search(key) else part
