"""Real servers of each kind: started, found, asked, observed, broken, emptied, and stopped."""

import os
import signal
import socket
import ssl
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from kvmark.errors import ForeignFile, SystemUnderTestError, UsageError
from kvmark.secret import Secret
from kvmark.spec.url import parse_system_url
from kvmark.testbed import control, memcached, postgres
from kvmark.testbed.console import Console, connect
from kvmark.testbed.memcached import contents
from kvmark.testbed.observe import Observer
from kvmark.testbed.postgres import PostgresOptions
from kvmark.testbed.process import kill, start
from kvmark.testbed.state import Testbed, owner_of
from programs import needs, script
from redis_testbeds import FIRST, PATIENCE_S, Ask, Up

SECRET = "open-sesame#1"


@dataclass(frozen=True)
class Kind:
    """A kind of servers, and how it is used."""

    name: str
    first: str
    up: Up

    def ask(self, testbed: Testbed, *command: str | int, node: str | None = None) -> Any:
        return connect(testbed, testbed.node(node or self.first), PATIENCE_S).ask(*command)

    def put(self, testbed: Testbed, key: str, node: str | None = None) -> None:
        command = ("SET", key, "x") if self.name == "redis" else (f"set {key} 0 0 1\r\nx",)
        assert self.ask(testbed, *command, node=node) in ("OK", "STORED")

    def has(self, testbed: Testbed, key: str) -> bool:
        get = "GET" if self.name == "redis" else "get"
        return self.ask(testbed, get, key) not in (None, "END")


@pytest.fixture
def some_memcached(root: Path) -> Kind:
    needs("memcached")
    options = partial(memcached.MemcachedOptions, memory_bytes=2**26)
    return Kind("memcached", "node-1", lambda **more: memcached.up(options(**more), root))


