"""Whom -node, -port, -mode and -transport mean, as a system with its driver's options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kvmark.errors import SpecError
from kvmark.frontends.cassandra_stress.reading import CommandWords
from kvmark.frontends.cassandra_stress.words import ANYWHERE
from kvmark.secret import Secret
from kvmark.spec.suggest import refuse_credentials, shown
from kvmark.spec.url import SystemName

_PORT: Final = 9042
_URLS: Final = ("up:", "null:", "sim:", "cql:")
"""kvmark's own names of systems, which -node takes as well."""


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """The nodes and how they are spoken to."""

    url: SystemName | None
    """One of kvmark's own URLs, if that was given in place of hosts."""
    hosts: tuple[str, ...]
    port: int
    datacenter: str | None
    user: str | None
    password: Secret | None
    compression: str
    connections: int
    """To each node."""
    max_pending: int | None
    """Operations in flight on a connection, where it was said."""
    request_timeout_ms: int
    ca_file: str | None

    @property
    def address(self) -> str:
        """The nodes as the driver takes them."""
        return ",".join(f"{_bracketed(host)}:{self.port}" for host in self.hosts)


def _bracketed(host: str) -> str:
    return f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host


def read_target(given: CommandWords) -> TargetSpec:
    """What was said of the nodes.

    Raises:
        SpecError: words contradict each other, or a file can't be read.
    """
    hosts = _hosts(given)
    ports = [given.text(*word) for word in (("-port", "native="), ("-mode", "port="))]
    port = next((int(text) for text in ports if text is not None), _PORT)
    if not 1 <= port <= 65535:
        raise SpecError(f"-port: native= must be from 1 to 65535, not {port}")
    user, password = given.text("-mode", "user="), given.secret("-mode", "password=")
    if (user is None) != (password is None):
        raise SpecError("-mode: user= and password= go together; give both")
    ca_file = given.text("-transport", "truststore=")
    if ca_file is None and "-transport" in given.groups and given.groups["-transport"]:
        raise SpecError("-transport: needs truststore=FILE with the authorities in PEM")
    if ca_file is not None and not _is_pem(ca_file):
        raise SpecError(
            f"-transport: {shown(ca_file)} is not a PEM file; write one with keytool -exportcert"
            " -rfc"
        )
    pending = given.text("-mode", "maxPending=")
    url = SystemName(hosts[0]) if hosts[0].startswith(_URLS) else None
    return TargetSpec(
        url=url,
        hosts=hosts if url is None else (str(url),),
        port=port,
        datacenter=given.text("-node", "datacenter="),
        user=user,
        password=password,
        compression=(given.text("-mode", "compression=") or "none").lower(),
        connections=_whole(given, "connectionsPerHost=", 8),
        max_pending=None if pending is None else _whole(given, "maxPending=", 128),
        request_timeout_ms=_whole(given, "requestTimeout=", 12000),
        ca_file=ca_file,
    )


def _whole(given: CommandWords, name: str, default: int) -> int:
    number = int(given.text("-mode", name) or default)
    if number < 1:
        raise SpecError(f"-mode: {name} must be at least 1, not {number}")
    return number


def _hosts(given: CommandWords) -> tuple[str, ...]:
    listed, file = given.text("-node", ANYWHERE), given.text("-node", "file=")
    if listed is not None and file is not None:
        raise SpecError("-node: a list and file= are two ways to name nodes; give one")
    if file is not None:
        try:
            lines = Path(file).read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as problem:
            reason = getattr(problem, "strerror", None) or "it is not UTF-8 text"
            raise SpecError(f"-node: {file} can't be read because {reason}") from problem
        if not lines:
            raise SpecError(f"-node: {file} names no node; write one on each line")
        return tuple(lines)
    text = listed or "localhost"
    if text.startswith(_URLS):
        return (text,)
    refuse_credentials("-node", text, "-mode user= password=")
    return tuple(text.split(","))


def _is_pem(path: str) -> bool:
    try:
        return b"-----BEGIN" in Path(path).read_bytes()
    except OSError as problem:
        raise SpecError(f"-transport: {path} can't be read because {problem.strerror}") from problem
