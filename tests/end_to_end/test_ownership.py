"""No command removes what kvmark can't prove that it wrote: command by store by contents by pass.

Contents are nothing, the command's own records, somebody else's, or both. A pass is the first one,
or one that goes on (`--resume`) with a pass that was killed while it measured. Refused contents
are removed or loaded over only by the user's word, `--on-existing`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
from cassandra_node import PATIENT, cassandra_up
from command_line import Kvmark

from kvmark.testbed import cassandra, memcached, redis
from kvmark.testbed.console import Console, connect
from kvmark.testbed.control import take_down
from kvmark.testbed.state import Testbed
from waiting import wait_until

RECORDS: Final = 20
FOREIGN: Final = "precious"
"""What the keys of somebody else begin with."""
QUIET: Final = ("--report", "none", "-q")
STUDY: Final = """
name: owned
question: Does it keep what isn't its own?
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


class Located(Protocol):
    """A system."""

    url: str


@dataclass
class Elsewhere:
    """A system by its address alone."""

    url: str


class Store(Located, Protocol):
    """A system that holds something or nothing."""

    def keys(self) -> set[str]:
        """The keys of all records, without marks and indexes."""

    def put_foreign(self) -> None:
        """Somebody else writes records."""


@dataclass
class Redis:
    testbed: Testbed

    def __post_init__(self) -> None:
        self.url = self.testbed.url

    def ask(self, *words: str) -> Any:
        return connect(self.testbed, self.testbed.nodes[0]).ask(*words)

    def keys(self) -> set[str]:
        return set(self.ask("KEYS", "*")) - {"_indices", "kvmark:dataset"}

    def put_foreign(self) -> None:
        self.ask("SET", f"{FOREIGN}1", "dear")


@dataclass
class Memcached:
    testbed: Testbed

    def __post_init__(self) -> None:
        self.url = self.testbed.url

    def ask(self, *words: str) -> str:
        return str(connect(self.testbed, self.testbed.nodes[0]).ask(*words))

    def keys(self) -> set[str]:
        listed = self.ask("lru_crawler", "metadump", "hash").splitlines()
        keys = {line.split()[0].removeprefix("key=") for line in listed if line.startswith("key=")}
        return keys - {"kvmark%3Adataset"}

    def put_foreign(self) -> None:
        self.ask("set", f"{FOREIGN}1", "0", "0", "4\r\ndear")


@dataclass
class RocksDb:
    """A folder in which somebody else's program writes records, as one more run of kvmark does."""

    user: Kvmark

    def __post_init__(self) -> None:
        self.folder = self.user.folder / "db"
        self.url = f"rocksdb:{self.folder}"
        (self.user.folder / "others.yaml").write_text(OTHERS)

    def keys(self) -> set[str]:
        if not (self.folder / "CURRENT").exists():
            return set()
        console = Console("rocksdb", {"path": str(self.folder)})
        return {key for table in console.ask("TABLES") for key in console.ask("KEYS", table)}

    def put_foreign(self) -> None:
        words = ("--system", self.url, "--load", "always", "--operations", 1, "-q")
        elsewhere = ("--runs", self.user.folder / "others")
        self.user("run", "./others.yaml", *words, *elsewhere, exits=(0, 1))


@pytest.fixture(params=["redis", "memcached", "rocksdb"])
def store(request: pytest.FixtureRequest, kvmark: Kvmark, tmp_path: Path) -> Iterator[Store]:
    """An empty store, which nobody else uses."""
    if request.param == "rocksdb":
        yield RocksDb(kvmark)
        return
    program = {"redis": "redis-server", "memcached": "memcached"}[request.param]
    if shutil.which(program) is None:
        pytest.skip(f"{program} isn't installed: apt-get install {program}")
    root = tmp_path / "testbeds"
    kvmark.more["KVMARK_TESTBEDS"] = str(root)
    try:
        if request.param == "redis":
            yield Redis(redis.up(redis.RedisOptions(), root, lambda _: None))
        else:
            yield Memcached(memcached.up(memcached.MemcachedOptions(memory_bytes=2**26), root))
    finally:
        take_down(root)


