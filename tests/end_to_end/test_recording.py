"""A tap between clients and servers: its trace, clients that don't notice it, and replays."""

import re
import socket
import subprocess
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import polars as pl
import pytest
from command_line import Kvmark, Started, trace_rows
from hypothesis import Phase, example, given, seed, settings
from hypothesis import strategies as st
from real_servers import command_counts, memcached_up, monitored, redis_cli, redis_up
from scripted_store import command, read_reply, store

from kvmark.testbed.state import Testbed
from waiting import wait_until


@dataclass
class Tap:
    """A started tap, the port for its clients, and its trace."""

    started: Started
    port: int
    trace: Path

    def end(self) -> str:
        """Ends the recording and returns the output."""
        return self.started.interrupt(exits=0).out

    def cli(self, *words: str, text: str | None = None) -> str:
        """The output of redis-cli through the tap."""
        return redis_cli(self.port, *words, text=text)

    def benchmark(self, *words: str) -> None:
        """Runs redis-benchmark through the tap."""
        command = ["redis-benchmark", "-p", str(self.port), "-q", *words]
        subprocess.run(command, check=True, capture_output=True)

    def connect(self, sent: bytes = b"") -> socket.socket:
        """A connection on which these bytes were sent."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.sendall(sent)
        return connection

    def wait_for_bytes(self, count: int) -> None:
        """Waits until the tapes have more than this number of bytes."""
        wait_until(
            lambda: sum(tape.stat().st_size for tape in self.trace.glob("*.tape")) > count,
            f"{count} bytes are recorded",
        )

    def contents(self) -> bytes:
        """All files of the trace."""
        return b"".join(path.read_bytes() for path in self.trace.iterdir())

    def error(self) -> str:
        """The next line of its standard error."""
        assert self.started.process.stderr is not None
        return self.started.process.stderr.readline()


def tap(user: Kvmark, url: str, options: str = "", trace: str = "t.trace") -> Tap:
    """Starts to record a trace."""
    started = user.start(f"trace record --listen 0 --to {url} -o {trace} --threads 2 {options}")
    made = Tap(started, 0, user.folder / trace)
    line = made.error()
    match = re.fullmatch(r"Clients are taken at 127\.0\.0\.1:(\d+) until Ctrl-C(.*)\n", line)
    assert match is not None, line + started.process.communicate()[1]
    names = {"--keep-keys": "keys", "--keep-values": "values that are written"}
    note = " and ".join(name for option, name in names.items() if option in options)
    assert match[2] == (f"; {note} are kept as they are" if note else "")
    made.port = int(match[1])
    return made


def verbs(rows: pl.DataFrame) -> dict[str, int]:
    """The operations of a trace by verb."""
    first = rows.filter(pl.col("items") > 0)
    counted = first.group_by(pl.col("statement").str.split(" ").list.first()).len()
    return {name.lower(): count for name, count in counted.iter_rows()}


def test_traces_of_a_tap_and_of_monitor_have_the_commands_that_redis_counted(user: Kvmark) -> None:
    testbed = redis_up(user)
    port = testbed.nodes[0].port
    recorded = tap(user, testbed.url)
    with monitored(port, user.folder / "m.txt"):
        before = command_counts(port)
        for words in (("-n", "2000", "-P", "16"), ("-n", "300")):
            recorded.benchmark("-r", "50", *words, "-t", "set,get,mset")
        piped = "".join(f"SET pipe{number} {'x' * number}\r\n" for number in range(1, 1001))
        assert "errors: 0, replies: 1000" in recorded.cli("--pipe", text=piped)
        recorded.cli("eval", "return redis.call('set', KEYS[1], 'x')", "1", "inner")
        after = command_counts(port)
    recorded.cli(text="MULTI\nSET m 1\nGET m\nEXEC\nMULTI\nSET m 2\nDISCARD\n")
    recorded.cli("-3", "hgetall", "none")
    wrong = recorded.connect(b"*1\r\n$3\r\nabcdef\r\n")
    assert wrong.recv(100)
    assert recorded.cli("get", "m") == "1\n"
    out = recorded.end()
    wrong.close()
    assert "bytes weren't the protocol, and weren't recorded any more: 1 (a word is" in out
    assert "Commands of transactions that weren't carried out are left out: 1" in out
    counts = verbs(trace_rows(recorded.trace))
    assert [counts[name] for name in ("multi", "exec", "discard", "hello")] == [2, 1, 1, 1]
    # No client sent the script's set; the tap recorded another one, and two gets.
    sent = {name: after[name] - before.get(name, 0) for name in ("set", "get", "mset", "eval")}
    sent["set"] -= 1
    assert [counts[name] - count for name, count in sent.items()] == [1, 2, 0, 0]
    user("trace import m.txt -o m.trace")
    answer = user("trace show m.trace --json").json["answer"]
    monitor = {one["name"].split()[0].lower(): one["operations"] for one in answer["statements"]}
    assert {name: monitor[name] for name in sent} == sent
    assert "commands that scripts sent are left out: 1" in answer["told"]


SESSION = (
    "SET k value EX 60", "GET k", "get none", "SETEX k 30 v", "MSET a 1 b 22", "MGET a b c",
    "HSET h f 12 g 345", "HGETALL h", "LPUSH l one two", "LRANGE l 0 -1", "RPOP l", "INCR n",
    "EXPIRE k 100", "PEXPIRE k 100000", "ZADD z 1 m", "ZRANGE z 0 -1", "SADD s x y", "SPOP s",
    "MULTI", "SET t 1 PX 5000", "GET t", "EXEC", "DEL k a none", "UNLINK b", "EXISTS h l",
    "EVAL return'x' 1 k", "SETRANGE r 3 xyz", "APPEND r tail", "STRLEN r", "TTL r", "ECHO hi",
    "GETDEL r", "GETEX h2 EX 10", "XADD x * f v", "TYPE h", 'SET "a key" "\\x00\\xff"', "PING",
)  # fmt: skip


def test_a_tap_and_monitor_record_the_same_session(user: Kvmark) -> None:
    testbed = redis_up(user)
    (user.folder / "key").write_bytes(bytes(range(16)))
    recorded = tap(user, testbed.url, "--hash-key key")
    with monitored(testbed.nodes[0].port, user.folder / "m.txt"):
        recorded.cli(text="".join(f"{line}\n" for line in (*SESSION, "ECHO 'the end'")))
    recorded.end()
    user("trace import m.txt -o m.trace", "--hash-key", "key")
    names = ["kind", "statement", "key", "key_size", "ttl_ms", "items"]
    # redis-cli sends COMMAND by itself, and `monitored` the last ECHO.
    taps, monitors = (
        trace_rows(trace).filter(pl.col("statement") != "COMMAND")
        for trace in (recorded.trace, user.folder / "m.trace")
    )
    monitors = monitors[: len(taps)]
    assert taps.select(names).rows() == monitors.select(names).rows()
    writes = monitors["value_size"].is_not_null()
    assert taps.filter(writes)["value_size"].equals(monitors.filter(writes)["value_size"])
    reads = taps.filter(pl.col("kind") == "read").select("statement", "value_size").rows()
    assert reads[:5] == [
        ("GET {key}", 5), ("GET {key}", None), ("MGET {key}", 1), ("MGET {key}", 2),
        ("MGET {key}", None),
    ]  # fmt: skip


def test_a_trace_has_ends_and_outcomes(user: Kvmark) -> None:
    recorded = tap(user, redis_up(user).url)
    recorded.cli(text="SET k value\nGET k\nGET none\nLPUSH k x\n")
    recorded.end()
    rows = trace_rows(recorded.trace, "completed_ns", "outcome").filter(
        pl.col("statement") != "COMMAND"
    )
    assert rows["outcome"].to_list() == ["ok", "ok", "miss", "refused"]
    # redis-cli sends a command after the reply to the one before.
    ends = [*rows["at_ns"][1:], None]
    for at_ns, completed_ns, next_ns in zip(rows["at_ns"], rows["completed_ns"], ends, strict=True):
        assert at_ns < completed_ns
        assert next_ns is None or completed_ns <= next_ns


def test_the_recording_of_a_running_or_killed_tap_can_be_imported(user: Kvmark) -> None:
    recorded = tap(user, redis_up(user).url, "--keep-keys")
    recorded.cli("set", "k", "v")
    recorded.wait_for_bytes(0)
    user("trace import t.trace -o x.trace")
    assert verbs(trace_rows(user.folder / "x.trace"))["set"] == 1
    recorded.benchmark("-t", "set,get", "-n", "20000", "-P", "8")
    recorded.wait_for_bytes(30_000 * 64)
    recorded.cli("set", "someone", "something")
    wait_until(lambda: b"someone" in recorded.contents(), "the last command is recorded")
    recorded.started.kill()
    assert b"something" not in recorded.contents()
    sentence = user.refuses("trace show t.trace")
    assert "make a trace of what is there by kvmark trace import t.trace -o Y.trace" in sentence
    sentence = user.refuses("trace import t.trace -o z.trace --keep-values")
    assert "recorded without values" in sentence
    out = user("trace import t.trace -o y.trace").out
    assert "The recording was interrupted: pending operations are missing." in out
    rows = trace_rows(user.folder / "y.trace", "key_content")
    assert 30_000 < rows["statement"].str.contains("^(GET|SET) ").sum() <= 40_002
    assert rows.select("statement", "key_content").row(-1) == ("SET {key} {value}", b"someone")
    assert user("trace show y.trace --json").json["answer"]["operations"] >= 30_000


def exchange(connection: socket.socket, sent: bytes, end: bytes) -> bytes:
    """Sends bytes and returns the reply up to its end."""
    connection.sendall(sent)
    reply = b""
    while not reply.endswith(end):
        part = connection.recv(1 << 16)
        assert part, reply
        reply += part
    return reply


def test_a_trace_has_the_commands_that_memcached_counted(user: Kvmark) -> None:
    testbed = memcached_up(user)
    recorded = tap(user, testbed.url)

    def stats() -> dict[str, int]:
        with socket.create_connection(("127.0.0.1", testbed.nodes[0].port)) as own:
            fields = re.findall(rb"STAT (cmd_\w+) (\d+)", exchange(own, b"stats\r\n", b"END\r\n"))
        return {name.decode(): int(count) for name, count in fields}

    before = stats()
    sets = b"".join(b"set k%d 0 60 3\r\nabc\r\n" % number for number in range(500))
    with recorded.connect() as connection:
        for sent, end in (
            (sets, b"STORED\r\n" * 500),
            (b"set q 0 0 1 noreply\r\nx\r\nget q\r\n", b"VALUE q 0 1\r\nx\r\nEND\r\n"),
            (b"get k1 none k2\r\n", b"END\r\n"),
            (b"mg k1 v\r\nms m 2 T90\r\nok\r\nmn\r\n", b"MN\r\n"),
            (b"touch k1 100\r\ndelete k1\r\n", b"DELETED\r\n"),
        ):
            exchange(connection, sent, end)
    recorded.connect(b"\x80\x0b" + bytes(22)).close()
    after = stats()
    out = recorded.end()
    assert "weren't recorded any more, because of the binary protocol: 1" in out
    rows = trace_rows(recorded.trace)
    counts = verbs(rows)
    assert counts["set"] + counts["ms"] == after["cmd_set"] - before["cmd_set"] == 502
    gets = rows["statement"].is_in(["get {key}", "mg {key}"]).sum()
    assert gets == after["cmd_get"] - before["cmd_get"] == 5
    sizes = rows.filter(pl.col("statement") == "get {key}")["value_size"].to_list()
    assert sizes == [1, 3, None, 3]
    meta = rows.filter(pl.col("statement") == "ms {key} {value} {ttl}")
    assert meta["ttl_ms"].to_list() == [90_000]


def peak_memory(pid: int) -> int:
    """The most bytes of memory that a process has had."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match[1]) * 1024


