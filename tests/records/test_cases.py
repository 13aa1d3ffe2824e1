"""The case of a run, from its plan without seeds, and the environment of a run."""

from __future__ import annotations

import json
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest

from kvmark.records import Case, Manifest, block_of, by_case, repetition_of
from kvmark.records.case import RunEnvironment
from kvmark.records.files import FORMAT
from kvmark.testbed.host import describe_host
from plans import plan_of

OPTIONS = {"records": 1000, "clients": 8, "duration_ns": 10, "verify": True}
PLAN: dict[str, Any] = json.loads(plan_of("ycsb/a", "redis://h:6379", **OPTIONS).to_json())
Made = SimpleNamespace
"""A run with its manifest only."""
OPEN = {"process": "poisson", "rates": [{"at_ns": 0, "rate": 5000.0}]}


def manifest(plan: dict[str, Any], store: str = "Redis", **fields: Any) -> Manifest:
    """A manifest without phases."""
    engine = {
        "started_wall_ns": 0, "system": {"system": store, "version": "1"}, "capabilities": None,
        "clock": None, "phases": (), "totals": (),
    }  # fmt: skip
    document = {"format": FORMAT, "id": "x", "created": "", "closed_by": "engine", **fields}
    return Manifest.model_validate({**document, "plan": plan, "engine": engine})


def made(store: str = "Redis", spec: dict[str, Any] | None = None, **changes: Any) -> Made:
    """A run whose plan differs in these places, with dots as `__`."""
    plan = deepcopy(PLAN)
    for place, value in changes.items():
        *path, last = (int(part) if part.isdigit() else part for part in place.split("__"))
        part: Any = plan
        for step in path:
            part = part[step]
        part[last] = value
    return SimpleNamespace(manifest=manifest(plan, store, spec=spec or {}))


def titles(*runs: Made, across_systems: bool = False) -> list[str]:
    return [case.title for case in by_case(runs, across_systems=across_systems)]


def without_load() -> Made:
    run = made()
    del run.manifest.plan["phases"][:2], run.manifest.plan["groups"][1]
    run.manifest.plan["phases"][1]["groups"][0]["group"] = 1
    return run


@pytest.mark.parametrize(
    "same",
    [
        made(interval_ns=5 * 10**6),
        made(description="In other words."),
        made(seeds={"keys": 2}),
        made(system__options={"address": "10.0.0.1:7000", "seed": 4}),
        made(phases__0__only_if_missing=False),
        made(share={"index": 0, "of": 1}),
        made(spec={"ab": {"name": "x", "side": "base", "block": 3}}),
        without_load(),
    ],
)
def test_seeds_places_and_loading_belong_to_no_case(same: Made) -> None:
    assert titles(made(), same) == ["A on Redis with 1,000 records"]


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (made(groups__0__clients=16), "16 clients"),
        (made(name="mine/a"), "mine/a on Redis with 1,000 records"),
        (made(groups__0__arrival=OPEN), "A on Redis with 1,000 records at 5,000 ops/s"),
        (made(dataset__count=2000), "A on Redis with 2,000 records"),
        (made(phases__2__duration_ns=20), "duration_ns 20"),
        (made(system__options={"consistency": "QUORUM"}), "consistency QUORUM"),
        (made(store="Valkey"), "A on Valkey with 1,000 records"),
        (made(spec={"study": {"id": "s", "repetition": 0, "levels": {"nodes": "3"}}}), "nodes 3"),
        (made(spec={"faults": [{"at_ns": 1, "act": "kill"}]}), "act kill"),
        (made(groups__0__mix=[{"kind": "read", "weight": 0.9}]), "weight 0.9"),
    ],
)
def test_any_other_difference_makes_another_case_with_its_name(other: Made, name: str) -> None:
    found = by_case([made(), other, made()])
    assert [len(runs) for runs in found.values()] == [2, 1]
    assert name in list(found)[1].title


def test_cases_across_systems_have_no_system_in_their_names() -> None:
    runs = [made(), made(store="RocksDB", system__options={"wal": "on"})]
    assert titles(*runs, across_systems=True) == ["A with 1,000 records"]
    levels = [{"study": {"id": "s", "repetition": 0, "levels": {"store": one}}} for one in "ab"]
    runs = [made(spec=spec) for spec in levels]
    assert titles(*runs, across_systems=True) == ["A with 1,000 records"]


def test_records_of_earlier_steps_of_a_sequence_make_no_other_case() -> None:
    sequence = {"sequence": {"records": 1000, "repetition": 0}}
    later = {"sequence": {"records": 1000, "repetition": 1}}
    runs = [made(spec=sequence), made(spec=later, dataset__count=1063)]
    assert titles(*runs) == ["A on Redis with 1,000 records"]
    assert len(titles(*runs, made())) == 2


def test_cases_with_many_differences_have_distinct_names() -> None:
    runs = [made(**{f"groups__0__more{n}": value for n in range(7)}) for value in range(3)]
    assert len(set(titles(*runs))) == 3


def test_a_case_of_a_study_is_named_by_its_levels() -> None:
    assert Case.of_levels({"nodes": "3", "clients": "8"}).title == "nodes 3, clients 8"
    assert Case.of_levels({}).title == "the only case"