def words_of(command: str, store: Located, kvmark: Kvmark) -> tuple[object, ...]:
    """A command that empties the store before it loads its records, and measures for a second."""
    if command == "study":
        (kvmark.folder / "owned.yaml").write_text(STUDY.format(url=store.url))
        return ("study", "owned.yaml", *QUIET)
    work = ("--records", RECORDS, "--operations", 60, "--target", 40, "--repetitions", 2)
    rest = ("--workloads", "load,c", "--interval", "50ms", *QUIET)
    return ("ycsb", "--system", store.url, *work, *rest)


def killed(kvmark: Kvmark, words: Sequence[object]) -> None:
    """Begins a command, and kills it when it has loaded some records, or all."""
    started = kvmark.start(*words)

    def measures() -> bool:
        assert started.poll() is None, started.communicate()
        logs = kvmark.runs.glob("*/intervals.jsonl")
        return any('"measure"' in log.read_text() for log in logs)

    wait_until(measures, "the command has ended an interval")
    kvmark.kill(started)


def refused(kvmark: Kvmark, words: Sequence[object]) -> str:
    """What a command says that removes nothing."""
    ended = kvmark(*words, exits=(1, 2, 3))
    return " ".join((ended.out + ended.err).split())


COMMANDS = pytest.mark.parametrize("command", ["ycsb", "study"])


@COMMANDS
@pytest.mark.parametrize("contents", ["empty", "own", "foreign"])
def test_a_first_pass_begins_with_an_empty_store_alone(
    kvmark: Kvmark, store: Store, command: str, contents: str
) -> None:
    words = words_of(command, store, kvmark)
    if contents == "foreign":
        store.put_foreign()
    else:
        # What an earlier command loaded is not this one's, though kvmark wrote it.
        kvmark(*words, exits=(0, 1))
        assert len(store.keys()) == RECORDS
    if contents == "empty":
        return
    before = store.keys()
    told = refused(kvmark, words)
    assert "already holds" in told
    assert "--on-existing remove" in told
    assert store.keys() == before


@COMMANDS
def test_a_pass_that_goes_on_removes_its_own_records_alone(
    kvmark: Kvmark, store: Store, command: str
) -> None:
    words = words_of(command, store, kvmark)
    killed(kvmark, words)
    before = store.keys()
    assert 0 < len(before) <= RECORDS
    kvmark(*words, "--resume", exits=(0, 1))
    assert store.keys() > before or len(before) == len(store.keys()) == RECORDS


@COMMANDS
def test_a_pass_that_goes_on_keeps_what_somebody_added(
    kvmark: Kvmark, store: Store, command: str
) -> None:
    words = words_of(command, store, kvmark)
    killed(kvmark, words)
    store.put_foreign()
    before = store.keys()
    for _ in range(2):
        told = refused(kvmark, (*words, "--resume"))
        assert f"among them the key '{FOREIGN}" in told
        assert store.keys() == before
    kvmark(*words, "--resume", "--on-existing", "remove", exits=(0, 1))
    assert len(store.keys()) == RECORDS


@COMMANDS
def test_a_pass_that_goes_on_refuses_what_it_refused_at_first(
    kvmark: Kvmark, store: Store, command: str
) -> None:
    words = words_of(command, store, kvmark)
    store.put_foreign()
    before = store.keys()
    refused(kvmark, words)
    told = refused(kvmark, (*words, "--resume"))
    # A sequence that was refused wasn't begun; a study was, with a case that failed.
    assert "already holds" in told or "leave --resume out" in told
    assert store.keys() == before


@COMMANDS
@pytest.mark.parametrize("choice", ["keep", "remove"])
def test_the_user_decides_what_becomes_of_others_records(
    kvmark: Kvmark, store: Store, command: str, choice: str
) -> None:
    store.put_foreign()
    foreign = store.keys()
    words = (*words_of(command, store, kvmark), "--on-existing", choice)
    kvmark(*words, exits=(0, 1))
    kept = foreign if choice == "keep" else set()
    assert store.keys() & foreign == kept
    assert len(store.keys()) == RECORDS + len(kept)


