"""What is wanted of a proxy, and what can't be had."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

from kvmark.drivers import drivers, schemes
from kvmark.errors import UsageError
from kvmark.testbed.words import Word

Kind = Literal["haproxy", "shotover", "cql-proxy"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
Build = Literal["debug", "release"]

SHOTOVER_SPEAKS: Final = {
    "redis": ("Valkey", "ValkeySinkSingle"),
    "cql": ("Cassandra", "CassandraSinkSingle"),
}
"""What Shotover calls the protocols of drivers, as a source and as a sink."""

_LONGEST_PORT: Final = 5
_MOST_THREADS: Final = 64


@dataclass(frozen=True, slots=True)
class Target:
    """The system that a proxy stands before."""

    driver: str
    """What speaks to it."""
    address: str
    """Its host and port; a host alone has the driver's usual port."""
    text: str
    """Its URL to show and to keep, without credentials."""
    encrypted: bool = False
    password: bool = False
    """Whether it asks clients for a password."""
    cluster: bool = False
    """Whether its clients are told addresses of other nodes."""

    @property
    def host(self) -> str:
        """The host, or the address of one."""
        return self._parts[0]

    @property
    def port(self) -> int:
        """The port."""
        return self._parts[1]

    @property
    def _parts(self) -> tuple[str, int]:
        host, colon, port = self.address.rpartition(":")
        if colon and port.isdecimal() and len(port) <= _LONGEST_PORT:
            return host.strip("[]"), int(port)
        return self.address.strip("[]"), drivers()[self.driver].port or 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A proxy as the user wants it."""

    kind: Annotated[Kind, Word("which one. Shotover and cql-proxy are built once.")]
    to: Annotated[Target, Word("the system to stand before, a URL or up:NAME.", "URL")]
    name: str | None = None
    """None for the kind, or the kind with a number if that is taken."""
    port: Annotated[int | None, Word("its own; else a free one.", "PORT")] = None
    threads: Annotated[int | None, Word("its threads; else as many as there are cores.", "N")] = (
        None
    )
    """Threads that pass operations on; None for as many as the machine has cores."""
    build: Annotated[Build | None, Word("how Shotover is compiled; else release.")] = None
    """How Shotover is compiled; None for `release`."""
    cores: tuple[int, ...] = ()
    """The cores that it is bound to; none for any."""


def threads_of(wanted: Wanted) -> int:
    """The threads that a proxy is started with."""
    return wanted.threads or len(wanted.cores) or len(os.sched_getaffinity(0))


def check(wanted: Wanted) -> None:
    """Refuses what a kind of proxy can't do, before anything is built or started.

    Raises:
        UsageError: says what, and what to do instead.
    """
    kind, to = wanted.kind, wanted.to
    if drivers()[to.driver].port is None:
        servers = " or ".join(one.beginning for one in schemes().values() if one.driver.port)
        raise UsageError(
            f"to: {to.text} is no server that a proxy can stand before; give a {servers} URL"
        )
    if to.address.startswith("/") or "," in to.address:
        raise UsageError(f"to: a proxy stands before one host and port, not before {to.address}")
    if kind == "shotover" and to.driver not in SHOTOVER_SPEAKS:
        raise UsageError(f"to: shotover doesn't speak what {to.text} does; take haproxy")
    if kind == "cql-proxy" and to.driver != "cql":
        raise UsageError(f"to: cql-proxy speaks CQL, and {to.text} doesn't; give a cql:// URL")
    if to.cluster and kind != "cql-proxy":
        raise UsageError(
            f"to: clients of {to.text} are told the addresses of all its nodes and go round"
            f" {kind}; give a system of one node"
        )
    if to.encrypted and kind != "haproxy":
        raise UsageError(f"to: {kind} would have to decrypt {to.text}; take haproxy, or no TLS")
    if to.password and kind == "cql-proxy":
        raise UsageError(
            "to: cql-proxy logs in by itself, so that a password would stand in its command; give a"
            " system without one"
        )
    if wanted.build is not None and kind != "shotover":
        raise UsageError(f"build: {kind} comes in one build; leave --build out")
    if wanted.threads is not None and not 1 <= wanted.threads <= _MOST_THREADS:
        raise UsageError(f"threads: must be from 1 to {_MOST_THREADS}, not {wanted.threads}")
