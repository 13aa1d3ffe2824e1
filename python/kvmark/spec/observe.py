"""An observed server as the user names it: `[NAME=]SOURCE`, of `--observe` and of a study's file.

A source is the URL of a Prometheus endpoint, `ssh:HOST`, or the URL of a store that reports its own
resources. Printed and kept it has neither user nor password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, Self
from urllib.parse import urlsplit

from kvmark.drivers import Location, drivers
from kvmark.errors import SpecError
from kvmark.spec.suggest import shown
from kvmark.spec.url import SystemName, SystemUrl, parse_system_url

_FORMS: Final = "http://HOST:9100/metrics, ssh:HOST, redis://HOST or memcached://HOST"
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
# A word that begins with a dash would be an option of ssh.
_SSH: Final = re.compile(r"(//)?(?!-)(?:[\w.-]+@)?(?P<host>[\w.-]+|\[[0-9a-fA-F:]+\])(?(1)(:\d+)?)")


class SourceKind(Enum):
    """How a source is read."""

    PROMETHEUS = "Prometheus"
    SSH = "ssh"
    STORE = "store"


@dataclass(frozen=True, slots=True)
class ServerSource:
    """An observed server and the source of its samples."""

    name: str
    kind: SourceKind
    place: SystemName
    """The whole source, with credentials."""

    def __str__(self) -> str:
        return f"{self.name}={self.place}"

    @classmethod
    def named(cls, name: str, place: SystemName) -> Self:
        """The source of that name; an empty one is the host's.

        Raises:
            SpecError: the name or the source can't be used.
        """
        scheme, _, rest = place.reveal().partition(":")
        if scheme in {"http", "https"}:
            kind, host = SourceKind.PROMETHEUS, _exporter_host(place)
        elif scheme == "ssh":
            kind, host = SourceKind.SSH, _ssh_host(rest)
        else:
            kind, host = SourceKind.STORE, store_url(place).options["address"]
        name = name or re.sub(r"[^\w.-]", "-", host.strip("[]"), flags=re.ASCII)
        if not _NAME.fullmatch(name):
            raise SpecError(
                f"{shown(name)} is no name of a server; use letters, digits, -, _ and ."
            )
        return cls(name, kind, place)


def parse_source(text: str) -> ServerSource:
    """Reads `[NAME=]SOURCE`.

    Raises:
        SpecError: it is neither.
    """
    name, equals, place = text.partition("=")
    if not equals or not _NAME.fullmatch(name):
        name, place = "", text
    return ServerSource.named(name, SystemName(place))


def store_url(place: SystemName) -> SystemUrl:
    """The URL of one server of a store.

    Raises:
        SpecError: it is none, or names several.
    """
    text = place.reveal()
    if ":" not in text:
        raise SpecError(f"{shown(text)} is no source; write {_FORMS}")
    url = parse_system_url(text)
    if drivers()[url.driver].place is not Location.HOSTS:
        raise SpecError(f"{shown(text)} is no server; write {_FORMS}")
    if "," in url.options["address"]:
        raise SpecError(f"{shown(text)} names several servers; give each its own --observe")
    return url


def _exporter_host(place: SystemName) -> str:
    try:
        parts = urlsplit(place.reveal())
        host = parts.hostname if parts.port != 0 else None
    except ValueError:
        host = None
    if not host:
        raise SpecError(f"{shown(str(place))} is no exporter's address; write {_FORMS}")
    return host


def _ssh_host(rest: str) -> str:
    found = _SSH.fullmatch(rest)
    if found is None:
        # It may hold a password.
        raise SpecError(
            "ssh: takes a host without a password; write ssh:HOST or ssh://USER@HOST:22"
        )
    return found["host"]