def unremoving(command: str, store: Located) -> tuple[object, ...]:
    """A command that removes nothing from a store."""
    work = f"ycsb/c --system {store.url} --records {RECORDS} --duration 100ms --load always"
    words: dict[str, tuple[object, ...]] = {
        "run": ("run", *work.split()),
        "ab": ("ab", work, "--candidate", "--clients 2", "--repetitions", 4, "--allow",
               "plan,invalid"),
        "capacity": ("capacity", *work.split(), "--slo", "p99<1h", "--within", "50%",
                     "--repetitions", 1, "--warmup", "10ms"),
    }  # fmt: skip
    return words[command]


@pytest.mark.parametrize("command", ["run", "ab", "capacity"])
def test_other_commands_remove_nothing(kvmark: Kvmark, store: Store, command: str) -> None:
    store.put_foreign()
    foreign = store.keys()
    for again in ((), ("--resume",)) if command != "run" else ((),):
        kvmark(*unremoving(command, store), *again, "-q", exits=(0, 1))
        assert foreign <= store.keys()


@dataclass
class Tables:
    """A real node of Cassandra, and the table of one command."""

    testbed: Testbed
    command: str

    def __post_init__(self) -> None:
        self.name = {
            "stress": "keyspace1.standard1", "app": "ybdemo_keyspace.cassandrakeyvalue"
        }[self.command]  # fmt: skip
        keyspace = self.name.partition(".")[0]
        self.ask(f"DROP KEYSPACE IF EXISTS {keyspace}")

    def ask(self, statement: str) -> Any:
        return connect(self.testbed, self.testbed.nodes[0], timeout_s=120).ask(statement)

    def words(self, *own: object) -> tuple[object, ...]:
        """The command, which empties or drops its table first, with more options of kvmark's."""
        address = self.testbed.nodes[0].address
        if self.command == "stress":
            host, _, port = address.partition(":")
            work = "write n=500 truncate=once no-warmup -rate threads=2 -node"
            return ("stress", *own, *work.split(), host, "-port", f"native={port}")
        work = "CassandraKeyValue --nouuid --num_threads_write 1 --num_threads_read 1 --run_time 2"
        own = tuple(map(str, own))
        return ("app", *work.split(), "--nodes", address, "--quiet", *own)

    def make_foreign(self) -> None:
        """Somebody else makes a table of that name, with a row."""
        keyspace = self.name.partition(".")[0]
        one = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        self.ask(f"CREATE KEYSPACE {keyspace} WITH replication = {one}")
        columns = {
            "stress": "key blob PRIMARY KEY, " + ", ".join(f'"C{n}" blob' for n in range(5)),
            "app": "k varchar PRIMARY KEY, v blob",
        }[self.command]
        self.ask(f"CREATE TABLE {self.name} ({columns}) WITH comment = 'dear to me'")
        key, value = {"stress": ("0xff", '"C0"'), "app": ("'dear'", "v")}[self.command]
        into = {"stress": "key", "app": "k"}[self.command]
        self.ask(f"INSERT INTO {self.name} ({into}, {value}) VALUES ({key}, 0x01)")

    def has_foreign(self) -> bool:
        """Whether that row is still there."""
        where = {"stress": "key = 0xff", "app": "k = 'dear'"}[self.command]
        return bool(self.ask(f"SELECT * FROM {self.name} WHERE {where}"))

    def add_own_row(self) -> None:
        """A row that only a removal takes away."""
        key, value = {"stress": ("0xfe", '"C0"'), "app": ("'old'", "v")}[self.command]
        into = {"stress": "key", "app": "k"}[self.command]
        self.ask(f"INSERT INTO {self.name} ({into}, {value}) VALUES ({key}, 0x01)")

    def has_own_row(self) -> bool:
        where = {"stress": "key = 0xfe", "app": "k = 'old'"}[self.command]
        return bool(self.ask(f"SELECT * FROM {self.name} WHERE {where}"))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """One node, which all tests of this file use."""
    root = tmp_path_factory.mktemp("testbeds")
    with cassandra_up(root, cassandra.CassandraOptions(settings=PATIENT)) as node:
        yield node


@pytest.fixture(params=["stress", "app"])
def tables(request: pytest.FixtureRequest, node: Testbed) -> Tables:
    """Nothing is there of the table of a command."""
    return Tables(node, request.param)


