"""Where a run was measured: its machine, and its servers as far as they are known, as one value.

Comparisons, histories and reports take what differs between runs from here. Addresses, names and
folders are no part of it. Nothing of weight is imported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from kvmark.records.model import Manifest

__all__ = ["RunEnvironment"]

_PLAIN: Final = ("processor", "cores", "kernel", "governor")
"""What a machine is known by, beside its memory."""
_MIB: Final = 2**20
_DIGITS_OF_HASH: Final = 12
_NONE: Final = "none"
_UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class RunEnvironment:
    """A run's machine and servers: texts by place. What isn't known has no place."""

    #: The machine that generated the load, such as `host.kernel`.
    host: Mapping[str, str]
    #: The servers and what stands before them, such as `servers.heap`.
    servers: Mapping[str, str]

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        """The environment that a run's manifest describes."""
        return cls(dict(_host(manifest.host)), dict(_servers(manifest.testbed)))

    @property
    def server_words(self) -> str:
        """The servers in a few words; empty where nothing is known of them."""
        told = {place.removeprefix("servers."): text for place, text in self.servers.items()}
        return ", ".join(f"{place} {text}" for place, text in told.items() if text != _NONE)


def _host(host: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _PLAIN:
        yield f"host.{name}", str(host.get(name) or _UNKNOWN)
    memory = host.get("memory_bytes")
    yield "host.memory", _size(memory) if isinstance(memory, int) else _UNKNOWN
    for name, value in host.get("sysctl", {}).items():
        yield f"host.{name}", str(value)


def _servers(testbed: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Nothing where the system lives in the engine's process or others started its servers."""
    if not testbed or not testbed.get("observed"):
        return
    is_proxy = testbed.get("system") == "proxy"
    system = testbed.get("behind") or {} if is_proxy else testbed
    if is_proxy:
        yield from _proxy(testbed)
    else:
        yield "servers.proxy", _NONE
    if not is_proxy or system.get("observed"):
        yield from _nodes(system)


def _proxy(testbed: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "servers.proxy", str(testbed.get("version") or testbed.get("kind"))
    for name in ("build", "threads"):
        if name in testbed:
            yield f"servers.proxy.{name}", str(testbed[name] or _NONE)
    if testbed.get("fingerprint"):
        yield "servers.proxy.configuration", str(testbed["fingerprint"])[:_DIGITS_OF_HASH]
    yield "servers.proxy.cores", _cores(testbed.get("nodes") or ())


def _nodes(system: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    nodes: Sequence[Mapping[str, Any]] = system.get("nodes") or ()
    roles = Counter(str(node.get("role")) for node in nodes)
    yield "servers.nodes", ", ".join(f"{count} {role}" for role, count in sorted(roles.items()))
    yield "servers.cores", _cores(nodes)
    if "network" in system:
        yield "servers.network", "of its own" if system["network"] else _NONE
    for name in ("heap", "memory"):
        if f"{name}_bytes" in system:
            value = system[f"{name}_bytes"]
            yield f"servers.{name}", _NONE if value is None else _size(value)
    if system.get("java"):
        yield "servers.java", str(system["java"])


def _cores(nodes: Sequence[Mapping[str, Any]]) -> str:
    """The cores that servers are bound to: once where they share them, else node by node."""
    bound = {
        str(node.get("name")): "+".join(map(str, node.get("cores") or ())) or "any"
        for node in nodes
    }
    if len(set(bound.values())) <= 1:
        return next(iter(bound.values()), "any")
    return ", ".join(f"{name} {cores}" for name, cores in bound.items())


def _size(size_bytes: int) -> str:
    return f"{size_bytes / _MIB:.10g} MiB"
