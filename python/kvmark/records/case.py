"""Which case and block a run belongs to, and where it was measured.

A case is what repetitions have in common: their plan without seeds and without what only brought
the records there, and the levels of the study that they were made for. Whoever puts runs together
asks here: tables, histories, comparisons and studies. Runs of one block were made together: they
share what differs from block to block, so that their ratio is known better than each of them. The
environment is the machine, and the servers as far as they are known; addresses, names and folders
are no part of it. Nothing of weight is imported.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from kvmark.records.model import Manifest

#: Options that say where something stands: no case is about them.
PLACES: Final = frozenset({
    "address", "bind", "bind-source-addr", "cluster-announce-port", "cluster-config-file",
    "cluster-port", "create", "dir", "logfile", "path", "pidfile", "port", "proc-title-template",
    "seed", "tls-ca-cert-file", "tls-cert-file", "tls-key-file", "tls-port", "unixsocket",
})  # fmt: skip
#: Chance, the part of one machine, how finely it was recorded, and when it would have been given
#: up. The system's options are looked
#: at one by one.
_OF_NO_MATTER: Final = (
    "seeds", "share", "format", "system", "interval_ns", "verify_memory_bytes", "stall_limit_ns",
)  # fmt: skip
_LOADING: Final = ("load", "settle")
_RECORDS: Final = ("dataset.count", "dataset.full_at", "keys.count", "operations")
#: Factors of studies that name systems.
_SYSTEM_FACTORS: Final = ("levels.system", "levels.store", "levels.database")
_MOST_TOLD: Final = 3

#: Where a spec says it: the experiment's part, its name in it, the number of the block.
_NUMBERED: Final = (
    ("ab", "name", "block"),
    ("study", "id", "repetition"),
    ("capacity", "name", "number"),
    ("sequence", None, "repetition"),
)

_PLAIN: Final = ("processor", "cores", "kernel", "governor")
"""What a machine is known by, beside its memory."""
_MIB: Final = 2**20
_DIGITS_OF_HASH: Final = 12
_NONE: Final = "none"
_UNKNOWN: Final = "unknown"


class _HasManifest(Protocol):
    @property
    def manifest(self) -> Manifest: ...


R = TypeVar("R", bound=_HasManifest)


@dataclass(frozen=True, slots=True)
class Case:
    """A case as it is called. What is empty, 0 or none isn't said."""

    workload: str
    store: str
    #: Those that it began with; for a run alone those that are there or inserted.
    records: int
    #: Operations per second; none when clients go as fast as the store lets them.
    target_rate: float | None = None
    #: What tells it from those beside it which are alike in all of this, in words.
    apart: str = ""

    @classmethod
    def of_levels(cls, levels: Mapping[str, str]) -> Self:
        """A study's case, from the labels of its levels by factor."""
        told = ", ".join(f"{name} {label}" for name, label in levels.items())
        return cls("", "", 0, apart=told or "the only case")

    @property
    def title(self) -> str:
        """The case in words."""
        what = " on ".join(part for part in (self.workload, self.store) if part)
        many = f" with {self.records:,} records" if self.records else ""
        rate = "" if self.target_rate is None else f" at {self.target_rate:,.10g} ops/s"
        return ", ".join(part for part in (f"{what}{many}{rate}".strip(), self.apart) if part)


def by_case(runs: Iterable[R], *, across_systems: bool = False) -> dict[Case, list[R]]:
    """The runs of each case, in the order of the first runs.

    With ``across_systems``, cases that differ only in the system are one, and no system is in
    their names.
    """
    together: dict[str, list[R]] = {}
    places: dict[str, dict[str, str]] = {}
    for run in runs:
        known = described(run.manifest)
        if across_systems:
            known = {place: text for place, text in known.items() if not _is_of_system(place)}
        key = sha256(json.dumps(sorted(known.items())).encode()).hexdigest()
        together.setdefault(key, []).append(run)
        places[key] = known
    alike: dict[Case, list[str]] = {}
    for key, same in together.items():
        alike.setdefault(_named(same[0].manifest, across_systems=across_systems), []).append(key)
    apart = {
        key: replace(case, apart=words)
        for case, keys in alike.items()
        for key, words in zip(keys, _apart(keys, [places[key] for key in keys]), strict=True)
    }
    return {apart[key]: same for key, same in together.items()}


def described(manifest: Manifest) -> dict[str, str]:
    """Everything that makes a run this case and no other, by the place where it stands."""
    plan = {key: part for key, part in manifest.plan.items() if key not in _OF_NO_MATTER}
    places = dict(_flat({**plan, **_measuring(plan)}, ""))
    sequence = manifest.spec.get("sequence")
    if sequence:
        # Steps find what those before them left, which chance decides.
        places = {place: text for place, text in places.items() if not place.endswith(_RECORDS)}
        places["sequence.records"] = str(sequence.get("records"))
    levels = manifest.study.get("levels", {})
    places |= dict(_flat({"levels": levels, "faults": manifest.spec.get("faults", ())}, ""))
    options = manifest.plan.get("system", {}).get("options", {})
    places["system.name"] = manifest.engine.system.system
    told = {f"system.{name}": str(value) for name, value in options.items() if name not in PLACES}
    return {**places, **told}