@pytest.mark.parametrize(
    ("spec", "block", "repetition"),
    [
        ({"ab": {"name": "ab:1", "side": "base", "block": 2}}, ("ab:1", 2), 2),
        ({"capacity": {"name": "capacity:1", "number": 4, "rate": 10}}, ("capacity:1", 4), 4),
        ({"recover": {"name": "recover:1", "number": 2}}, ("recover:1", 2), 2),
        ({"study": {"id": "s", "repetition": 1}}, ("s", 1), 1),
        ({"sequence": {"records": 10, "repetition": 3}}, None, 3),
        ({}, None, None),
    ],
)
def test_a_run_has_its_block_and_repetition(
    spec: dict[str, Any], block: tuple[str, int] | None, repetition: int | None
) -> None:
    manifest = made(spec=spec).manifest
    found = block_of(manifest)
    assert (found and (found.experiment, found.number)) == block
    assert repetition_of(manifest) == repetition


CASSANDRA: dict[str, Any] = {
    "observed": True, "testbed": "cassandra", "system": "cassandra", "version": "5.0.9",
    "network": None, "java": "17.0.15", "heap_bytes": 2**30, "memory_bytes": None,
    "nodes": [
        {"name": "node-1", "role": "peer", "address": "127.0.0.1:9042", "cores": [0, 1]},
        {"name": "node-2", "role": "peer", "address": "127.0.0.2:9042", "cores": [0, 1]},
    ],
}  # fmt: skip
DATASET = {"name": "loaded", "id": "a"}
PROXY: dict[str, Any] = {
    "observed": True, "testbed": "haproxy", "system": "proxy", "version": "haproxy 2.6.12",
    "kind": "haproxy", "build": "", "threads": 1, "fingerprint": "20faaff87007706f",
    "nodes": [{"name": "haproxy", "role": "proxy", "address": "127.0.0.1:26873", "cores": []}],
    "behind": CASSANDRA,
}  # fmt: skip
HOST: dict[str, Any] = {
    "processor": "AMD EPYC", "cores": 2, "memory_bytes": 2**34, "kernel": "6.1", "governor": "",
    "sysctl": {"vm.swappiness": "60"},
}  # fmt: skip


def run_on(testbed: dict[str, Any] | None) -> Manifest:
    return manifest(PLAN, testbed=testbed, host=HOST)


def changed(testbed: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**deepcopy(testbed), **changes}


def bound(testbed: dict[str, Any], *cores: int) -> dict[str, Any]:
    nodes = [{**node, "cores": list(cores)} for node in testbed["nodes"]]
    return changed(testbed, nodes=nodes)


@pytest.mark.parametrize(
    ("before", "after", "places"),
    [
        (CASSANDRA, changed(CASSANDRA, heap_bytes=2**33), {"servers.heap"}),
        (CASSANDRA, changed(CASSANDRA, memory_bytes=2**32), {"servers.memory"}),
        (CASSANDRA, changed(CASSANDRA, java="21.0.1"), {"servers.java"}),
        (CASSANDRA, changed(CASSANDRA, network="198.18.7.0/24"), {"servers.network"}),
        (CASSANDRA, bound(CASSANDRA, 0), {"servers.cores"}),
        (
            changed(CASSANDRA, dataset=None),
            changed(CASSANDRA, dataset=DATASET),
            {"servers.dataset"},
        ),
        (
            changed(CASSANDRA, dataset=DATASET),
            changed(CASSANDRA, dataset={**DATASET, "id": "b"}),
            {"servers.dataset"},
        ),
        (CASSANDRA, changed(CASSANDRA, dataset=DATASET), set()),
        (CASSANDRA, changed(CASSANDRA, nodes=CASSANDRA["nodes"][:1]), {"servers.nodes"}),
        (CASSANDRA, PROXY, {"servers.proxy"}),
        (PROXY, changed(PROXY, threads=4), {"servers.proxy.threads"}),
        (PROXY, changed(PROXY, fingerprint="f" * 64), {"servers.proxy.configuration"}),
        (PROXY, bound(PROXY, 3), {"servers.proxy.cores"}),
        (PROXY, changed(PROXY, behind=changed(CASSANDRA, heap_bytes=2**33)), {"servers.heap"}),
    ],
)
def test_settings_of_servers_are_part_of_the_environment(
    before: dict[str, Any], after: dict[str, Any], places: set[str]
) -> None:
    one, other = run_on(before), run_on(after)
    first, second = RunEnvironment.of(one).servers, RunEnvironment.of(other).servers
    common = first.keys() & second.keys()
    assert {place for place in common if first[place] != second[place]} == places


def test_names_and_addresses_are_no_part_of_the_environment() -> None:
    nodes = [{**node, "address": f"{node['name']}:9999"} for node in CASSANDRA["nodes"]]
    other = {**CASSANDRA, "testbed": "another", "nodes": nodes}
    assert RunEnvironment.of(run_on(other)) == RunEnvironment.of(run_on(CASSANDRA))
    nets = [changed(CASSANDRA, network=f"198.18.{number}.0/24") for number in (7, 8)]
    assert len({RunEnvironment.of(run_on(one)).server_words for one in nets}) == 1
    # Servers that kvmark didn't start are unknown.
    for testbed in (None, {}, {"observed": False, "reason": "far away"}):
        assert RunEnvironment.of(run_on(testbed)).servers == {}


def test_the_environment_has_settings_of_the_kernel() -> None:
    host = RunEnvironment.of(run_on(None)).host
    assert host["host.memory"] == "16384 MiB"
    assert host["host.vm.swappiness"] == "60"
    assert host["host.governor"] == "unknown"
    settings = describe_host()["sysctl"]
    assert settings["net.core.somaxconn"].isdecimal()
    assert settings["vm.swappiness"].isdecimal()
