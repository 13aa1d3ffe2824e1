"""A slice of each ready study on real servers: each factor has its effect on the plan."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import psutil
import pytest
from studies import MakeStudy, Program, needs, quick

from kvmark import catalog
from kvmark.testbed.process import make_group, remove_group
from kvmark.testbed.state import Testbed
from kvmark.testbed.system import read_size

QUIET = ("-q", "--json", "--report", "none")
THREE_NODES_BYTES = 8 * 2**30


def by_levels(program: Program, *names: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """The manifest of each case by its levels of these factors."""
    made = program.manifests().values()
    found = {}
    for one in made:
        levels = one["spec"]["study"]["levels"]
        found[tuple(levels[name] for name in names)] = one
    return found


def group(manifest: dict[str, Any], name: str = "clients") -> dict[str, Any]:
    """One of a plan's groups."""
    (found,) = (one for one in manifest["plan"]["groups"] if one["name"] == name)
    return found


def done(manifest: dict[str, Any]) -> set[str]:
    """How operations ended."""
    return {total["outcome"] for total in manifest["engine"]["totals"] if total["count"]}


def test_smoke_varies_clients_and_value_size(program: Program, system: Testbed) -> None:
    words = ("--system", system.url, "--only", "clients=1,4", "--repetitions", "1")
    ended = program("study", "smoke", *words, *QUIET)
    assert ended.json["missing"] == 0, ended
    found = by_levels(program, "clients", "value_size")
    assert len(found) == 4
    for (clients, size), manifest in found.items():
        assert group(manifest)["clients"] == int(clients)
        assert manifest["plan"]["dataset"]["fields"]["length"]["size"] == int(size)
        assert manifest["engine"]["system"]["system"] == "Redis"
        assert done(manifest) == {"ok"}


def test_proxy_goes_straight_and_through_at_a_rate(
    program: Program, system: Testbed, haproxy: Testbed
) -> None:
    words = ("--system", "up:redis", "--through", "up:haproxy", "--repetitions", "1")
    ended = program("study", "proxy", *words, "--scale", "0.2", *QUIET)
    assert ended.json["missing"] == 0, ended
    found = by_levels(program, "load", "through")
    assert len(found) == 4
    addresses = {"direct": system.nodes[0].address, "haproxy": haproxy.nodes[0].address}
    for (load, through), manifest in found.items():
        assert manifest["plan"]["system"]["options"]["address"] == addresses[through]
        arrival = group(manifest)["arrival"]
        assert arrival["process"] == ("closed" if load == "closed" else "constant")
        assert done(manifest) == {"ok"}


def test_yugabyte_has_the_applications_writers_and_readers(
    program: Program, system: Testbed
) -> None:
    words = ["--system", system.url, "--scale", "0.05", "--repetitions", "1"]
    words += ["--only", "application=RedisKeyValue,RedisHashPipelined", "--only", "writers=10,192"]
    quick("yugabyte-1.0.7", program.folder)
    ended = program("study", "slice.yaml", *words, *QUIET)
    assert ended.json["missing"] == 0, ended
    found = by_levels(program, "application", "writers", "readers")
    assert set(found) == {("RedisKeyValue", "192", "16"), ("RedisHashPipelined", "10", "6")}
    for (application, writers, readers), manifest in found.items():
        assert group(manifest, "writers")["clients"] == int(writers)
        assert group(manifest, "readers")["clients"] == int(readers)
        assert manifest["plan"]["name"] == f"apps/{application}"
        assert done(manifest) <= {"ok", "miss"}


# Cassandra's, on nodes that they start.


def test_datasets_exceed_memory_at_any_number_of_nodes(study: MakeStudy) -> None:
    made = study(catalog.study_text("cassandra-initial"))
    bounded = [case for case in made.cases if case.labels["data"] == "exceeds"]
    assert {case.labels["nodes"] for case in bounded} == {"1", "2", "3"}
    for case in bounded:
        testbed = made.testbed(case)
        sizes = (read_size(name, getattr(testbed, name)) for name in ("memory", "heap"))
        memory_bytes, heap_bytes = sizes
        dataset = made.plan(case).dataset
        size = dataset.fields.length["size"]
        own_bytes = dataset.count * size / (testbed.nodes or 1)
        # As good as nothing but the files' cache is beside the heap, and half must be read anew.
        assert own_bytes > 2 * (memory_bytes - heap_bytes), case.title


