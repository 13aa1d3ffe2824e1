"""An application's run: its workload on the servers that the words name."""

from __future__ import annotations

import os
import re
from types import MappingProxyType
from typing import Any, Final

from kvmark.errors import SpecError
from kvmark.frontends.yugabyte_apps.flags import App
from kvmark.frontends.yugabyte_apps.words import Asked
from kvmark.spec.quantity import count, listed
from kvmark.spec.run import RunSpec
from kvmark.spec.suggest import refuse_credentials, shown
from kvmark.spec.url import PASSWORD_VARIABLE, SystemUrl
from kvmark.spec.workload import WorkloadSpec

SECOND_NS: Final = 10**9
INTERVAL_NS: Final = 5 * SECOND_NS
"""The original's status line comes every five seconds."""
ENDLESS_NS: Final = 365 * 86_400 * SECOND_NS
"""A run without an end lasts until it is interrupted, or a year."""
_CONNECTIONS: Final = 4
_EMPTY: Final = ("null", "sim")
"""Drivers that hold no values, so that none can be checked."""
_DRIVERS: Final = {"cql": "cql", "redis": "redis"}


def nodes_url(asked: Asked) -> SystemUrl:
    """The system that --nodes names.

    Raises:
        SpecError: it isn't given, or a node isn't host or host:port.
    """
    app = asked.app
    nodes = asked.text("nodes")
    if app is None or nodes is None:
        name = "NAME" if app is None else app.name
        port = 9042 if app is None else app.port
        raise SpecError(f"{name} needs servers: give --nodes 127.0.0.1:{port}, or --system URL")
    address = ",".join(_node(one.strip(), app) for one in nodes.split(","))
    text = f"{app.store}://{address}"
    return SystemUrl(_DRIVERS[app.store], MappingProxyType({"address": address}), text)


def with_flags(url: SystemUrl, asked: Asked) -> SystemUrl:
    """The system with the options that flags stand for; those of a URL are kept."""
    app = asked.app
    if app is None or url.driver not in _DRIVERS.values():
        return url
    options: dict[str, str] = {}
    for flag, option in (("username", "username"), ("with_local_dc", "datacenter")):
        text = asked.text(flag)
        if text is not None:
            options[option] = text
    if asked.has("use_redis_cluster"):
        options["cluster"] = "true"
    options |= _tls(asked)
    if app.store == "cql":
        options |= _cql(asked)
    password = asked.secret("password")
    if password is not None:
        options["password_env"] = PASSWORD_VARIABLE
    merged = MappingProxyType({**options, **url.options})
    return SystemUrl(url.driver, merged, url.text, url.password or password)


def run_of(asked: Asked, workload: WorkloadSpec, system: SystemUrl) -> RunSpec:
    """The run: as long as was asked for, or until the groups have done what they should."""
    limit_ms = asked.whole("cql_read_timeout_ms") or asked.whole("socket_timeout")
    given: dict[str, Any] = {"seed": asked.whole("seed") or 1}
    if limit_ms is not None:
        given["timeout_ns"] = limit_ms * 10**6
    if system.driver in _EMPTY:
        groups = [group.model_copy(update={"check_values": "none"}) for group in workload.groups]
        workload = workload.model_copy(update={"groups": tuple(groups)})
    if system.driver == "cql":
        given["workers"] = _workers(asked)
    return RunSpec(
        workload=workload,
        system=system,
        duration_ns=_duration_ns(asked, workload),
        interval_ns=asked.whole("interval") or INTERVAL_NS,
        load="always" if workload.dataset.loaded else "never",
        settle=False,
        pin=_cores(asked),
        **given,
    )


def _cores(asked: Asked) -> tuple[int, ...]:
    text = asked.text("pin")
    return () if text is None else tuple(listed(text, count))


def _connections(asked: Asked) -> int:
    return asked.whole("concurrent_clients") or _CONNECTIONS


def _workers(asked: Asked) -> int:
    """One for each core, and no more than connections, of which each worker has its own."""
    return min(len(_cores(asked) or os.sched_getaffinity(0)), _connections(asked))


def _duration_ns(asked: Asked, workload: WorkloadSpec) -> int | None:
    seconds = asked.whole("run_time") or 0
    if seconds > 0:
        return seconds * SECOND_NS
    counted = all(group.operations is not None for group in workload.groups)
    return None if counted else ENDLESS_NS


def _node(node: str, app: App) -> str:
    refuse_credentials("--nodes", node, "--username and --password, or a URL behind --system")
    host, colon, port = node.rpartition(":")
    if not colon:
        host, port = node, str(app.port)
    if not host or not (re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 65_536):
        raise SpecError(f"--nodes: {shown(node)} is not host:port, such as 127.0.0.1:{app.port}")
    return f"{host}:{port}"


def _tls(asked: Asked) -> dict[str, str]:
    certificate, key = asked.text("ssl_cert"), asked.text("ssl_key")
    if key is not None and certificate is None:
        raise SpecError("--ssl_key needs --ssl_cert")
    if certificate is None:
        return {}
    if key is None:
        return {"tls": "true", "ca_file": certificate}
    return {"tls": "true", "cert_file": certificate, "key_file": key}


def _cql(asked: Asked) -> dict[str, str]:
    """Consistency as the original has it, and its connections divided among the workers."""
    workers, connections = _workers(asked), _connections(asked)
    options = {
        "consistency": "QUORUM",
        "connections_per_node": str(-(-connections // workers)),
    }
    if asked.has("local_reads"):
        options["read_consistency"] = "ONE"
    connect_ms = asked.whole("cql_connect_timeout_ms")
    if connect_ms is not None:
        options["connect_timeout_ms"] = str(connect_ms)
    return options
