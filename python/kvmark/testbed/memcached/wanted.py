"""What is wanted of a memcached testbed, and the words that a server is started with."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

from kvmark.errors import UsageError
from kvmark.secret import Secret
from kvmark.testbed.certificates import Certificates
from kvmark.testbed.wishes import check_password, check_setting
from kvmark.testbed.words import Word, read_size

__all__ = ["RESERVED_CLIENTS", "USERNAME", "Place", "Wanted", "check", "forgets", "words"]

RESERVED_CLIENTS: Final = 32
"""Connections beyond those that were asked for: the observer, and a person who looks."""

USERNAME: Final = "kvmark"
"""Who logs in where there is a password."""

_MIB: Final = 2**20
_LEAST_ITEM_BYTES: Final = 2**10
_MOST_ITEM_BYTES: Final = 2**30
_MOST_THREADS: Final = 64
_LONGEST_PASSWORD: Final = 128
_FLAG: Final = "yes"
_NAME: Final = re.compile(r"[a-z][a-z-]*")

# Options that a testbed decides itself, and what to do instead.
_DECIDED: Final = {
    "port": "give --port",
    "threads": "give --threads",
    "memory-limit": "give --memory",
    "conn-limit": "give --maxclients",
    "max-item-size": "give --item-size",
    "auth-file": "give --password-file",
    "enable-ssl": "give --tls",
    **dict.fromkeys(["listen", "unix-socket", "udp-port"], "a testbed listens on TCP"),
    **dict.fromkeys(["protocol", "enable-sasl"], "kvmark speaks the text protocol"),
    **dict.fromkeys(["daemon", "pidfile", "user"], "kvmark keeps the process itself"),
    **dict.fromkeys(["help", "license", "version"], "a server has to be started"),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A memcached testbed as the user wants it."""

    name: str | None = None
    """None for `memcached`, or `memcached-2` and so on if that is taken."""
    nodes: Annotated[int, Word("servers, each with a part of the keys.", "N", least=1)] = 1
    port: Annotated[
        int | None, Word("of the first server; else free ones.", "PORT", in_studies=False)
    ] = None
    """The first server's port, the others' above it; None for free ones."""
    threads: Annotated[int | None, Word("threads of each server; else 4.", "N", least=1)] = None
    memory_bytes: Annotated[
        int,
        Word(
            "most for items of each server, such as 64M; else 1G.",
            "SIZE",
            "memory",
            str,
            partial(read_size, "memory"),
        ),
    ] = 2**30
    """Most for items of each server, which is not set aside before they are there."""
    item_size_bytes: Annotated[
        int | None,
        Word(
            "largest item, such as 8M; else 1M.",
            "SIZE",
            "item_size",
            str,
            partial(read_size, "item-size"),
        ),
    ] = None
    maxclients: Annotated[int, Word("connections for clients.", "N", least=1)] = 10_000
    """Connections for clients; the testbed keeps some more for its own."""
    password: Secret | None = None
    tls: bool = False
    settings: Annotated[
        tuple[tuple[str, str], ...],
        Word(
            "any long option of memcached, yes for one without a value.",
            "KEY=VALUE",
            "set",
            list[str],
            in_studies=False,
        ),
    ] = ()
    """Further options by their long names."""
    cores: tuple[int, ...] = ()
    """The cores that every server is bound to; none for any."""
    server: Annotated[str, Word("the server's program.", "PROGRAM", in_studies=False)] = "memcached"


@dataclass(frozen=True, slots=True)
class Place:
    """Where one server listens, and who may log in."""

    host: str
    port: int
    users: str | None
    """The file of users; None where everybody is let in."""


def check(wanted: Wanted) -> None:
    """Refuses what can't be started.

    Raises:
        UsageError: a value is outside its range, or a setting is the testbed's own.
    """
    if not 1 <= (wanted.threads or 1) <= _MOST_THREADS:
        raise UsageError(f"threads: must be from 1 to {_MOST_THREADS}, not {wanted.threads}")
    if wanted.memory_bytes < _MIB:
        raise UsageError("memory: must be at least 1M")
    item = wanted.item_size_bytes
    if item is not None and not _LEAST_ITEM_BYTES <= item <= _MOST_ITEM_BYTES:
        raise UsageError("item-size: must be from 1K to 1G")
    if item is not None and 2 * item > wanted.memory_bytes:
        raise UsageError("item-size: must be at most half of the memory; raise --memory")
    for name, value in wanted.settings:
        check_setting(name, value, _NAME)
        if name in _DECIDED:
            raise UsageError(f"set: {name} is the testbed's own; {_DECIDED[name]}")
    if wanted.password is not None:
        check_password(wanted.password, _LONGEST_PASSWORD)
        if re.search(r"[\s:]", wanted.password.reveal()):
            raise UsageError("the password must have no blanks and no colons, for memcached")


def forgets(_made_with: Mapping[str, Any]) -> str:
    """What is said of servers that began anew without what they held."""
    return "memcached keeps its data in memory only"


def words(wanted: Wanted, place: Place, made: Certificates | None) -> tuple[str, ...]:
    """What stands behind the program's name; no secret in it."""
    found = [f"--listen={place.host}", f"--port={place.port}", "--udp-port=0"]
    found += [f"--memory-limit={wanted.memory_bytes // _MIB}"]
    found += [f"--conn-limit={wanted.maxclients + RESERVED_CLIENTS}"]
    if os.geteuid() == 0:
        # It doesn't stay root unless it is told to.
        found.append("--user=root")
    if wanted.threads is not None:
        found.append(f"--threads={wanted.threads}")
    if wanted.item_size_bytes is not None:
        found.append(f"--max-item-size={wanted.item_size_bytes}")
    if place.users is not None:
        found.append(f"--auth-file={place.users}")
    if made is not None:
        files = f"ssl_chain_cert={made.server},ssl_key={made.key}"
        found += ["--enable-ssl", f"--extended={files}"]
    for name, value in wanted.settings:
        found.append(f"--{name}" if value == _FLAG else f"--{name}={value}")
    return tuple(found)