@pytest.fixture(params=["redis", "memcached"])
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each kind of servers."""
    if request.param == "redis":
        return Kind("redis", FIRST, request.getfixturevalue("up"))
    made: Kind = request.getfixturevalue("some_memcached")
    return made


EFFECTIVE: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "redis": (
        {"appendonly": True, "appendfsync": "always", "save": "3600 1", "maxclients": 99,
         "settings": (("maxmemory-policy", "allkeys-lru"), ("hz", "20"))},
        {"appendonly": "yes", "appendfsync": "always", "save": "3600 1", "maxclients": "131",
         "maxmemory-policy": "allkeys-lru", "hz": "20"},
    ),
    "memcached": (
        {"threads": 2, "item_size_bytes": 2**21, "maxclients": 68,
         "settings": (("slab-growth-factor", "1.5"), ("disable-evictions", "yes"))},
        {"num_threads": "2", "item_size_max": "2097152", "maxbytes": "67108864",
         "maxconns": "100", "growth_factor": "1.50", "evictions": "off"},
    ),
}  # fmt: skip


# Each kind.


def test_a_server_answers_until_down_and_is_empty_without_a_log(kind: Kind, root: Path) -> None:
    testbed = kind.up()
    assert testbed.url == f"{kind.name}://{testbed.nodes[0].address}"
    assert testbed.version[0].isdigit()
    kind.put(testbed, "key")
    assert control.kill_node(testbed, kind.first)
    assert not testbed.lives
    testbed = control.restart_node(testbed, kind.first)
    assert not kind.has(testbed, "key")
    assert Testbed.read(testbed.folder).lives
    (stopped,) = control.take_down(root, kind.name)
    assert [node.name for node in stopped.nodes] == [kind.first]
    with pytest.raises(SystemUnderTestError, match="Connection refused"):
        kind.put(testbed, "key")


def test_the_last_line_of_an_ended_server_is_quoted(kind: Kind, root: Path, tmp_path: Path) -> None:
    program = script(tmp_path / "sick-server", "echo out of luck\nexit 1")
    sentence = f"{kind.name}/{kind.first} ended by itself: out of luck"
    with pytest.raises(SystemUnderTestError, match=sentence):
        kind.up(server=str(program))
    assert not list(root.iterdir())


def test_a_refused_setting_is_quoted_and_nothing_is_left(kind: Kind, root: Path) -> None:
    setting, sentence = {
        "redis": (("maxmemory-policy", "no"), "refused the setting `maxmemory-policy no`: arg"),
        "memcached": (("no-such", "1"), r"refused an option: .*'--no-such=1'"),
    }[kind.name]
    with pytest.raises(UsageError, match=sentence):
        kind.up(settings=(setting,))
    assert not list(root.iterdir())


def test_options_are_effective_and_in_the_fingerprint(kind: Kind) -> None:
    options, expected = EFFECTIVE[kind.name]
    one, same, other = kind.up(), kind.up(), kind.up(**options)
    known, equal, changed = map(control.describe, (one, same, other))
    assert known["version"] == one.version
    assert not {"requirepass", "masterauth"} & set(known["settings"])
    assert {name: changed["settings"][name] for name in expected} == expected
    assert known["fingerprint"] == equal["fingerprint"] != changed["fingerprint"]


def test_a_password_is_required_and_is_in_private_files_only(kind: Kind) -> None:
    testbed = kind.up(password=Secret(SECRET))
    kind.put(testbed, "key")
    address = {"address": testbed.nodes[0].address}
    if kind.name == "redis":
        files, user = {"password", "redis.conf"}, ""
        with pytest.raises(SystemUnderTestError, match="NOAUTH"):
            Console("redis", address).ask("PING")
    else:
        files, user = {"password", "users"}, "username=kvmark&"
        with pytest.raises(SystemUnderTestError, match="unauthenticated"):
            Console("memcached", address).ask("version")
        stranger = Console("memcached", {"username": "kvmark", **address}, Secret("wrong"))
        with pytest.raises(SystemUnderTestError, match=r"answered the login with CLIENT_ERROR$"):
            stranger.ask("version")
    found = [path for path in testbed.folder.rglob("*") if path.is_file()]
    holders = [path for path in found if SECRET.encode() in path.read_bytes()]
    assert {path.name for path in holders} == files
    assert {stat.S_IMODE(path.stat().st_mode) for path in holders} == {0o600}
    assert testbed.url.endswith(f"?{user}password_file={testbed.folder}/password")
    assert SECRET not in repr(control.describe(testbed)) + repr(testbed)


def test_a_server_is_observed_also_after_a_restart(kind: Kind) -> None:
    testbed = kind.up()
    with closing(Observer(testbed)) as observer:
        before = answered(observer, testbed)
        kind.put(testbed, "key" * 50)
        after = answered(observer, testbed, before["network_received_bytes"] + 150)
        control.kill_node(testbed, kind.first)
        assert observer.sample() == []
        control.restart_node(testbed, kind.first)
        answered(observer, testbed)
    assert after["node"] == kind.first
    assert after["network_sent_bytes"] > before["network_sent_bytes"]
    assert after["resident_bytes"] > 1_000_000
    assert after["cpu_user_s"] + after["cpu_system_s"] >= before["cpu_user_s"]


def answered(observer: Observer, testbed: Testbed, least: int = 0) -> dict[str, Any]:
    """A sample of a server, once it has received that much."""
    seen: list[dict[str, Any]] = []

    def has_answered() -> bool:
        seen[:] = observer.sample()
        return bool(seen) and (seen[0]["network_received_bytes"] or 0) > least

    Testbed.read(testbed.folder).wait_until(has_answered, "answer", PATIENCE_S)
    return seen[0]


# Redis.


def test_a_port_can_be_chosen_and_one_in_use_is_refused(up: Up) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} of 127.0.0.1 is in use: give another"):
            up(port=port)
    assert up(port=port).nodes[0].port == port


def test_a_name_that_leads_to_another_folder_is_refused(up: Up) -> None:
    with pytest.raises(UsageError, match="can't be the name of a testbed"):
        up(name="../cache")


def test_tls_has_a_certificate_of_the_testbeds_own_authority(up: Up, ask: Ask) -> None:
    testbed = up(tls=True)
    assert testbed.url.startswith("rediss://127.0.0.1:")
    assert ask(testbed, FIRST, "PING") == "PONG"
    own = testbed.facts["ca_file"]

    def shake_hands(authority: str | None, name: str) -> None:
        context = ssl.create_default_context(cafile=authority)
        place = ("127.0.0.1", testbed.nodes[0].port)
        with socket.create_connection(place, timeout=PATIENCE_S) as plain:
            context.wrap_socket(plain, server_hostname=name).close()

    shake_hands(own, "localhost")
    shake_hands(own, "127.0.0.1")
    for authority, name in ((None, "localhost"), (own, "example.org")):
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(authority, name)
    assert not (testbed.folder / "tls" / "ca.key").exists()


def test_down_stops_kvmarks_servers_and_no_others(up: Up, root: Path, tmp_path: Path) -> None:
    up()
    up()
    command = ["redis-server", "--port", "0", "--unixsocket", str(tmp_path / "socket")]
    stranger = start([*command, "--save", "", "--dir", str(tmp_path)], tmp_path / "stranger.log")
    try:
        stopped = [(one.name, len(one.nodes)) for one in control.take_down(root)]
        assert stopped == [("redis", 1), ("redis-2", 1)]
        assert psutil.Process(stranger.pid).is_running()
        assert [one.nodes for one in control.take_down(root)] == [(), ()]
    finally:
        kill(stranger)


def test_a_folder_is_removed_unless_it_has_a_foreign_file(up: Up, root: Path) -> None:
    testbed = up(appendonly=True, password=Secret(SECRET), tls=True)
    foreign = testbed.folder / "notes.txt"
    foreign.write_text("mine")
    with pytest.raises(ForeignFile, match=r"notes\.txt was not made by kvmark"):
        control.take_down(root, "redis", remove=True)
    assert testbed.log_of(testbed.nodes[0]).exists()
    foreign.unlink()
    assert [one.removed for one in control.take_down(root, "redis", remove=True)] == [True]
    assert not testbed.folder.exists()


def test_the_owner_of_an_address_is_found_while_its_server_lives(up: Up, root: Path) -> None:
    testbed = up()
    port = testbed.nodes[0].port
    for address in (f"127.0.0.1:{port}", f"me:x@localhost:{port}/1", f"there:1,127.0.0.1:{port}"):
        assert owner_of(address) == testbed
    assert owner_of(f"127.0.0.1:{port + 1}") is None
    control.take_down(root)
    assert owner_of(f"127.0.0.1:{port}") is None


def test_a_paused_server_has_no_network_counters_and_answers_later(up: Up, ask: Ask) -> None:
    testbed = up()
    with closing(Observer(testbed)) as observer:
        answered(observer, testbed)
        assert control.pause_node(testbed, FIRST)
        with pytest.raises(SystemUnderTestError, match="within 100 ms"):
            connect(testbed, testbed.nodes[0], 0.1).ask("PING")
        assert testbed.lives
        (paused,) = observer.sample()
        assert paused["network_sent_bytes"] is None
        assert paused["resident_bytes"] > 0
        assert control.resume_node(testbed, FIRST)
        answered(observer, testbed)
    assert ask(testbed, FIRST, "PING") == "PONG"


def test_a_damaged_description_is_reported_with_advice(root: Path) -> None:
    damaged = root / "redis" / "testbed.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{")
    with pytest.raises(SystemUnderTestError, match="stop its servers and remove the folder"):
        control.take_down(root)
    damaged.unlink()


# memcached.


def test_items_of_several_servers_are_counted_and_removed_at_once(some_memcached: Kind) -> None:
    testbed = some_memcached.up(nodes=2, tls=True)
    url = parse_system_url(testbed.url)

    def items() -> Any:
        return contents(url.options, url.password)

    assert [node.name for node in testbed.nodes] == ["node-1", "node-2"]
    addresses = ",".join(node.address for node in testbed.nodes)
    assert testbed.url.startswith(f"memcached://{addresses}?tls=true&ca_file=")
    assert items().found is None
    for key, node in (("one", "node-1"), ("two", "node-2"), ("three", "node-2")):
        some_memcached.put(testbed, key, node)
    assert items().found == "3 items"
    items().remove()
    assert not some_memcached.has(testbed, "one")
    # The server counts flushed items until it visits them.
    assert items().found is None
    some_memcached.put(testbed, "other")
    assert items().found == "1 items"


def test_a_replica_has_its_primarys_data_also_after_it_was_killed(up: Up, ask: Ask) -> None:
    testbed = up(replicas=1, password=Secret("sesame"))
    assert [node.role for node in testbed.nodes] == ["primary", "replica"]
    ask(testbed, "primary-1", "SET", "key", "value")
    assert ask(testbed, "primary-1", "WAIT", 1, 30_000) == 1
    assert ask(testbed, "replica-1", "GET", "key") == "value"
    control.kill_node(testbed, "replica-1")
    ask(testbed, "primary-1", "SET", "key", "other")
    testbed = control.restart_node(testbed, "replica-1")
    control.wait_until_healthy(testbed)
    assert ask(testbed, "replica-1", "GET", "key") == "other"


def test_servers_are_started_again_one_by_one_while_others_are_down(up: Up) -> None:
    testbed = up(replicas=1)
    for name in ("primary-1", "replica-1"):
        control.kill_node(testbed, name)
    for name in ("replica-1", "primary-1"):
        testbed = control.restart_node(testbed, name)
    control.wait_until_healthy(testbed)
    assert testbed.lives


def test_a_cluster_serves_all_slots_and_redirects_clients(up: Up, ask: Ask, root: Path) -> None:
    testbed = up(cluster=3, replicas=1, password=Secret("sesame"), tls=True)
    assert [node.role for node in testbed.nodes] == ["primary"] * 3 + ["replica"] * 3
    primaries = ",".join(node.address for node in testbed.nodes[:3])
    assert testbed.url.startswith(f"rediss://{primaries}?cluster=true&")
    assert "cluster_state:ok" in ask(testbed, "replica-3", "CLUSTER", "INFO")
    served = ask(testbed, "primary-2", "CLUSTER", "SLOTS")
    assert sum(last - first + 1 for first, last, *_ in served) == 16_384
    ports = [node.port for node in testbed.nodes]
    followed = {holders[0][1]: [one[1] for one in holders[1:]] for _, _, *holders in served}
    assert followed == {ports[index]: [ports[index + 3]] for index in range(3)}
    # The key's slot is the last primary's.
    assert ask(testbed, "primary-3", "SET", "a", "value") == "OK"
    with pytest.raises(SystemUnderTestError, match=f"MOVED 15495 {testbed.nodes[2].address}"):
        ask(testbed, "primary-1", "GET", "a")
    assert [len(one.nodes) for one in control.take_down(root, remove=True)] == [6]


# PostgreSQL.

SMALL = (("shared_buffers", "16MB"), ("fsync", "off"))


@pytest.fixture
def some_postgres(root: Path) -> Up:
    needs("postgres")
    return lambda **more: postgres.up(PostgresOptions(**{"settings": SMALL, **more}), root)


def query(testbed: Testbed, statement: str) -> Any:
    return connect(testbed, testbed.nodes[0], PATIENCE_S).ask(statement)


def test_a_postgres_is_killed_and_paused_with_all_its_processes(some_postgres: Up) -> None:
    testbed = some_postgres(maxclients=50, password=Secret(SECRET), tls=True)
    assert testbed.version[0].isdigit()
    query(testbed, "CREATE TABLE t (n int); INSERT INTO t VALUES (7)")
    settings = control.describe(testbed)["settings"]
    assert (settings["max_connections"], settings["shared_buffers"]) == ("82", "2048")
    found = [path for path in testbed.folder.rglob("*") if path.is_file()]
    assert [path.name for path in found if SECRET.encode() in path.read_bytes()] == ["password"]
    with closing(Observer(testbed)) as observer:
        (row,) = observer.sample()
    assert testbed.nodes[0].process is not None
    server = psutil.Process(testbed.nodes[0].process.pid)
    assert row["resident_bytes"] > server.memory_info().rss
    session = connect(testbed, testbed.nodes[0], 0.5)
    assert session.ask("SELECT n FROM t") == [{"n": "7"}]
    assert control.pause_node(testbed, "node-1")
    with pytest.raises(SystemUnderTestError, match="within 500 ms"):
        session.ask("SELECT n FROM t")
    assert control.resume_node(testbed, "node-1")
    children = server.children()
    assert control.kill_node(testbed, "node-1")
    assert psutil.wait_procs(children, PATIENCE_S)[1] == []
    # The number of a killed process may still exist, or be another's.
    lock = testbed.folder_of(testbed.nodes[0]) / "data" / "postmaster.pid"
    lock.write_text(lock.read_text().replace(str(server.pid), str(os.getpid()), 1))
    testbed = control.restart_node(testbed, "node-1")
    assert query(testbed, "SELECT n FROM t") == [{"n": "7"}]
    # A connected client doesn't delay the end.
    assert control.stop_node(testbed, "node-1")
    assert "database system is shut down" in testbed.log_of(testbed.nodes[0]).read_text()


def test_a_setting_that_postgres_refuses_is_quoted(some_postgres: Up, root: Path) -> None:
    with pytest.raises(UsageError, match=r'refused a setting: .*parameter "no_such"'):
        some_postgres(settings=(("no_such", "1"),))
    with pytest.raises(UsageError, match="set: port is the testbed's own; give --port"):
        some_postgres(settings=(("port", "1"),))
    assert not list(root.iterdir())


def test_rows_that_a_policy_hides_and_rows_without_a_key_are_not_kvmarks(
    some_postgres: Up,
) -> None:
    testbed = some_postgres()
    query(
        testbed,
        """
        CREATE ROLE app LOGIN; CREATE TABLE usertable (ycsb_key varchar, field0 text);
        ALTER TABLE usertable ENABLE ROW LEVEL SECURITY; GRANT ALL ON usertable TO app;
        CREATE POLICY own ON usertable USING (ycsb_key LIKE 'user%') WITH CHECK (true);
        INSERT INTO usertable VALUES ('user1'), ('customer')
        """,
    )
    url = parse_system_url(testbed.url)
    with pytest.raises(SystemUnderTestError, match="row-level security policy"):
        postgres.contents({**url.options, "username": "app"}, None)
    query(testbed, "TRUNCATE usertable; INSERT INTO usertable VALUES (NULL)")
    (foreign,) = [postgres.contents(url.options, url.password).foreign(lambda _: True)]
    assert foreign == "a row of public.usertable without a key"
    assert postgres.SYSTEM.own_files.fullmatch("node-1/data/base/5/1255_fsm")
    assert not postgres.SYSTEM.own_files.fullmatch("node-1/data/backup/dump.sql")


def test_tables_of_records_are_found_and_removed_and_no_others(some_postgres: Up) -> None:
    testbed = some_postgres()
    url = parse_system_url(testbed.url)

    def records() -> Any:
        return postgres.contents(url.options, url.password)

    query(testbed, "CREATE TABLE mine (k text); INSERT INTO mine VALUES ('precious')")
    query(testbed, "CREATE TABLE usertable (ycsb_key text PRIMARY KEY)")
    assert (records().found, records().claim) == (None, None)
    records().mark("it's mine")
    query(testbed, "INSERT INTO usertable SELECT $$a'$$ || n FROM generate_series(1, 20001) n")
    assert (records().found, records().claim) == ("records in public.usertable", "it's mine")
    assert records().foreign(lambda key: key.startswith("a'")) is None
    assert records().foreign(lambda key: key != "a'9999") == """the key "a'9999\""""
    records().remove()
    assert (records().found, records().claim) == (None, None)
    rows = query(testbed, "SELECT (SELECT count(*) FROM usertable) AS n, k FROM mine")
    assert rows == [{"n": "0", "k": "precious"}]