def test_a_table_that_kvmark_made_is_emptied_or_dropped_again(
    kvmark: Kvmark, tables: Tables
) -> None:
    kvmark(*tables.words(), exits=(0, 1))
    tables.add_own_row()
    kvmark(*tables.words(), exits=(0, 1))
    assert not tables.has_own_row()


def test_a_table_of_a_killed_pass_is_kvmarks_too(kvmark: Kvmark, tables: Tables) -> None:
    started = kvmark.start(*tables.words())
    wait_until(lambda: any(kvmark.runs.glob("*/intervals.jsonl")), "a run goes")
    kvmark.kill(started)
    kvmark(*tables.words("--resume"), exits=(0, 1))
    tables.add_own_row()
    kvmark(*tables.words(), exits=(0, 1))
    assert not tables.has_own_row()


def test_a_table_that_somebody_made_is_neither_emptied_nor_dropped(
    kvmark: Kvmark, tables: Tables
) -> None:
    tables.make_foreign()
    for own in ((), ("--resume",)):
        told = refused(kvmark, tables.words(*own))
        assert f"table {tables.name} that kvmark can't show to have made" in told
        assert "--on-existing remove" in told
        assert tables.has_foreign()


@pytest.mark.parametrize("choice", ["keep", "remove"])
def test_the_user_decides_what_becomes_of_a_table(
    kvmark: Kvmark, tables: Tables, choice: str
) -> None:
    tables.make_foreign()
    kvmark(*tables.words("--on-existing", choice), exits=(0, 1))
    assert tables.has_foreign() == (choice == "keep")


@pytest.mark.parametrize("command", ["run", "ycsb", "study", "ab", "capacity"])
def test_commands_that_load_records_remove_no_row(
    kvmark: Kvmark, node: Testbed, command: str
) -> None:
    connection = connect(node, node.nodes[0], timeout_s=120)
    one = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    connection.ask(f"CREATE KEYSPACE IF NOT EXISTS ycsb WITH replication = {one}")
    columns = ", ".join(f"field{n} varchar" for n in range(10))
    connection.ask(
        f"CREATE TABLE IF NOT EXISTS ycsb.usertable (y_id varchar PRIMARY KEY, {columns})"
    )
    connection.ask("INSERT INTO ycsb.usertable (y_id, field0) VALUES ('dear', 'x')")
    store = Elsewhere(node.url)
    words = (
        words_of(command, store, kvmark)
        if command in ("ycsb", "study")
        else unremoving(command, store)
    )
    kvmark(*words, "-q", exits=(0, 1))
    assert connection.ask("SELECT * FROM ycsb.usertable WHERE y_id = 'dear'")


def test_a_mark_that_is_somebodys_link_is_not_followed(kvmark: Kvmark) -> None:
    precious, folder = kvmark.folder / "precious", kvmark.folder / "db"
    precious.write_text("mine")
    folder.mkdir()
    (folder / ".kvmark").symlink_to(precious)
    words = ("ycsb", "--system", "rocksdb:db", "--records", 100, "--workloads", "load")
    told = kvmark(*words, "--repetitions", 1, *QUIET, exits=(1, 2, 3))
    assert "can't be marked" in told.out + told.err
    assert precious.read_text() == "mine"


def test_a_folder_that_a_link_leads_to_is_emptied_for_each_repetition(kvmark: Kvmark) -> None:
    (kvmark.folder / "real").mkdir()
    (kvmark.folder / "db").symlink_to("real")
    words = ("ycsb", "--system", "rocksdb:db", "--records", 100, "--workloads", "load,c")
    kvmark(*words, "--repetitions", 2, *QUIET, exits=(0, 1))
    assert (kvmark.folder / "db").is_symlink()
    assert (kvmark.folder / "real" / "CURRENT").exists()


@pytest.mark.parametrize("name", ["000123.log", "000007.sst", "notes.txt"])
def test_files_that_make_no_database_are_somebodys(kvmark: Kvmark, name: str) -> None:
    database = kvmark.folder / "db"
    database.mkdir()
    (database / name).write_text("precious")
    words = ("--records", "100", "--workloads", "load,a", "--repetitions", "1", "--report", "none")
    told = kvmark.refuses("ycsb", "--system", f"rocksdb:{database}", *words, "-q")
    assert "already holds files that make no database" in told
    assert [path.name for path in database.iterdir()] == [name]
