"""kvmark removes only data that it can prove it wrote: each command on each store.

A store contains nothing, the command's own records, foreign ones, or both. A pass is the first one,
or resumes (`--resume`) a pass that was killed during its measurement. Foreign data are removed or
loaded over only with `--on-existing`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from command_line import Kvmark
from real_servers import dynalite, ferretdb, memcached_up, postgres_up, redis_up

from kvmark.testbed.console import Console, connect
from kvmark.testbed.state import Testbed
from waiting import wait_until

RECORDS: Final = 20
FOREIGN: Final = "precious"
"""The start of foreign keys."""
QUIET: Final = "--report none -q"
STUDY: Final = """
name: owned
question: Does it keep foreign records?
system: "{url}"
workload: ycsb/c
dataset: fresh
run: {{records: 20, operations: 60, rate: 40, interval: 50ms}}
factors: {{clients: [1, 2]}}
"""
OTHERS: Final = f"""
name: others
dataset: {{records: 3, key: {{prefix: {FOREIGN}}}, fields: {{count: 1, length: 1}}}}
groups: [{{mix: {{read: 1}}}}]
"""


class Redis:
    up = staticmethod(redis_up)

    def __init__(self, user: Kvmark) -> None:
        testbed = self.up(user)
        self.url = testbed.url
        self.ask = connect(testbed, testbed.nodes[0]).ask

    def keys(self) -> set[str]:
        """The keys of all records, without marks and indexes."""
        return set(self.ask("KEYS", "*")) - {"_indices", "kvmark:dataset"}

    def put_foreign(self) -> None:
        """Writes foreign records."""
        self.ask("SET", f"{FOREIGN}1", "dear")


class Memcached(Redis):
    up = staticmethod(memcached_up)

    def keys(self) -> set[str]:
        lines = str(self.ask("lru_crawler", "metadump", "hash")).splitlines()
        keys = {line.split()[0].removeprefix("key=") for line in lines if line.startswith("key=")}
        return keys - {"kvmark%3Adataset"}

    def put_foreign(self) -> None:
        self.ask("set", f"{FOREIGN}1", "0", "0", "4\r\ndear")


class Postgres(Redis):
    up = staticmethod(postgres_up)

    def keys(self) -> set[str]:
        if self.ask("SELECT to_regclass('usertable') AS found")[0]["found"] is None:
            return set()
        return {row["ycsb_key"] for row in self.ask("SELECT ycsb_key FROM usertable")}

    def put_foreign(self) -> None:
        fields = ", ".join(f"field{number} bytea" for number in range(10))
        self.ask(f"CREATE TABLE IF NOT EXISTS usertable (ycsb_key text PRIMARY KEY, {fields})")
        self.ask(f"INSERT INTO usertable (ycsb_key) VALUES ('{FOREIGN}1')")


class DynamoDb(Redis):
    def __init__(self, _: Kvmark) -> None:
        self.server, address = dynalite()
        self.url = f"dynamodb://{address}"
        self.ask = Console("dynamodb", {"address": address}).ask

    def call(self, action: str, **body: Any) -> Any:
        return self.ask(action, json.dumps(body))

    def keys(self) -> set[str]:
        if "usertable" not in self.call("ListTables")["TableNames"]:
            return set()
        return {item["_key"]["S"] for item in self.call("Scan", TableName="usertable")["Items"]}

    def put_foreign(self, key: str = "_key") -> None:
        if "usertable" not in self.call("ListTables")["TableNames"]:
            part = {"AttributeName": key}
            self.call(
                "CreateTable",
                TableName="usertable",
                BillingMode="PAY_PER_REQUEST",
                KeySchema=[{**part, "KeyType": "HASH"}],
                AttributeDefinitions=[{**part, "AttributeType": "S"}],
            )
            wait_until(lambda: self.table()["TableStatus"] == "ACTIVE", "the table exists")
        self.call("PutItem", TableName="usertable", Item={key: {"S": f"{FOREIGN}1"}})

    def table(self) -> Any:
        return self.call("DescribeTable", TableName="usertable")["Table"]


class MongoDb(Redis):
    def __init__(self, user: Kvmark) -> None:
        (user.folder / "ferretdb").mkdir()
        self.server, address = ferretdb(user.folder / "ferretdb")
        self.url = f"mongodb://{address}"
        self.ask = Console("mongodb", {"address": address}).ask

    def keys(self) -> set[str]:
        find = {"find": "usertable", "projection": {"_id": 1}, "batchSize": 1000}
        found = self.ask("find", json.dumps(find))
        return {document["_id"] for document in found["cursor"]["firstBatch"]}

    def put_foreign(self) -> None:
        insert = {"insert": "usertable", "documents": [{"_id": f"{FOREIGN}1"}]}
        self.ask("insert", json.dumps(insert))


class RocksDb:
    """A folder; foreign records come from a run with another folder of runs."""

    def __init__(self, user: Kvmark) -> None:
        self.user, self.folder = user, user.folder / "db"
        self.url = f"rocksdb:{self.folder}"
        (user.folder / "others.yaml").write_text(OTHERS)

    def keys(self) -> set[str]:
        if not (self.folder / "CURRENT").exists():
            return set()
        console = Console("rocksdb", {"path": str(self.folder)})
        return {key for table in console.ask("TABLES") for key in console.ask("KEYS", table)}

    def put_foreign(self) -> None:
        words = f"run ./others.yaml --system {self.url} --load always --operations 1 -q --runs"
        self.user(words, self.user.folder / "others", exits=(0, 1))


Store = Redis | RocksDb


@pytest.fixture(params=[Redis, Memcached, Postgres, DynamoDb, MongoDb, RocksDb])
def store(request: pytest.FixtureRequest, user: Kvmark) -> Iterator[Store]:
    """An empty store."""
    made: Store = request.param(user)
    yield made
    if isinstance(made, DynamoDb | MongoDb):
        made.server.kill()
        made.server.wait()


def test_items_with_a_key_that_others_use_are_never_removed(user: Kvmark) -> None:
    store = DynamoDb(user)
    try:
        store.put_foreign("id")
        words = f"ycsb --system {store.url}?primary_key=id --records 5 --workloads load {QUIET}"
        refused = user(words, "--on-existing", "remove", exits=2)
        assert "removes only those of tables with the key _key" in refused.err
        assert len(store.call("Scan", TableName="usertable")["Items"]) == 1
    finally:
        store.server.kill()
        store.server.wait()


WORK = f"ycsb/c --system {{url}} --records {RECORDS} --duration 100ms --load always"
COMMANDS = {
    # These empty their store before the load, and measure for a second.
    "ycsb": f"ycsb --system {{url}} --records {RECORDS} --operations 60 --target 40"
    f" --repetitions 2 --workloads load,c --interval 50ms {QUIET}",
    "study": f"study owned.yaml {QUIET}",
    # These remove nothing.
    "run": f"run {WORK} -q",
    "ab": f"ab '{WORK}' --candidate '--clients 2' --repetitions 4 --allow invalid -q",
    "capacity": f"capacity {WORK} --slo 'p99<1h' --within 50% --repetitions 1 --warmup 10ms -q",
}


def words_of(command: str, url: str, user: Kvmark) -> str:
    (user.folder / "owned.yaml").write_text(STUDY.format(url=url))
    return COMMANDS[command].format(url=url)


def kill(user: Kvmark, words: str, text: str) -> None:
    """Kills a command when the log of an interval contains a text."""
    started = user.start(words)
    started.wait_for(text)
    started.kill()


def refused(user: Kvmark, words: str) -> str:
    """The output of a command that fails, on one line."""
    ended = user(words, exits=(1, 2, 3))
    return " ".join((ended.out + ended.err).split())


REMOVING = pytest.mark.parametrize("command", ["ycsb", "study"])


@REMOVING
@pytest.mark.parametrize("contents", ["own", "foreign"])
def test_a_full_store_is_refused(user: Kvmark, store: Store, command: str, contents: str) -> None:
    words = words_of(command, store.url, user)
    if contents == "foreign":
        store.put_foreign()
    else:
        user(words, exits=(0, 1))
        assert len(store.keys()) == RECORDS
    # The records of an earlier command are not those of this one.
    before = store.keys()
    text = refused(user, words)
    assert "already holds" in text
    assert "--on-existing remove" in text
    assert store.keys() == before
    if contents == "foreign":
        text = refused(user, f"{words} --resume")
        # A refused sequence has not begun; a study has, with a case that failed.
        assert "already holds" in text or "leave --resume out" in text
        assert store.keys() == before


@REMOVING
def test_a_resumed_pass_removes_its_records(user: Kvmark, store: Store, command: str) -> None:
    words = words_of(command, store.url, user)
    kill(user, words, '"measure"')
    before = store.keys()
    assert 0 < len(before) <= RECORDS
    user(f"{words} --resume", exits=(0, 1))
    assert store.keys() > before or len(before) == len(store.keys()) == RECORDS


@REMOVING
def test_a_resumed_pass_keeps_added_records(user: Kvmark, store: Store, command: str) -> None:
    words = words_of(command, store.url, user)
    kill(user, words, '"measure"')
    store.put_foreign()
    before = store.keys()
    for _ in range(2):
        assert f"among them the key '{FOREIGN}" in refused(user, f"{words} --resume")
        assert store.keys() == before
    user(f"{words} --resume --on-existing remove", exits=(0, 1))
    assert len(store.keys()) == RECORDS


@REMOVING
@pytest.mark.parametrize("choice", ["keep", "remove"])
def test_the_user_decides_on_records(user: Kvmark, store: Store, command: str, choice: str) -> None:
    store.put_foreign()
    foreign = store.keys()
    user(f"{words_of(command, store.url, user)} --on-existing {choice}", exits=(0, 1))
    remaining = foreign if choice == "keep" else set()
    assert store.keys() & foreign == remaining
    assert len(store.keys()) == RECORDS + len(remaining)


@pytest.mark.parametrize("command", ["run", "ab", "capacity"])
def test_other_commands_remove_no_record(user: Kvmark, store: Store, command: str) -> None:
    store.put_foreign()
    foreign = store.keys()
    for option in ("", " --resume") if command != "run" else ("",):
        user(words_of(command, store.url, user) + option, exits=(0, 1))
        assert foreign <= store.keys()


@dataclass(frozen=True)
class Table:
    """The table of a command on a real node, which the command empties or drops first."""

    node: Testbed
    name: str
    key: str
    value: str
    columns: str
    foreign: str
    own: str
    command: str

    @property
    def keyspace(self) -> str:
        return self.name.partition(".")[0]

    def ask(self, statement: str) -> Any:
        return connect(self.node, self.node.nodes[0], timeout_s=120).ask(statement)

    def words(self, options: str = "") -> str:
        host, _, port = self.node.nodes[0].address.rpartition(":")
        return self.command.format(host=host, port=port, options=options)

    def make_foreign(self) -> None:
        """Makes a foreign table of that name, with a row."""
        self.ask(f"CREATE KEYSPACE {self.keyspace} WITH replication = {ONE_COPY}")
        self.ask(f"CREATE TABLE {self.name} ({self.columns}) WITH comment = 'dear to me'")
        self.insert(self.foreign)

    def insert(self, key: str) -> None:
        self.ask(f"INSERT INTO {self.name} ({self.key}, {self.value}) VALUES ({key}, 0x01)")

    def has(self, key: str) -> bool:
        return bool(self.ask(f"SELECT * FROM {self.name} WHERE {self.key} = {key}"))


ONE_COPY = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
C0_TO_C4 = ", ".join(f'"C{number}" blob' for number in range(5))
TABLES = {
    "stress": (
        "keyspace1.standard1", "key", '"C0"', f"key blob PRIMARY KEY, {C0_TO_C4}", "0xff", "0xfe",
        "stress {options} write n=500 truncate=once no-warmup -rate threads=2"
        " -node {host} -port native={port}",
    ),
    "app": (
        "ybdemo_keyspace.cassandrakeyvalue", "k", "v", "k varchar PRIMARY KEY, v blob", "'dear'",
        "'old'",
        "app CassandraKeyValue --nouuid --num_threads_write 1 --num_threads_read 1 --run_time 2"
        " --nodes {host}:{port} --quiet {options}",
    ),
}  # fmt: skip


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest, node: Testbed) -> Table:
    """A node without the table of a command."""
    table = Table(node, *TABLES[request.param])
    table.ask(f"DROP KEYSPACE IF EXISTS {table.keyspace}")
    return table


@pytest.mark.parametrize("first", ["complete", "killed"])
def test_own_rows_of_cassandra_are_removed(kvmark: Kvmark, table: Table, first: str) -> None:
    if first == "complete":
        kvmark(table.words(), exits=(0, 1))
    else:
        kill(kvmark, table.words(), "")
        kvmark(table.words("--resume"), exits=(0, 1))
    table.insert(table.own)
    kvmark(table.words(), exits=(0, 1))
    assert not table.has(table.own)


def test_foreign_rows_of_cassandra_stay_unless_asked(kvmark: Kvmark, table: Table) -> None:
    table.make_foreign()
    for option in ("", "--resume"):
        text = refused(kvmark, table.words(option))
        assert f"table {table.name} that kvmark can't show to have made" in text
        assert "--on-existing remove" in text
        assert table.has(table.foreign)
    for choice in ("keep", "remove"):
        kvmark(table.words(f"--on-existing {choice}"), exits=(0, 1))
        assert table.has(table.foreign) == (choice == "keep")


@pytest.mark.parametrize("command", COMMANDS)
def test_no_row_of_cassandra_is_removed(kvmark: Kvmark, node: Testbed, command: str) -> None:
    connection = connect(node, node.nodes[0], timeout_s=120)
    connection.ask(f"CREATE KEYSPACE IF NOT EXISTS ycsb WITH replication = {ONE_COPY}")
    columns = ", ".join(["y_id varchar PRIMARY KEY", *(f"field{n} varchar" for n in range(10))])
    connection.ask(f"CREATE TABLE IF NOT EXISTS ycsb.usertable ({columns})")
    connection.ask("INSERT INTO ycsb.usertable (y_id, field0) VALUES ('dear', 'x')")
    kvmark(words_of(command, node.url, kvmark), exits=(0, 1))
    assert connection.ask("SELECT * FROM ycsb.usertable WHERE y_id = 'dear'")


SEQUENCE = f"ycsb --system rocksdb:db --records 100 --workloads load,c --repetitions 2 {QUIET}"


def test_a_link_in_place_of_a_mark_is_not_followed(kvmark: Kvmark) -> None:
    precious, folder = kvmark.folder / "precious", kvmark.folder / "db"
    precious.write_text("mine")
    folder.mkdir()
    (folder / ".kvmark").symlink_to(precious)
    assert "can't be marked" in refused(kvmark, SEQUENCE)
    assert precious.read_text() == "mine"


def test_a_folder_behind_a_link_is_emptied_for_each_repetition(kvmark: Kvmark) -> None:
    (kvmark.folder / "real").mkdir()
    (kvmark.folder / "db").symlink_to("real")
    kvmark(SEQUENCE, exits=(0, 1))
    assert (kvmark.folder / "db").is_symlink()
    assert (kvmark.folder / "real" / "CURRENT").exists()


@pytest.mark.parametrize("name", ["000123.log", "000007.sst", "notes.txt"])
def test_files_that_make_no_database_are_kept(kvmark: Kvmark, name: str) -> None:
    database = kvmark.folder / "db"
    database.mkdir()
    (database / name).write_text("precious")
    assert "already holds files that make no database" in kvmark.refuses(SEQUENCE)
    assert [path.name for path in database.iterdir()] == [name]
