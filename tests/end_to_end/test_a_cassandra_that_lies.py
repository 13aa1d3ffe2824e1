"""`--verify` on a real Cassandra node behind a proxy that lies about it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cassandra_node import PATIENT, cassandra_up
from command_line import Kvmark
from lying_cql import CqlLiar
from lying_proxy import proxy

from kvmark.testbed import cassandra
from kvmark.testbed.console import connect
from kvmark.testbed.state import Testbed

RECORDS = 60
PLANTED = 4
TABLE = "kvmark.lies"
WRITE = f'"INSERT INTO {TABLE} (k, a, b) VALUES ({{key}}, {{a}}, {{b}})"'
WORKLOAD = f"""
name: lies
dataset: {{records: {RECORDS}, fields: {{count: 2, length: 40}}}}
prepare:
  - >-
    CREATE KEYSPACE IF NOT EXISTS kvmark
    WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}
  - CREATE TABLE IF NOT EXISTS {TABLE} (k text PRIMARY KEY, a text, b text)
arguments:
  a: {{generator: field, field: 0}}
  b: {{generator: field, field: 1}}
statements:
  INSERT: {{does: update, run: {WRITE}}}
  PIPE: {{does: update, run: {WRITE}, commands: 4}}
  BATCH: {{does: update, run: {WRITE}, commands: 4, options: {{batch: unlogged}}}}
  SELECT: {{does: read, run: "SELECT a, b FROM {TABLE} WHERE k = {{key}}", expect: [a, b]}}
  DELETE: {{does: delete, run: "DELETE FROM {TABLE} WHERE k = {{key}}"}}
load: INSERT
probe: SELECT
groups: [{{mix: {{@MIX@}}, keys: @KEYS@}}]
"""
WRITES = ("INSERT: 1, PIPE: 1, BATCH: 1, SELECT: 1", "uniform", 800)
# An answer that is an error is that of a whole batch.
SINGLE = ("INSERT: 1, PIPE: 1, SELECT: 1", "uniform", 800)
DELETES = ("DELETE: 1", "sequential", RECORDS)
CASES = {
    "none": ({}, WRITES),
    "lose_record": ({"missing": PLANTED}, WRITES),
    "lose_field": ({"incomplete": PLANTED}, WRITES),
    "return_older": ({"stale": PLANTED}, WRITES),
    "tear_value": ({"torn": PLANTED}, WRITES),
    "swap_records": ({"stale": PLANTED}, WRITES),
    "resurrect_record": ({"resurrected": PLANTED}, DELETES),
    "apply_failed": ({"unacknowledged": PLANTED}, SINGLE),
    "apply_refused": ({"stale": PLANTED}, SINGLE),
}
COUNTED = ("missing", "incomplete", "torn", "stale", "resurrected", "unacknowledged", "unread")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """One node, which all tests of this file use."""
    root = tmp_path_factory.mktemp("testbeds")
    with cassandra_up(root, cassandra.CassandraOptions(settings=PATIENT)) as node:
        yield node


@pytest.fixture
def verify(kvmark: Kvmark, node: Testbed, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Runs a workload through a proxy that lies, and returns what reading back found."""
    kvmark.more["KVMARK_TESTBEDS"] = str(node.folder.parent)
    # What another test wrote would be there where a write of this one is lost.
    connect(node, node.nodes[0], timeout_s=120).ask(f"DROP TABLE IF EXISTS {TABLE}")
    host, _, port = node.nodes[0].address.rpartition(":")

    def run(liar: CqlLiar, mix: str, keys: str, operations: int, exits: tuple[int, ...]) -> Any:
        (tmp_path / "lies.yaml").write_text(WORKLOAD.replace("@MIX@", mix).replace("@KEYS@", keys))
        with proxy((host, int(port)), liar) as (own_host, own_port):
            words = ("run", "lies.yaml", "--system", f"cql://{own_host}:{own_port}")
            counted = ("--operations", operations, "--clients", 4, "--workers", 2)
            words = (*words, *counted, "--load", "always", "--verify", "-q", "--json")
            result = kvmark(*words, exits=exits)
        return result.json["summary"]["sweep"]

    return run


@pytest.mark.parametrize("fault", CASES)
def test_each_planted_fault_is_found_and_no_other(verify: Callable[..., Any], fault: str) -> None:
    expected, (mix, keys, operations) = CASES[fault]
    liar = CqlLiar(fault, PLANTED if expected else 0, TABLE)
    lost = expected and "unacknowledged" not in expected
    sweep = verify(liar, mix, keys, operations, exits=(1,) if lost else (0, 1))
    assert len(liar.victims.keys) == (PLANTED if expected else 0)
    assert {name: sweep[name] for name in COUNTED if sweep[name]} == expected
    assert sweep["records"] == RECORDS