def bounds_memory() -> None:
    """Skips where this user or machine can't bound what a server takes."""
    try:
        remove_group(make_group(f"kvmark-test-{os.getpid()}", 2**30))
    except Exception as refused:  # noqa: BLE001 - whatever it is, there is no bound
        pytest.skip(str(refused))


def test_cassandra_initial_reads_large_datasets_from_disk(program: Program, testbeds: Path) -> None:
    needs("java", "mvn")
    bounds_memory()
    # Where the disk has to answer, the page cache may not: one of the two has to fail.
    both = ("data: exceeds}, least", "data: [fits, exceeds]}, least")
    quick("cassandra-initial", program.folder, both)
    words = ("--only", "nodes=1", "--only", "study=random-lookup", "--only", "in_flight=10")
    words += ("--only", "concurrent_reads=32", "--repetitions", "1")
    ended = program("study", "slice.yaml", *words, "--scale", "0.3", *QUIET)
    assert (ended.json["missing"], ended.code) == (0, 1), ended
    failed = {row["levels"]["data"]: row["failures"] for row in ended.json["rows"]}
    assert not failed["exceeds"]
    assert "bytes from their disks for an operation, and 4,096 at the least" in failed["fits"][0]
    read = {row["levels"]["data"]: row["disk_bytes"] for row in ended.json["rows"]}
    # A record has 20,000 bytes.
    assert read["exceeds"] > 2_000, read
    assert read["exceeds"] > 5 * (read["fits"] or 0), read
    found = by_levels(program, "data")
    assert found[("exceeds",)]["testbed"]["memory_bytes"] == 960 * 2**20
    assert found[("fits",)]["testbed"].get("memory_bytes") is None
    for manifest in found.values():
        assert group(manifest)["clients"] == 10
        assert len(manifest["testbed"]["nodes"]) == 1
        assert done(manifest) == {"ok"}


@pytest.mark.three_nodes
def test_hcassandra_has_its_copies_levels_and_a_node_down(program: Program, testbeds: Path) -> None:
    needs("java", "mvn")
    available = psutil.virtual_memory().available
    if available < THREE_NODES_BYTES:
        pytest.skip(
            f"three nodes of Cassandra need {THREE_NODES_BYTES / 1e9:.1f} GB of free memory, and"
            f" {available / 1e9:.1f} GB are free"
        )
    words = ["--only", "scenario=2", "--only", "operation=write", "--only", "clients=10"]
    words += ["--only", "replication_factor=2", "--only", "consistency=ONE,TWO"]
    # Nine seconds: long enough for a node to go and to come back.
    quick("hcassandra", program.folder)
    ended = program("study", "slice.yaml", *words, "--repetitions", "1", "--scale", "0.45", *QUIET)
    assert ended.json["missing"] == 0, ended
    found = by_levels(program, "consistency", "node_down")
    assert set(found) == {(level, down) for level in ("ONE", "TWO") for down in ("no", "yes")}
    for (level, down), manifest in found.items():
        options = manifest["plan"]["system"]["options"]
        assert options["write_consistency"] == level.lower()
        assert (options["keyspace"], options["replication"]) == ("hcassandra_2", "simple:2")
        assert group(manifest)["clients"] == 10
        assert len(manifest["testbed"]["nodes"]) == 3
        log = (program.folder / "runs" / manifest["id"] / "events.jsonl").read_text()
        events = [json.loads(line) for line in log.splitlines()]
        broken = {event["node"] for event in events if event["kind"] == "fault"}
        assert broken == ({"node-2"} if down == "yes" else set())
        if down == "no":
            assert done(manifest) == {"ok"}
