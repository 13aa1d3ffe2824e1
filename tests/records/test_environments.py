"""Where a run was measured, as one value, and what differs between two of them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from kvmark.records import Manifest
from kvmark.records.case import RunEnvironment
from kvmark.records.files import FORMAT
from kvmark.testbed.host import describe_host

CASSANDRA: dict[str, Any] = {
    "observed": True, "testbed": "cassandra", "system": "cassandra", "version": "5.0.9",
    "network": None, "java": "17.0.15", "heap_bytes": 2**30, "memory_bytes": None,
    "nodes": [
        {"name": "node-1", "role": "peer", "address": "127.0.0.1:9042", "cores": [0, 1]},
        {"name": "node-2", "role": "peer", "address": "127.0.0.2:9042", "cores": [0, 1]},
    ],
}  # fmt: skip
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


def manifest(testbed: dict[str, Any] | None, host: dict[str, Any] = HOST) -> Manifest:
    engine = {
        "started_wall_ns": 0, "system": {"system": "Cassandra", "version": "5"},
        "capabilities": None, "clock": None, "phases": (), "totals": (),
    }  # fmt: skip
    plan = {
        "name": "ycsb/a",
        "system": {"driver": "cql", "options": {}},
        "groups": [],
        "phases": [],
    }
    return Manifest.model_validate(
        {
            "format": FORMAT, "id": "x", "created": "", "plan": plan, "closed_by": "engine",
            "engine": engine, "testbed": testbed, "host": host,
        }
    )  # fmt: skip


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
        (CASSANDRA, changed(CASSANDRA, nodes=CASSANDRA["nodes"][:1]), {"servers.nodes"}),
        (CASSANDRA, PROXY, {"servers.proxy"}),
        (PROXY, changed(PROXY, threads=4), {"servers.proxy.threads"}),
        (PROXY, changed(PROXY, fingerprint="f" * 64), {"servers.proxy.configuration"}),
        (PROXY, bound(PROXY, 3), {"servers.proxy.cores"}),
        (PROXY, changed(PROXY, behind=changed(CASSANDRA, heap_bytes=2**33)), {"servers.heap"}),
    ],
)
def test_whatever_servers_were_given_is_part_of_the_environment(
    before: dict[str, Any], after: dict[str, Any], places: set[str]
) -> None:
    one, other = manifest(before), manifest(after)
    first, second = RunEnvironment.of(one).servers, RunEnvironment.of(other).servers
    common = first.keys() & second.keys()
    assert {place for place in common if first[place] != second[place]} == places


def test_names_addresses_and_networks_numbers_are_no_part_of_the_environment() -> None:
    nodes = [{**node, "address": f"{node['name']}:9999"} for node in CASSANDRA["nodes"]]
    other = {**CASSANDRA, "testbed": "another", "nodes": nodes}
    assert RunEnvironment.of(manifest(other)) == RunEnvironment.of(manifest(CASSANDRA))
    nets = [changed(CASSANDRA, network=f"198.18.{number}.0/24") for number in (7, 8)]
    assert len({RunEnvironment.of(manifest(one)).server_words for one in nets}) == 1


@pytest.mark.parametrize("testbed", [None, {}, {"observed": False, "reason": "far away"}])
def test_of_servers_that_others_started_nothing_is_known(testbed: dict[str, Any] | None) -> None:
    assert RunEnvironment.of(manifest(testbed)).servers == {}


def test_a_machine_is_known_by_its_kernel_s_settings_too() -> None:
    host = RunEnvironment.of(manifest(None)).host
    assert host["host.memory"] == "16384 MiB"
    assert host["host.vm.swappiness"] == "60"
    assert host["host.governor"] == "unknown"
    settings = describe_host()["sysctl"]
    assert settings["net.core.somaxconn"].isdecimal()
    assert settings["vm.swappiness"].isdecimal()
