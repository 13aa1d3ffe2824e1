"""A real Cassandra node, reached over TLS and with a password."""

from collections.abc import Iterator

import pytest
from command_line import Kvmark, outcomes, phase
from real_servers import PATIENT, cassandra_up

from kvmark import catalog
from kvmark.secret import Secret
from kvmark.testbed.state import Testbed
from waiting import wait_until

SECRET = "Ov3rh4rd"
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
# The output of Redis for keys and values that are no UTF-8.
MONITOR = "OK\n" + "".join(
    f'{1700000000 + number}.1 [0 127.0.0.1:5000] "SETEX" "k\\xff\\xfe{number}" "500" "v\\x80"\n'
    f'{1700000000 + number}.2 [0 127.0.0.1:5000] "GET" "k\\xff\\xfe{number}"\n'
    for number in range(100)
)
BATCHES = (
    catalog.text("cql/kv")
    .replace(
        'VALUES ({key}, {value})"}',
        'VALUES ({key}, {value})", commands: 200, options: {batch: unlogged}}',
    )
    .replace("load: INSERT", "load: ONE")
    .replace(
        "  SELECT: {does",
        '  ONE: {does: update, run: "INSERT INTO kvmark.kv (k, v) VALUES ({key}, {value})"}\n'
        "  SELECT: {does",
    )
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """One node for all tests of this file."""
    settings = (("tombstone_warn_threshold", "5"), *PATIENT)
    root = tmp_path_factory.mktemp("testbeds")
    with cassandra_up(root, password=Secret(SECRET), tls=True, settings=settings) as node:
        yield node


@pytest.fixture
def user(kvmark: Kvmark, node: Testbed) -> Kvmark:
    """The program with the folder of the testbed."""
    kvmark.variables["KVMARK_TESTBEDS"] = str(node.folder.parent)
    return kvmark


def test_the_complete_sequence_of_ycsb_runs_without_errors(user: Kvmark, node: Testbed) -> None:
    steps = "load,a,b,c,f,d,delete,reload,e"
    words = f"--records 200 --operations 200 --workloads {steps} --repetitions 1 --report none"
    document = user(f"ycsb --system {node.url} {words} -q --json").json
    assert document["rows"][0]["case"]["workload"] == "load"
    for run in document["runs"]:
        manifest = user.manifest(run)
        assert outcomes(manifest) == {"ok"}, run
        assert manifest["engine"]["system"]["system"] == "Cassandra"
        assert manifest["testbed"]["observed"] is True


@pytest.mark.parametrize("name", sorted(one for one in catalog.names() if one.startswith("cql/")))
def test_every_ready_workload_runs_without_errors(user: Kvmark, node: Testbed, name: str) -> None:
    user(f"run {name} --system {node.url} --operations 300 --records 100 -q")
    allowed = {"ok", "miss"} if name == "cql/time-series" else {"ok"}
    assert outcomes(user.manifest()) <= allowed


def test_a_new_table_has_the_options_of_the_url(user: Kvmark, node: Testbed) -> None:
    words = "run ycsb/c --operations 100 --records 200 -q --system"
    flushed = "keyspace=flushed&table_options=memtable_flush_period_in_ms%20%3D%20500"
    user(f"{words} {node.url}&{flushed}", exits=(0, 1))
    files = "flushed/usertable-*/*-Data.db"
    wait_until(lambda: list(node.folder.rglob(files)), "the rows are in a file of the table")
    unknown = "keyspace=other&table_options=no_such_option%20%3D%201"
    sentence = user.refuses(f"{words} {node.url}&{unknown}", exits=3)
    assert "the table usertable can't be made" in sentence
    assert "no_such_option" in sentence


def test_rows_are_read_back_and_no_record_has_the_password(user: Kvmark, node: Testbed) -> None:
    words = f"run ycsb/a --system {node.url} --operations 500 --records 100 --load always"
    sweep = user.sweep(words, exits=0)
    assert (sweep["records"], sweep["intact"]) == (100, 100)
    assert "tls=true" in node.url
    for path in user.runs.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_a_server_without_trust_or_a_login_is_not_measured(user: Kvmark, node: Testbed) -> None:
    (first,) = node.nodes
    authority = f"tls=true&ca_file={node.folder}/tls/ca.crt"
    login = f"username=cassandra&password_file={node.folder}/password"
    for url, part in (
        (f"{first.address}?{authority}", "wants a login: give username"),
        (f"cassandra:{SECRET}0@{first.address}?{authority}", "Authentication failed"),
        (f"{first.address}?{login}&tls=true", "certificate"),
        (f"{first.address}?{login}&{authority}&server_name=elsewhere", "certificate"),
    ):
        sentence = user.refuses(f"run ycsb/a --system cql://{url} -q", exits=3)
        assert part in sentence
        assert SECRET not in sentence


@pytest.mark.parametrize(
    ("text", "records", "kind"),
    [(BATCHES, 300, "batches"), (TOMBSTONES, 100, "tombstones")],
    ids=["batches", "tombstones"],
)
def test_warnings_are_a_reason(
    user: Kvmark, node: Testbed, text: str, records: int, kind: str
) -> None:
    (user.folder / "own.yaml").write_text(text)
    words = f"run own.yaml --operations 200 --records {records} --system {node.url} -q --json"
    verdict = user(words, exits=(0, 1)).json["verdict"]
    (warnings,) = (one for one in verdict["reasons"] if one["code"] == "server_warnings")
    assert warnings["evidence"][kind] > 0


def test_a_trace_of_redis_is_replayed_with_its_keys_and_scans(user: Kvmark, node: Testbed) -> None:
    scans = "".join(f"{60 + number},k{number},scan,,5\n" for number in range(60))
    updates = "".join(f"{number},k{number},update,value,\n" for number in range(60))
    for text, expected in (
        # A scan from one of the last rows returns fewer.
        (
            f"at,key,kind,value,count\n{updates}{scans}",
            {"UPDATE": (60, 60), "SCAN": (60, 60 * 5 - (1 + 2 + 3 + 4))},
        ),
        (MONITOR, {"UPDATE_TTL": (100, 100), "READ": (100, 100)}),
    ):
        (user.folder / "source").write_text(text)
        trace = f"{min(expected)}.trace"
        user(f"trace import source -o {trace} --keep-keys --keep-values")
        words = f"replay {trace} --speed max --clients 1 --system {node.url} -q --json"
        summary = user(words, exits=(0, 1)).json["summary"]
        assert outcomes(user.manifest()) == {"ok"}
        operations = phase({"engine": summary})["operations"]
        counted = {one["operation"]: (one["count"], one["rows"]) for one in operations}
        assert counted == expected