def test_a_value_of_512_mb_takes_no_memory(user: Kvmark) -> None:
    recorded = tap(user, redis_up(user).url)
    recorded.cli("set", "small", "x")
    before, size = peak_memory(recorded.started.process.pid), 512 << 20
    chunk = bytes(1 << 20)
    with recorded.connect(b"*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n" % size) as connection:
        for _ in range(512):
            connection.sendall(chunk)
        assert exchange(connection, b"\r\n", b"\r\n") == b"+OK\r\n"
        connection.sendall(b"GET big\r\n")
        left = size + len(f"${size}\r\n\r\n")
        while left:
            left -= len(connection.recv(1 << 20))
    assert peak_memory(recorded.started.process.pid) - before < 64 << 20
    recorded.end()
    big = trace_rows(recorded.trace).filter(pl.col("key_size") == 3)
    assert big["value_size"].to_list() == [size, size]


def test_a_tap_forwards_beyond_its_disk_limit(user: Kvmark) -> None:
    recorded = tap(user, redis_up(user).url, "--disk 100k")
    recorded.benchmark("-t", "set", "-n", "20000", "-P", "8")
    assert "Recording has ended, and forwarding goes on" in recorded.error()
    assert recorded.cli("set", "k", "after") == "OK\n"
    out = recorded.end()
    assert (
        "Recording ended before forwarding did: the tapes have reached the limit of --disk" in out
    )
    assert 0 < len(trace_rows(recorded.trace)) <= 1600


