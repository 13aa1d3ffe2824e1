"""The case, the block and the environment of a run.

Repetitions of a case have the same plan, without seeds and the loading of records, and the same
levels of the study. Tables, histories, comparisons and studies group runs by case. Runs of one
block share all that differs from block to block, so that their ratio is more precise than their
figures. The environment is the machine, and the servers as far as they are known; addresses, names
and folders don't belong to it. No slow import is needed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from kvmark.records.model import Manifest
    from kvmark.records.run import Run

#: Options for places: they belong to no case.
PLACES: Final = frozenset({
    "address", "bind", "bind-source-addr", "cluster-announce-port", "cluster-config-file",
    "cluster-port", "create", "dir", "logfile", "path", "pidfile", "port", "proc-title-template",
    "seed", "tls-ca-cert-file", "tls-cert-file", "tls-key-file", "tls-port", "unixsocket",
})  # fmt: skip
#: Randomness, the share of one machine, the resolution of records, the stall limit and texts.
#: Options of the system are compared one by one.
IGNORED_PLAN_FIELDS: Final = (
    "seeds", "share", "format", "system", "interval_ns", "verify_memory_bytes", "stall_limit_ns",
    "description",
)  # fmt: skip
_LOADING: Final = ("load", "settle")
_RECORDS: Final = ("dataset.count", "dataset.full_at", "keys.count", "operations")
#: Factors of studies, and the place in a sequence, that name systems.
_SYSTEM_FACTORS: Final = {"levels.system", "levels.store", "levels.database", "sequence.system"}
_MOST_DIFFERENCES: Final = 3

#: The places in a spec: the experiment's part, its name in it, the number of the block.
_EXPERIMENTS: Final = (
    ("ab", "name", "block"),
    ("study", "id", "repetition"),
    ("capacity", "name", "number"),
    ("recover", "name", "number"),
    ("sequence", None, "repetition"),
)

_HOST_FIELDS: Final = ("processor", "cores", "kernel", "governor")
"""The fields of a machine besides its memory."""
_MIB: Final = 2**20
_DIGITS_OF_HASH: Final = 12
_NONE: Final = "none"
_UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Case:
    """A case by its properties. The title omits empty ones, 0 and none."""

    workload: str
    store: str
    #: Records at the start; for a run alone those that exist or are inserted.
    records: int
    #: Operations per second; none in the closed model.
    target_rate: float | None = None
    #: The difference from cases that are equal in all of this, as text.
    apart: str = ""

    @classmethod
    def of_levels(cls, levels: Mapping[str, str]) -> Self:
        """A study's case, from the labels of its levels by factor."""
        labels = ", ".join(f"{name} {label}" for name, label in levels.items())
        return cls("", "", 0, apart=labels or "the only case")

    @property
    def title(self) -> str:
        """The case as text."""
        subject = " on ".join(part for part in (self.workload, self.store) if part)
        records = f" with {self.records:,} records" if self.records else ""
        rate = "" if self.target_rate is None else f" at {self.target_rate:,.10g} ops/s"
        return ", ".join(part for part in (f"{subject}{records}{rate}".strip(), self.apart) if part)


def by_case(runs: Iterable[Run], *, across_systems: bool = False) -> dict[Case, list[Run]]:
    """The runs of each case, in the order of the first runs.

    With ``across_systems``, cases that differ only in the system are merged, and their names have
    no system.
    """
    groups: dict[str, list[Run]] = {}
    places: dict[str, dict[str, str]] = {}
    for run in runs:
        values = described(run.manifest)
        if across_systems:
            system = {place for place in values if place.startswith("system.")} | _SYSTEM_FACTORS
            values = {place: text for place, text in values.items() if place not in system}
        key = sha256(json.dumps(sorted(values.items())).encode()).hexdigest()
        groups.setdefault(key, []).append(run)
        places[key] = values
    keys_of: dict[Case, list[str]] = {}
    for key, group in groups.items():
        case = _case(group[0].manifest, across_systems=across_systems)
        keys_of.setdefault(case, []).append(key)
    cases = {
        key: replace(case, apart=text)
        for case, keys in keys_of.items()
        for key, text in zip(keys, _differences(keys, [places[key] for key in keys]), strict=True)
    }
    return {cases[key]: group for key, group in groups.items()}


def described(manifest: Manifest) -> dict[str, str]:
    """Everything that distinguishes a run's case from others, by place."""
    plan = {key: part for key, part in manifest.plan.items() if key not in IGNORED_PLAN_FIELDS}
    places = dict(_flat({**plan, **_without_loading(plan)}, ""))
    # The place of a file's copy, whose content has a digest.
    places = {place: text for place, text in places.items() if not place.endswith("lines.path")}
    sequence = manifest.spec.get("sequence")
    if sequence:
        # The number of records depends on earlier steps, which are random.
        places = {place: text for place, text in places.items() if not place.endswith(_RECORDS)}
        places["sequence.records"] = str(sequence.get("records"))
        if "system" in sequence:
            places["sequence.system"] = str(sequence["system"])
    levels = manifest.study.get("levels", {})
    places |= dict(_flat({"levels": levels, "faults": manifest.spec.get("faults", ())}, ""))
    options = manifest.plan.get("system", {}).get("options", {})
    places["system.name"] = manifest.engine.system.system
    for name, value in options.items():
        if name not in PLACES:
            places[f"system.{name}"] = str(value)
    return places


