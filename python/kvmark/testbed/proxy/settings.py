"""The settings of each kind of proxy: the files it reads, and the words it is started with.

All of them pass on what comes and do nothing else: what is measured is the way through.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kvmark.testbed.proxy.wanted import SHOTOVER_SPEAKS, Kind, Target

__all__ = ["Place", "command", "files"]

_MOST_CONNECTIONS: Final = 20_000
_OWN_FILES: Final = 200
_FILES_A_CONNECTION: Final = 2

_HAPROXY: Final = """\
global
    nbthread {threads}
    maxconn {connections}
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen kvmark
    bind {host}:{port}
    server system {to_host}:{to_port}
"""
_SHOTOVER: Final = """\
---
sources:
  - {source}:
      name: "kvmark"
      listen_addr: "{host}:{port}"
      connection_limit: {connections}
      chain:
        - {sink}:
            remote_address: "{to_host}:{to_port}"
            connect_timeout_ms: 5000
"""
_SHOTOVER_LOG: Final = """\
---
main_log_level: "warn"
"""
_CQL_PROXY: Final = """\
contact-points: ["{to_host}"]
port: {to_port}
bind: "{host}:{port}"
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a proxy listens and keeps its files."""

    folder: Path
    host: str
    port: int


def files(kind: Kind, place: Place, to: Target, threads: int) -> Mapping[str, str]:
    """The files that a proxy reads, by name."""
    source, sink = SHOTOVER_SPEAKS.get(to.driver, ("", ""))
    values = {
        "host": place.host,
        "port": place.port,
        "to_host": f"[{to.host}]" if ":" in to.host else to.host,
        "to_port": to.port,
        "threads": threads,
        "connections": connections(),
        "source": source,
        "sink": sink,
    }
    match kind:
        case "haproxy":
            return {"haproxy.cfg": _HAPROXY.format(**values)}
        case "shotover":
            return {"topology.yaml": _SHOTOVER.format(**values), "config.yaml": _SHOTOVER_LOG}
        case "cql-proxy":
            return {"cql-proxy.yaml": _CQL_PROXY.format(**values)}


def command(kind: Kind, program: str, folder: Path, threads: int) -> tuple[str, ...]:
    """The words that start a proxy in the foreground."""
    match kind:
        case "haproxy":
            return (program, "-db", "-f", str(folder / "haproxy.cfg"))
        case "shotover":
            topology, config = str(folder / "topology.yaml"), str(folder / "config.yaml")
            read = ("--topology-file", topology, "--config-file", config)
            return (program, *read, "--core-threads", str(threads))
        case "cql-proxy":
            # Go's runtime takes the number of its threads from its environment alone.
            config = str(folder / "cql-proxy.yaml")
            return ("env", f"GOMAXPROCS={threads}", program, "--config", config)


def connections() -> int:
    """Connections that may be open: many, and not more than this process's own limit allows.

    A limit without bound would let HAProxy set memory aside for all of it.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    return max(1, min(_MOST_CONNECTIONS, (soft - _OWN_FILES) // _FILES_A_CONNECTION))