def test_clients_without_tls_can_tap_a_server_with_tls(user: Kvmark) -> None:
    recorded = tap(user, redis_up(user, tls=True).url)
    assert recorded.cli("set", "k", "x" * 100_000) == "OK\n"
    assert recorded.cli("get", "k") == "x" * 100_000 + "\n"
    recorded.end()
    assert verbs(trace_rows(recorded.trace)) == {"set": 1, "get": 1}


def test_a_subscription_ends_the_recording_of_its_connection(user: Kvmark) -> None:
    recorded = tap(user, redis_up(user).url)
    with recorded.connect(b"GET k\r\nSUBSCRIBE news\r\n") as connection:
        assert b"subscribe" in exchange(connection, b"", b":1\r\n")
        recorded.cli("publish", "news", "hello")
        assert b"hello" in exchange(connection, b"", b"hello\r\n")
    out = recorded.end()
    assert "weren't recorded any more, because of SUBSCRIBE: 1" in out
    assert verbs(trace_rows(recorded.trace))["get"] == 1


def test_redirections_past_the_tap_are_reported(user: Kvmark) -> None:
    testbed = redis_up(user, cluster=3)
    recorded = tap(user, f"redis://{testbed.nodes[0].address}")
    replies = [recorded.cli("get", f"key{number}") for number in range(30)]
    moved = sum("MOVED" in reply for reply in replies)
    assert 0 < moved < 30
    assert f"Replies that sent clients past the tap (MOVED): {moved}; put one" in recorded.end()