def _case(manifest: Manifest, *, across_systems: bool) -> Case:
    plan = manifest.plan
    # Workloads of YCSB are named by the letter or word after their folder.
    name = str(plan.get("name", ""))
    step = name.removeprefix("ycsb/")
    measured = [
        active
        for phase in plan.get("phases", ())
        if phase.get("name") == "measure"
        for active in phase.get("groups", ())
    ]
    existing = int(plan.get("dataset", {}).get("count", 0))
    inserted = sum(active.get("operations") or 0 for active in measured)
    records = manifest.spec.get("sequence", {}).get("records", existing or inserted)
    arrivals = [plan.get("groups", ())[active["group"]].get("arrival", {}) for active in measured]
    rates = [arrival["rates"][-1]["rate"] for arrival in arrivals if arrival.get("rates")]
    return Case(
        workload=step.upper() if step != name and len(step) == 1 else step,
        store="" if across_systems else manifest.engine.system.system,
        records=int(records),
        target_rate=float(sum(rates)) if rates else None,
    )


def _without_loading(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Phases and groups without those that only load records."""
    groups, phases = plan.get("groups", ()), plan.get("phases", ())
    rest = [phase for phase in phases if phase.get("name") not in _LOADING]
    if not any(phase.get("name") == "measure" for phase in rest):
        return {}
    active = {part["group"] for phase in rest for part in phase.get("groups", ())}
    loading = {part["group"] for phase in phases for part in phase.get("groups", ())} - active
    # Phases refer to groups by name here, because the index depends on the load's group.
    named = [
        {**phase, "groups": [{**part, "group": groups[part["group"]]["name"]} for part in parts]}
        for phase in rest
        for parts in [phase.get("groups", ())]
    ]
    others = [group for index, group in enumerate(groups) if index not in loading]
    return {"groups": others, "phases": named}


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


def _differences(keys: Sequence[str], described: Sequence[Mapping[str, str]]) -> list[str]:
    """The differences of each from the others, as distinct texts."""
    places = dict.fromkeys(place for values in described for place in values)
    differing = [place for place in places if len({values.get(place) for values in described}) > 1]
    texts = [
        [_difference(place, values[place]) for place in differing if place in values]
        for values in described
    ]
    short = [", ".join(parts[:_MOST_DIFFERENCES]) for parts in texts]
    return [
        text
        if len(parts) <= _MOST_DIFFERENCES and short.count(text) == 1
        else f"{text}, plan {key[:8]}"
        for key, parts, text in zip(keys, texts, short, strict=True)
    ]


def _difference(place: str, text: str) -> str:
    if place.endswith(".clients"):
        return f"{text} {'client' if text == '1' else 'clients'}"
    if place == "name":
        return text
    if place == "sequence.records":
        return "in a sequence"
    if place == "sequence.system":
        return text
    for beginning in ("groups[0].", "system.", "levels."):
        place = place.removeprefix(beginning)
    return f"{place} {text}"


@dataclass(frozen=True, slots=True)
class Block:
    """A block by its number, from 0."""

    experiment: str
    number: int


def block_of(manifest: Manifest) -> Block | None:
    """The block of a run; none for a run outside an experiment with blocks."""
    for part, name, number in _EXPERIMENTS:
        values = experiment(manifest, part)
        if name is not None and values.get(name) is not None and values.get(number) is not None:
            return Block(str(values[name]), int(values[number]))
    return None


def repetition_of(manifest: Manifest) -> int | None:
    """The number of a repetition in a command, a study or a comparison; none for a single run."""
    for part, _, number in _EXPERIMENTS:
        repetition = experiment(manifest, part).get(number)
        if repetition is not None:
            return int(repetition)
    return None


def experiment(manifest: Manifest, part: str) -> Mapping[str, Any]:
    """The spec of the run's experiment of this kind; empty without one."""
    values = manifest.spec.get(part)
    return values if isinstance(values, Mapping) else {}


@dataclass(frozen=True, slots=True)
class RunEnvironment:
    """A run's machine and servers: texts by place. Unknown properties are omitted."""

    #: The machine that generated the load, such as `host.kernel`.
    host: Mapping[str, str]
    #: The servers and a proxy in front of them, such as `servers.heap`.
    servers: Mapping[str, str]

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        """The environment in a run's manifest."""
        return cls(dict(_host(manifest.host)), dict(_servers(manifest.testbed)))

    @property
    def server_words(self) -> str:
        """The servers as a short text; empty if they are unknown."""
        values = {place.removeprefix("servers."): text for place, text in self.servers.items()}
        return ", ".join(f"{place} {text}" for place, text in values.items() if text != _NONE)


def _host(host: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _HOST_FIELDS:
        yield f"host.{name}", str(host.get(name) or _UNKNOWN)
    memory = host.get("memory_bytes")
    yield "host.memory", _size(memory) if isinstance(memory, int) else _UNKNOWN
    for name, value in host.get("sysctl", {}).items():
        yield f"host.{name}", str(value)


def _servers(testbed: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Empty for an embedded system, and for servers that weren't started by kvmark."""
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
        yield "servers.network", "dedicated" if system["network"] else _NONE
    for name in ("heap", "memory"):
        if f"{name}_bytes" in system:
            value = system[f"{name}_bytes"]
            yield f"servers.{name}", _NONE if value is None else _size(value)
    if system.get("java"):
        yield "servers.java", str(system["java"])
    if "dataset" in system:
        dataset = system["dataset"]
        name = dataset and f"{dataset['name']} {dataset['id'][:_DIGITS_OF_HASH]}"
        yield "servers.dataset", name or _NONE


def _cores(nodes: Sequence[Mapping[str, Any]]) -> str:
    """The cores of servers: once if they share them, else node by node."""
    bound = {
        str(node.get("name")): "+".join(map(str, node.get("cores") or ())) or "any"
        for node in nodes
    }
    if len(set(bound.values())) <= 1:
        return next(iter(bound.values()), "any")
    return ", ".join(f"{name} {cores}" for name, cores in bound.items())


def _size(size_bytes: int) -> str:
    return f"{size_bytes / _MIB:.10g} MiB"
