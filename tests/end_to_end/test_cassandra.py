"""A real Cassandra node, reached over TLS and with a password, from the words a user types."""

from collections.abc import Iterator
from typing import Any

import pytest
from cassandra_node import cassandra_up
from command_line import Kvmark

from kvmark import catalog
from kvmark.secret import Secret
from kvmark.testbed import cassandra
from kvmark.testbed.state import Testbed
from waiting import wait_until

SECRET = "Ov3rh4rd"
# Nothing is given up because the machine is busy.
SETTINGS = (
    ("tombstone_warn_threshold", "5"),
    ("read_request_timeout", "2m"),
    ("range_request_timeout", "2m"),
    ("write_request_timeout", "2m"),
    ("truncate_request_timeout", "5m"),
)
TOMBSTONES = """
name: tombstones
dataset: {records: 100, fields: {count: 1, length: 1}}
prepare:
  - >-
    CREATE KEYSPACE IF NOT EXISTS kvmark
    WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}
  - CREATE TABLE IF NOT EXISTS kvmark.removed (p text, c bigint, PRIMARY KEY (p, c))
statements:
  DELETE: {does: update, run: "DELETE FROM kvmark.removed WHERE p = 'p' AND c = {ordinal}"}
  SELECT: {does: scan, run: "SELECT c FROM kvmark.removed WHERE p = 'p'"}
groups: [{mix: {DELETE: 1, SELECT: 1}}]
"""
# As Redis writes it down: keys and values that are no UTF-8.
MONITOR = "OK\n" + "".join(
    f'{1700000000 + number}.1 [0 127.0.0.1:5000] "SETEX" "k\\xff\\xfe{number}" "500" "v\\x80"\n'
    f'{1700000000 + number}.2 [0 127.0.0.1:5000] "GET" "k\\xff\\xfe{number}"\n'
    for number in range(100)
)
READY = sorted(name for name in catalog.names() if name.startswith("cql/"))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """One node, which all tests of this file use."""
    root = tmp_path_factory.mktemp("testbeds")
    wanted = cassandra.CassandraOptions(password=Secret(SECRET), tls=True, settings=SETTINGS)
    with cassandra_up(root, wanted) as node:
        yield node


def outcomes(manifest: dict[str, Any]) -> set[str]:
    return {total["outcome"] for total in manifest["engine"]["totals"]}


def test_the_whole_sequence_of_ycsb_runs_on_its_own_table(user: Kvmark, node: Testbed) -> None:
    words = ("--records", "200", "--repetitions", "1", "--report", "none", "-q", "--json")
    document = user("ycsb", "--system", node.url, *words).json
    assert next(row["case"]["workload"] for row in document["rows"]) == "load"
    for run in document["runs"]:
        manifest = user.manifest(run)
        assert outcomes(manifest) == {"ok"}, run
        assert manifest["engine"]["system"]["system"] == "Cassandra"
        assert manifest["testbed"]["observed"] is True


@pytest.mark.parametrize("name", READY)
def test_every_ready_workload_does_what_it_says(user: Kvmark, node: Testbed, name: str) -> None:
    words = ("--operations", "300", "--records", "100", "-q", "--json")
    document = user("run", name, "--system", node.url, *words).json
    manifest = user.manifest(document["run"])
    assert outcomes(manifest) <= {"ok", "miss"}, name
    misses = [one for one in manifest["engine"]["totals"] if one["outcome"] == "miss"]
    assert not misses or name == "cql/time-series"


def test_a_table_that_is_made_has_the_users_options(user: Kvmark, node: Testbed) -> None:
    url = f"{node.url}&keyspace=flushed&table_options={{}}"
    words = ("--operations", "100", "--records", "200", "-q")
    flushed = url.format("memtable_flush_period_in_ms%20%3D%20500")
    user("run", "ycsb/c", "--system", flushed, *words, exits=(0, 1))
    files = "flushed/usertable-*/*-Data.db"
    wait_until(lambda: list(node.folder.rglob(files)), "the rows are in a file of the table")
    unknown = url.replace("flushed", "other").format("no_such_option%20%3D%201")
    told = user.refuses("run", "ycsb/c", "--system", unknown, *words, exits=3)
    assert "the table usertable can't be made" in told
    assert "no_such_option" in told


def test_every_acknowledged_row_is_there_when_it_is_read_back(user: Kvmark, node: Testbed) -> None:
    words = ("--operations", "500", "--records", "100", "--load", "always", "--verify")
    words = (*words, "-q", "--json")
    sweep = user("run", "ycsb/a", "--system", node.url, *words).json["summary"]["sweep"]
    assert (sweep["records"], sweep["intact"]) == (100, 100)