def test_a_tap_ends_after_its_duration(user: Kvmark) -> None:
    testbed = redis_up(user)
    words = f"trace record --listen 0 --to {testbed.url} -o t.trace --duration 200ms"
    assert "kvmark: nothing was recorded" in user(words, exits=3).err
    assert not (user.folder / "t.trace").exists()
    assert redis_cli(testbed.nodes[0].port, "ping") == "PONG\n"


def test_a_recording_of_cql_is_replayed(user: Kvmark, node: Testbed) -> None:
    recorded = tap(user, node.url, "--keep-keys")
    words = "--records 100 --operations 500 --clients 4 --workers 1 --load always -q"
    user(f"run cql/kv --system cql://127.0.0.1:{recorded.port} {words}", exits=(0, 1))
    recorded.end()
    rows = trace_rows(recorded.trace, "outcome", "key_content")
    # The driver's own statements are missing.
    assert len(rows) == 600
    assert set(rows["kind"]) == {"read", "update"}
    assert rows["outcome"].unique().to_list() == ["ok"]
    assert rows["key_content"].n_unique() == 100
    replay = f"replay t.trace --system {node.url} --speed max --load never --json"
    result = user(replay, exits=(0, 1)).json
    assert result["run"]


def strings(port: int) -> dict[str, str]:
    """All strings of a server."""
    return {key: redis_cli(port, "get", key) for key in redis_cli(port, "--scan").split()}


