"""The workload and the command with which kvmark puts the load that a tap observed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from ruamel.yaml import YAML

from kvmark import catalog
from kvmark.analysis.audit.observed import ObservedLoad
from kvmark.errors import UsageError
from kvmark.learn import drawn
from kvmark.learn.learning import fit_sizes
from kvmark.spec.url import SystemUrl
from kvmark.spec.yaml_file import yaml_text
from kvmark.trace.folder import Trace

_STATEMENTS: Final = {
    "read": "READ", "update": "UPDATE", "insert": "UPDATE", "read_modify_write": "UPDATE",
    "delete": "DELETE",
}  # fmt: skip
_OPEN_CLIENTS: Final = 256
_PREFIX: Final = "key:"


@dataclass(frozen=True, slots=True)
class Counterpart:
    """A workload's file, and the options of `kvmark run` after its name."""

    text: str
    options: tuple[str, ...]


def counterpart(
    load: ObservedLoad, trace: Trace, system: SystemUrl, name: str, records: int | None
) -> Counterpart | None:
    """The load as a workload; None if none of its commands has a counterpart.

    `records` is the announced number of keys, if any.
    """
    weights: dict[str, float] = {}
    for one in load.answer.kinds:
        if statement := _STATEMENTS.get(one.name):
            weights[statement] = weights.get(statement, 0.0) + one.share
    ready = f"replay/{system.driver}"
    if not weights or ready not in catalog.names():
        return None
    base: dict[str, Any] = YAML(typ="safe", pure=True).load(catalog.text(ready))
    depth, pace = load.connections.pipeline, load.pace
    records = records or round(load.sent.population or load.sent.keys)
    text = yaml_text({
        "name": name,
        "description": f"The load of {name} in an audit.",
        "dataset": {
            "records": max(1, records),
            "key": {
                "prefix": _PREFIX,
                "order": "ordered",
                "zero_padding": max(1, (load.sent.key_bytes or 0) - len(_PREFIX)),
            },
            "fields": {"count": 1, "length": _length(trace)},
        },
        "arguments": {"value": base["arguments"]["value"]},
        **_statements(base, weights, depth),
        "groups": [{
            "name": "clients",
            "mix": {name: float(f"{weight:.5g}") for name, weight in weights.items()},
            "keys": _keys(load),
        }],
    })  # fmt: skip
    clients = load.connections.clients or load.connections.at_once
    options = ["--system", str(system), "--duration", f"{max(1, round(load.answer.span_s))}s"]
    if pace.model != "closed":
        options += ["--rate", f"{max(1, round(load.sent.rate / depth))}"]
        clients = clients if pace.model == "paced" else max(clients, _OPEN_CLIENTS)
    return Counterpart(text, (*options, "--clients", str(clients)))


def _statements(
    base: Mapping[str, Any], weights: Mapping[str, float], depth: int
) -> dict[str, Any]:
    """The system's statements, as pipelines of a depth, and those that load and look."""
    plain = {name: {**base["statements"][name]} for name in ("READ", "UPDATE", *weights)}
    for one in plain.values():
        one.pop("expect", None)
    if depth == 1:
        return {"statements": plain, "load": "UPDATE", "probe": "READ"}
    piped = {name: {**plain[name], "commands": depth} for name in weights}
    single = {"LOAD": plain["UPDATE"], "LOOK": plain["READ"]}
    return {"statements": {**piped, **single}, "load": "LOAD", "probe": "LOOK"}


def _length(trace: Trace) -> dict[str, Any] | int:
    """The sizes of values; those of the workload's default for a short trace."""
    with suppress(UsageError):
        sizes = drawn.of_trace(trace).sizes
        if (sizes > 0).any():
            return fit_sizes(sizes[sizes > 0]).law
    return 100


def _keys(load: ObservedLoad) -> dict[str, Any]:
    population, zipf = load.answer.population, load.answer.popularity
    if population is not None and population.spread == "uneven" and zipf is not None:
        return {"distribution": "zipfian", "theta": float(f"{max(zipf.theta, 0.01):.3g}")}
    in_turn = population is not None and population.spread == "in turn"
    return {"distribution": "sequential" if in_turn else "uniform"}