def test_nobody_is_measured_without_trust_or_a_login(user: Kvmark, node: Testbed) -> None:
    (first,) = node.nodes
    authority = f"tls=true&ca_file={node.folder}/tls/ca.crt"
    login = f"username=cassandra&password_file={node.folder}/password"
    guessed = f"cql://cassandra:{SECRET}0@{first.address}?{authority}"
    cases = (
        (f"cql://{first.address}?{authority}", "wants a login: give username"),
        (guessed, "Authentication failed"),
        (f"cql://{first.address}?{login}&tls=true", "certificate"),
        (f"cql://{first.address}?{login}&{authority}&server_name=elsewhere", "certificate"),
    )
    for url, told in cases:
        sentence = user.refuses("run", "ycsb/a", "--system", url, "-q", exits=3)
        assert told in sentence
        assert SECRET not in sentence


def test_the_password_stands_in_no_record(user: Kvmark, node: Testbed) -> None:
    assert "tls=true" in node.url
    user("run", "ycsb/a", "--system", node.url, "--operations", "100", "-q")
    written = [path for path in user.runs.rglob("*") if path.is_file()]
    assert written
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]


def test_a_server_that_warns_of_batches_is_heard(user: Kvmark, node: Testbed) -> None:
    text = catalog.text("cql/kv").replace(
        'VALUES ({key}, {value})"}',
        'VALUES ({key}, {value})", commands: 200, options: {batch: unlogged}}',
    )
    text = text.replace("load: INSERT", "load: ONE").replace(
        "  SELECT: {does",
        '  ONE: {does: update, run: "INSERT INTO kvmark.kv (k, v) VALUES'
        ' ({key}, {value})"}\n  SELECT: {does',
    )
    (user.folder / "batches.yaml").write_text(text)
    words = ("--operations", "200", "--records", "300", "--system", node.url, "-q", "--json")
    document = user("run", "batches.yaml", *words, exits=(0, 1)).json
    reasons = {each["code"]: each for each in document["verdict"]["reasons"]}
    assert reasons["server_warnings"]["evidence"]["batches"] > 0


def test_a_server_that_warns_of_tombstones_is_heard(user: Kvmark, node: Testbed) -> None:
    (user.folder / "tombstones.yaml").write_text(TOMBSTONES)
    words = ("--operations", "200", "--system", node.url, "-q", "--json")
    document = user("run", "tombstones.yaml", *words, exits=(0, 1)).json
    reasons = {each["code"]: each for each in document["verdict"]["reasons"]}
    assert reasons["server_warnings"]["evidence"]["tombstones"] > 0


def test_a_trace_of_redis_is_replayed_with_its_very_keys_and_scanned(
    user: Kvmark, node: Testbed
) -> None:
    (user.folder / "monitor.txt").write_text(MONITOR)
    scans = "".join(f"{60 + number},k{number},scan,,5\n" for number in range(60))
    updates = "".join(f"{number},k{number},update,value,\n" for number in range(60))
    (user.folder / "scans.csv").write_text(f"at,key,kind,value,count\n{updates}{scans}")
    kept = ("--keep-keys", "--keep-values")
    user("trace", "import", "monitor.txt", "-o", "m.trace", *kept)
    user("trace", "import", "scans.csv", "-o", "s.trace", *kept)
    counted = {}
    for trace in ("s.trace", "m.trace"):
        words = ("--speed", "max", "--clients", "1", "--system", node.url, "-q", "--json")
        document = user("replay", trace, *words, exits=(0, 1)).json
        assert outcomes(user.manifest(document["run"])) == {"ok"}, trace
        phase = next(one for one in document["summary"]["phases"] if one["name"] == "measure")
        counted |= {
            (trace, one["operation"]): (one["count"], one["rows"]) for one in phase["operations"]
        }
    # The scan from a row among the last five finds fewer.
    assert counted == {
        ("s.trace", "UPDATE"): (60, 60),
        ("s.trace", "SCAN"): (60, 60 * 5 - (1 + 2 + 3 + 4)),
        ("m.trace", "UPDATE_TTL"): (100, 100),
        ("m.trace", "READ"): (100, 100),
    }


@pytest.fixture
def user(kvmark: Kvmark, node: Testbed) -> Kvmark:
    """Someone who knows where the testbeds are."""
    kvmark.more["KVMARK_TESTBEDS"] = str(node.folder.parent)
    return kvmark