def _is_of_system(place: str) -> bool:
    return place.startswith("system.") or place in _SYSTEM_FACTORS


def _named(manifest: Manifest, *, across_systems: bool) -> Case:
    return Case(
        workload=_workload(str(manifest.plan.get("name", ""))),
        store="" if across_systems else manifest.engine.system.system,
        records=_records(manifest),
        target_rate=_target_rate(manifest.plan),
    )


def _workload(name: str) -> str:
    """YCSB's own go by the letter or word behind their folder, others by their whole name."""
    step = name.removeprefix("ycsb/")
    return step.upper() if step != name and len(step) == 1 else step


def _records(manifest: Manifest) -> int:
    sequence = manifest.spec.get("sequence", {})
    if "records" in sequence:
        return int(sequence["records"])
    plan = manifest.plan
    there = int(plan.get("dataset", {}).get("count", 0))
    return there or sum(active.get("operations") or 0 for active in _measured(plan))


def _target_rate(plan: Mapping[str, Any]) -> float | None:
    groups = plan.get("groups", ())
    arrivals = [groups[active["group"]].get("arrival", {}) for active in _measured(plan)]
    rates = [arrival["rates"][-1]["rate"] for arrival in arrivals if arrival.get("rates")]
    return float(sum(rates)) if rates else None


def _measured(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    phases = [phase for phase in plan.get("phases", ()) if phase.get("name") == "measure"]
    return [active for phase in phases for active in phase.get("groups", ())]


def _measuring(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Phases and groups without those that only bring the records there."""
    groups, phases = plan.get("groups", ()), plan.get("phases", ())
    kept = [phase for phase in phases if phase.get("name") not in _LOADING]
    if not any(phase.get("name") == "measure" for phase in kept):
        return {}
    active = {part["group"] for phase in kept for part in phase.get("groups", ())}
    loading = {part["group"] for phase in phases for part in phase.get("groups", ())} - active
    # Groups are known by name, because a load has one among them.
    named = [
        {**phase, "groups": [{**part, "group": _name(groups, part["group"])} for part in parts]}
        for phase in kept
        for parts in [phase.get("groups", ())]
    ]
    rest = [group for index, group in enumerate(groups) if index not in loading]
    return {"groups": rest, "phases": named}


def _name(groups: Sequence[Mapping[str, Any]], index: int) -> str:
    return str(groups[index].get("name", index)) if index < len(groups) else str(index)


def _flat(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Every plain value with its place."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _flat(part, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from _flat(part, f"{place}[{number}]")
    elif value is not None:
        yield place, str(value)


def _apart(keys: Sequence[str], described: Sequence[Mapping[str, str]]) -> list[str]:
    """What each has otherwise than another of them, in words that no other has."""
    places = dict.fromkeys(place for one in described for place in one)
    differing = [place for place in places if len({one.get(place) for one in described}) > 1]
    told = [[_word(place, one[place]) for place in differing if place in one] for one in described]
    short = [", ".join(words[:_MOST_TOLD]) for words in told]
    return [
        one if len(words) <= _MOST_TOLD and short.count(one) == 1 else f"{one}, plan {key[:8]}"
        for key, words, one in zip(keys, told, short, strict=True)
    ]


def _word(place: str, text: str) -> str:
    if place.endswith(".clients"):
        return f"{text} {'client' if text == '1' else 'clients'}"
    if place == "name":
        return text
    if place == "sequence.records":
        return "in a sequence"
    for beginning in ("groups[0].", "system.", "levels."):
        place = place.removeprefix(beginning)
    return f"{place} {text}"


@dataclass(frozen=True, slots=True)
class Block:
    """A block by its number, from 0."""

    experiment: str
    number: int


def block_of(manifest: Manifest) -> Block | None:
    """The block that a run is in; none where it was made alone."""
    for part, name, number in _NUMBERED:
        told = experiment(manifest, part)
        if name is not None and told.get(name) is not None and told.get(number) is not None:
            return Block(str(told[name]), int(told[number]))
    return None


def repetition_of(manifest: Manifest) -> int | None:
    """Which repetition of a command, a study or a comparison a run is; none where it is alone."""
    for part, _, number in _NUMBERED:
        told = experiment(manifest, part).get(number)
        if told is not None:
            return int(told)
    return None


def experiment(manifest: Manifest, part: str) -> Mapping[str, Any]:
    """What the spec says of the experiment that a run is for; empty where it is for none."""
    told = manifest.spec.get(part)
    return told if isinstance(told, Mapping) else {}


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
