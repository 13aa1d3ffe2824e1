"""What is wanted of a Redis testbed, and the settings file that says it to a server."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from kvmark.errors import UsageError
from kvmark.secret import Secret
from kvmark.testbed.certificates import Certificates
from kvmark.testbed.words import YES_OR_NO, Word, check_password, check_setting

BUS_DISTANCE: Final = 10_000
"""How far the port of a cluster's own traffic lies above that of its clients."""

RESERVED_CLIENTS: Final = 32
"""Connections beyond those that were asked for: the observer, replicas, a person who looks."""

_LONGEST_PASSWORD: Final = 512
_FSYNC: Final = ("always", "everysec", "no")
_NAME: Final = re.compile(r"[a-z][a-z0-9-]*", re.IGNORECASE)
_SAVE: Final = re.compile(r"\d+ \d+(?: \d+ \d+)*")

# Settings that a testbed decides itself, and what to do instead.
_DECIDED: Final = {
    **dict.fromkeys(["port", "tls-port"], "give --port"),
    **dict.fromkeys(["requirepass", "masterauth", "masteruser", "user"], "give --password-file"),
    **dict.fromkeys(["replicaof", "slaveof"], "give --replicas"),
    **dict.fromkeys(["cluster-enabled", "cluster-port"], "give --cluster"),
    "appendonly": "give --appendonly",
    "appendfsync": "give --appendfsync",
    "save": "give --save",
    "io-threads": "give --io-threads",
    "maxclients": "give --maxclients",
    **dict.fromkeys(["tls-cert-file", "tls-key-file", "tls-ca-cert-file"], "give --tls"),
    **dict.fromkeys(["tls-replication", "tls-cluster", "tls-auth-clients"], "give --tls"),
    **dict.fromkeys(["bind", "protected-mode"], "a testbed listens on this machine only"),
    **dict.fromkeys(["daemonize", "supervised"], "kvmark keeps the process itself"),
    **dict.fromkeys(["dir", "logfile", "pidfile", "include"], "the testbed has its own folder"),
    **dict.fromkeys(["dbfilename", "appendfilename", "appenddirname"], "files keep their names"),
    **dict.fromkeys(["cluster-config-file", "aclfile"], "the testbed has its own folder"),
    **dict.fromkeys(["cluster-announce-ip", "cluster-announce-port"], "kvmark chooses it"),
    **dict.fromkeys(["rename-command", "proc-title-template"], "kvmark needs what it changes"),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A Redis testbed as the user wants it."""

    name: str | None = None
    """None for `redis`, or `redis-2` and so on if that is taken."""
    port: Annotated[
        int | None, Word("of the first server; else free ones.", "PORT", in_studies=False)
    ] = None
    """The first server's port, the others' above it; None for free ones."""
    appendonly: Annotated[
        bool, Word("whether writes go to a log.", typed=YES_OR_NO, read=lambda text: text == "yes")
    ] = False
    appendfsync: Annotated[
        str,
        Word("when that log goes to the disk.", typed=Literal["always", "everysec", "no"]),
    ] = "everysec"
    save: Annotated[str, Word("snapshots, such as '3600 1'; else none.", "TEXT")] = ""
    """Snapshots, as `seconds changes` once or several times; empty for none."""
    password: Secret | None = None
    tls: bool = False
    replicas: Annotated[int, Word("replicas of each primary.", "N", least=0)] = 0
    cluster: Annotated[int | None, Word("a cluster with so many primaries.", "N", least=1)] = None
    """Primaries of a Redis Cluster; None for a server without cluster mode."""
    io_threads: Annotated[int | None, Word("the setting io-threads.", "N", least=1)] = None
    maxclients: Annotated[int, Word("connections for clients.", "N", least=1)] = 10_000
    """Connections for clients; the testbed keeps some more for its own."""
    settings: Annotated[
        tuple[tuple[str, str], ...],
        Word("any setting of redis.conf.", "KEY=VALUE", "set", list[str], in_studies=False),
    ] = ()
    """Further settings of redis.conf, by name; they come last."""
    cores: tuple[int, ...] = ()
    """The cores that every server is bound to; none for any."""
    server: Annotated[str, Word("the server's program.", "PROGRAM", in_studies=False)] = (
        "redis-server"
    )
    network: bool = False
    """Whether each server has an address and a link of its own, that faults can disturb."""

    @property
    def primaries(self) -> int:
        """Servers that take writes."""
        return 1 if self.cluster is None else self.cluster

    @property
    def servers(self) -> int:
        """All servers."""
        return self.primaries * (1 + self.replicas)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one server listens and keeps its files, and whom it follows."""

    folder: Path
    host: str
    port: int
    follows: tuple[str, int] | None
    """Host and port of the primary it replicates from its start on; in a cluster that is said
    later."""


def check(wanted: Wanted) -> None:
    """Refuses what can't be started.

    Raises:
        UsageError: a value is outside its range, or a setting is the testbed's own.
    """
    if wanted.appendfsync not in _FSYNC:
        raise UsageError(
            f"appendfsync: '{wanted.appendfsync}' is not known; give {', '.join(_FSYNC)}"
        )
    if wanted.save and not _SAVE.fullmatch(wanted.save):
        raise UsageError(
            f"save: '{wanted.save}' is not a list of seconds and changes; write it like '3600 1'"
        )
    least = {"replicas": 0, "cluster": 1, "io_threads": 1, "maxclients": 1}
    for name, bound in least.items():
        value = getattr(wanted, name)
        if value is not None and value < bound:
            raise UsageError(f"{name.replace('_', '-')}: must be at least {bound}, not {value}")
    for name, value in wanted.settings:
        _check_setting(name, value)
    if wanted.password is not None:
        check_password(wanted.password, _LONGEST_PASSWORD)


def forgets(made_with: Mapping[str, Any]) -> str | None:
    """What is said of servers that began anew without what they held."""
    if made_with.get("appendonly") is not False or made_with.get("save"):
        return None
    return "Without --appendonly yes or --save Redis keeps its data in memory only"


def settings_text(wanted: Wanted, place: Place, certificates: Certificates | None) -> str:
    """The text of redis.conf for one server. It holds the password: its file is private."""
    lines = [
        f"bind {place.host}",
        f"dir {_quoted(str(place.folder))}",
        "daemonize no",
        'logfile ""',
        f"appendonly {'yes' if wanted.appendonly else 'no'}",
        f"appendfsync {wanted.appendfsync}",
        *_snapshots(wanted.save),
        f"maxclients {wanted.maxclients + RESERVED_CLIENTS}",
        # A new replica needn't wait for others to join it.
        "repl-diskless-sync-delay 0",
        *_listening(place.port, certificates),
    ]
    if wanted.io_threads is not None:
        lines.append(f"io-threads {wanted.io_threads}")
    if wanted.password is not None:
        quoted = _quoted(wanted.password.reveal())
        lines += [f"requirepass {quoted}", f"masterauth {quoted}"]
    if place.follows is not None:
        lines.append("replicaof {} {}".format(*place.follows))
    if wanted.network:
        # Without a password a server would answer on the loopback address alone. Nobody but this
        # machine reaches the network.
        lines.append("protected-mode no")
        # The clients' address comes to a server when it is promoted.
        lines[0] = "bind 0.0.0.0"
    if wanted.cluster is not None:
        lines += ["cluster-enabled yes", "cluster-config-file nodes.conf"]
        lines.append(f"cluster-announce-ip {place.host}")
    lines += (f"{name} {value or _quoted('')}" for name, value in wanted.settings)
    return "\n".join(lines) + "\n"


def _listening(port: int, certificates: Certificates | None) -> list[str]:
    if certificates is None:
        return [f"port {port}"]
    return [
        "port 0",
        f"tls-port {port}",
        f"tls-cert-file {_quoted(str(certificates.server))}",
        f"tls-key-file {_quoted(str(certificates.key))}",
        f"tls-ca-cert-file {_quoted(str(certificates.authority))}",
        "tls-auth-clients no",
        "tls-replication yes",
        "tls-cluster yes",
    ]


def _snapshots(save: str) -> Iterator[str]:
    numbers = save.split()
    if not numbers:
        yield 'save ""'
    for seconds, changes in zip(numbers[::2], numbers[1::2], strict=True):
        yield f"save {seconds} {changes}"


def _check_setting(name: str, value: str) -> None:
    check_setting(name, value, _NAME)
    instead = _DECIDED.get(name.lower())
    if instead is not None:
        raise UsageError(f"set: {name.lower()} is the testbed's own; {instead}")


def _quoted(text: str) -> str:
    """A word as redis.conf writes it when it may hold blanks or quotation marks."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