PASSWORD = "se:s@me/%"
Serve = Callable[[Callable[[socket.socket], None]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves one connection with a function; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def begin(talk: Callable[[socket.socket], None]) -> str:
            def accept() -> None:
                with listener.accept()[0] as connection:
                    talk(connection)

            threading.Thread(target=accept, daemon=True).start()
            return f"127.0.0.1:{listener.getsockname()[1]}"

        yield begin


def test_an_interruption_ends_the_wait_for_an_answer(serve: Serve) -> None:
    def interrupt(connection: socket.socket) -> None:
        connection.recv(100)
        os.kill(os.getpid(), signal.SIGINT)
        # Until the other end has gone.
        connection.recv(100)

    console = Console("redis", {"address": serve(interrupt), "connect_timeout_ms": "3600000"})
    with pytest.raises(KeyboardInterrupt):
        console.ask("PING")
    with pytest.raises(SystemUnderTestError, match="was interrupted"):
        console.ask("PING")


def test_a_password_goes_to_the_server_and_into_no_error(serve: Serve) -> None:
    heard: list[bytes] = []

    def repeat(connection: socket.socket) -> None:
        heard.append(connection.recv(1000))
        connection.sendall(b"-ERR unknown command " + PASSWORD.encode() + b"\r\n")

    options = {"address": serve(repeat), "username": "ann", "password_env": "NOWHERE"}
    with pytest.raises(SystemUnderTestError, match="the login with ERR") as refused:
        Console("redis", options, Secret(PASSWORD)).ask("PING")
    assert f"ann\r\n$9\r\n{PASSWORD}\r\n".encode() in heard[0]
    assert PASSWORD not in str(refused.value)


def test_what_is_no_server_cannot_be_asked() -> None:
    with pytest.raises(UsageError, match="driver 'null' has no server that could be asked"):
        Console("null", {})
    with pytest.raises(UsageError, match="no driver 'such'"):
        Console("such", {})
    with pytest.raises(UsageError, match="there is no option 'such'"):
        Console("redis", {"such": "1"})