def test_kept_keys_and_values_are_replayed_unchanged(user: Kvmark) -> None:
    testbed = redis_up(user)
    port = testbed.nodes[0].port
    recorded = tap(user, testbed.url, "--keep-keys --keep-values")
    for number in range(50):
        recorded.cli("set", f"user:{number}", f"value-{number * number}")
    recorded.cli(text="HELLO 3 AUTH default hunter2\nAUTH hunter2\nGET user:7\nDEL user:8\n")
    assert "Keys and values that are written are kept as they were." in recorded.end()
    assert b"hunter2" not in recorded.contents()
    assert "Keys and values that are written are kept" in user("trace show t.trace").out
    before = strings(port)
    assert len(before) == 49
    redis_cli(port, "flushall")
    words = f"replay t.trace --skip hello,auth,command --system {testbed.url} --speed max -q"
    user(words, exits=(0, 1))
    assert strings(port) == before
    assert "verify: t.trace has the very keys" in user.refuses(words, "--verify")


def test_wrong_use_is_refused(user: Kvmark) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, part in (
            (
                f"{port} --to redis://127.0.0.1:{port}",
                f"can't listen at 127.0.0.1:{port}: Address",
            ),
            ("a:b --to redis://a", "--listen: 'a:b' is no port, and no HOST:PORT"),
            ("0 --to mongodb://a", "a tap understands redis, memcached and cql, and not m"),
            ("0 --to redis://me:pw@a", "--to: clients log in by themselves"),
            ("0 --to redis://a,b", "--to: a tap is before one server"),
            ("0 --to redis://a?cluster=true", "--to: a tap has no use for cluster"),
            ("0 --to redis://a --memory 1k", "--memory: a tap needs 1M at least"),
            ("0 --to redis://a --disk much", "'much' is not a size; write it like 64M or 10G"),
        ):
            assert part in user.refuses(f"trace record -o t.trace --listen {words}")
    err = user("trace record -o t.trace --listen 0 --to redis://127.0.0.1:1", exits=3).err
    assert err.startswith("kvmark: can't use the server at 127.0.0.1:1: it can't be reached")
    assert err.count("\n") == 1
    assert not list(user.folder.iterdir())


KINDS = {"read": "read", "update": "update", "insert": "update", "delete": "delete"}
Command = tuple[str, ...]
Batch = tuple[int, tuple[Command, ...]]
"""A client and the commands that it sends at once."""
Operation = tuple[str, int | None, int | None]
"""Its kind, bytes written or read, and time to live."""
History = tuple[int, tuple[Operation, ...]]
"""The size of a key, and its operations."""


def send(tap: Tap, batches: Sequence[Batch]) -> None:
    """Sends one batch after the other; each client has a connection."""
    clients: dict[int, tuple[socket.socket, BinaryIO]] = {}
    with ExitStack() as stack:
        for client, commands in batches:
            if client not in clients:
                connection = stack.enter_context(tap.connect())
                clients[client] = (connection, stack.enter_context(connection.makefile("rb")))
            connection, replies = clients[client]
            connection.sendall(b"".join(command(map(str.encode, words)) for words in commands))
            for _ in commands:
                read_reply(replies)


def histories(trace: Path) -> Counter[History]:
    """The operations on each key, without its name."""
    columns = ("kind", "key", "key_size", "value_size", "ttl_ms")
    operations: dict[tuple[int, int], list[Operation]] = {}
    for kind, key, key_size, value_size, ttl_ms in trace_rows(trace).select(columns).iter_rows():
        if kind in KINDS:
            operations.setdefault((key, key_size), []).append((KINDS[kind], value_size, ttl_ms))
    return Counter((size, tuple(history)) for (_, size), history in operations.items())


def replayed(recorded: Counter[History]) -> Counter[History]:
    """The histories of a replay: keys of at least ten bytes, and keys that are read first exist."""
    made: Counter[History] = Counter()
    for (key_size, history), keys in recorded.items():
        kind, value_size, _ = history[0]
        first = (("update", value_size, None),) if kind == "read" and value_size else ()
        made[(max(key_size, 10), (*first, *history))] += keys
    return made


KEY = st.integers(0, 11).map(lambda number: "k" * (number % 3 * 9) + f"key{number}")
VALUE = st.integers(1, 60).map(lambda size: "v" * size)
COMMAND = st.one_of(
    st.tuples(st.just("GET"), KEY),
    st.tuples(st.just("SET"), KEY, VALUE),
    st.tuples(st.just("set"), KEY, VALUE, st.just("EX"), st.just("500")),
    st.tuples(st.just("SETEX"), KEY, st.just("700"), VALUE),
    st.lists(KEY, min_size=1, max_size=4, unique=True).map(lambda keys: ("MGET", *keys)),
    st.lists(KEY, min_size=1, max_size=3, unique=True).map(lambda keys: ("DEL", *keys)),
)
BATCHES = st.lists(
    st.tuples(st.integers(0, 3), st.lists(COMMAND, min_size=1, max_size=12).map(tuple)),
    min_size=1, max_size=20,
)  # fmt: skip


ONLY_KEY_NOT_FOUND: list[Batch] = [(0, (("DEL", "key0"), ("MGET", "key0"), ("GET", "key0")))]
"""A list of one null has no size: the tap said 0."""


@seed(1)
@example(existing={}, batches=ONLY_KEY_NOT_FOUND, clients=1)
@given(existing=st.dictionaries(KEY, VALUE, max_size=6), batches=BATCHES, clients=st.integers(1, 8))
@settings(max_examples=2, deadline=None, database=None, phases=(Phase.explicit, Phase.generate))
def test_the_trace_of_a_replay_equals_its_trace(
    tmp_path_factory: pytest.TempPathFactory,
    existing: dict[str, str],
    batches: list[Batch],
    clients: int,
) -> None:
    folder = tmp_path_factory.mktemp("round")
    variables = {"XDG_CACHE_HOME": str(folder / "cache")}
    with closing(Kvmark(folder, folder / "runs", variables)) as user:
        with store() as first:
            first.values.update((key.encode(), value.encode()) for key, value in existing.items())
            # Each verb reads a value first, so that the tap knows a miss by its size.
            first.values[b"the first of all"] = b"value"
            recorded = tap(user, f"redis://127.0.0.1:{first.port}", trace="a.trace")
            send(
                recorded,
                [(0, (("GET", "the first of all"), ("MGET", "the first of all"))), *batches],
            )
            recorded.end()
        for before, after in (("a", "b"), ("b", "c")):
            with store() as fresh:
                recorded = tap(user, f"redis://127.0.0.1:{fresh.port}", trace=f"{after}.trace")
                system = f"--system redis://127.0.0.1:{recorded.port} --clients {clients}"
                words = f"replay {before}.trace {system} --speed max --skip other -q"
                user(words, exits=(0, 1))
                recorded.end()
    sent = histories(folder / "b.trace")
    assert sent == replayed(histories(folder / "a.trace"))
    assert histories(folder / "c.trace") == sent
