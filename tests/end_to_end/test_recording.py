"""A tap between clients and real servers: what it records, and that it breaks nothing."""

import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from command_line import Kvmark

from kvmark.testbed import memcached, redis
from kvmark.testbed.state import Testbed
from kvmark.trace import COLUMNS, Trace
from waiting import wait_until


@dataclass
class Tap:
    """A tap that goes, and where its clients go."""

    user: Kvmark
    process: subprocess.Popen[str]
    port: int

    def end(self) -> str:
        """Ctrl-C; what is printed then."""
        self.process.send_signal(signal.SIGINT)
        return self.user.finish(self.process, 0).out

    def rows(self, name: str = "t.trace", *more: str) -> pl.DataFrame:
        """The trace's, with these optional columns."""
        return pl.concat(Trace.open(self.user.folder / name).batches((*COLUMNS, *more)))

    def cli(self, *words: str, text: str | None = None) -> str:
        """What redis-cli says through it."""
        return cli(self.port, *words, text=text)

    def raw(self, sent: bytes) -> socket.socket:
        """A connection on which this was sent."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.sendall(sent)
        return connection


Tapped = Callable[..., Tap]


@pytest.fixture
def tapped(user: Kvmark) -> Iterator[Tapped]:
    """Begins taps, and ends those that a failed test left."""
    begun: list[subprocess.Popen[str]] = []

    def begin(url: str, *words: object) -> Tap:
        listen = ("--listen", 0, "--to", url, "-o", "t.trace", "--threads", 2)
        process = user.start("trace", "record", *listen, *words)
        begun.append(process)
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.fullmatch(r"Clients are taken at 127\.0\.0\.1:(\d+) until Ctrl-C(.*)\n", said)
        kept = " and ".join(
            what
            for option, what in (
                ("--keep-keys", "keys"),
                ("--keep-values", "values that are written"),
            )
            if option in words
        )
        assert found is not None, said + process.stderr.read()
        assert found[2] == (f"; {kept} are kept as they are" if kept else "")
        return Tap(user, process, int(found[1]))

    yield begin
    for process in begun:
        if process.poll() is None:
            process.kill()
            process.communicate()


def cli(port: int, *words: str, text: str | None = None) -> str:
    command = ["redis-cli", "-p", str(port), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, input=text).stdout


def server(user: Kvmark) -> tuple[Testbed, int]:
    testbed = redis.up(redis.RedisOptions(), Path(user.more["KVMARK_TESTBEDS"]))
    return testbed, testbed.nodes[0].port


def counted(port: int) -> dict[str, int]:
    found = re.findall(r"cmdstat_([a-z]+):calls=(\d+)", cli(port, "info", "commandstats"))
    return {name: int(calls) for name, calls in found}


def verbs(rows: pl.DataFrame) -> dict[str, int]:
    """Operations by verb."""
    first = rows.filter(pl.col("items") > 0)
    found = first.group_by(pl.col("statement").str.split(" ").list.first()).len()
    return {name.lower(): count for name, count in found.iter_rows()}


def test_what_redis_counted_is_in_the_trace_of_a_tap(user: Kvmark, tapped: Tapped) -> None:
    testbed, port = server(user)
    before = counted(port)
    tap = tapped(testbed.url)
    port_of_tap = str(tap.port)
    for words in (("-t", "set,get,mset,lrange_100", "-n", "2000", "-P", "16"), ("-n", "300")):
        command = ["redis-benchmark", "-p", port_of_tap, "-q", "-r", "50", *words]
        subprocess.run([*command, "-t", "set,get,mset"], check=True, capture_output=True)
    piped = "".join(f"SET pipe{number} {'x' * number}\r\n" for number in range(1, 1001))
    assert "errors: 0, replies: 1000" in tap.cli("--pipe", text=piped)
    tap.cli(text="MULTI\nSET m 1\nGET m\nEXEC\nMULTI\nSET m 2\nDISCARD\n")
    tap.cli("eval", "return redis.call('set', KEYS[1], 'x')", "1", "inner")
    tap.cli("-3", "hgetall", "none")
    wrong = tap.raw(b"*1\r\n$3\r\nabcdef\r\n")
    assert wrong.recv(100)
    assert tap.cli("get", "m") == "1\n"
    after = counted(port)
    out = tap.end()
    wrong.close()
    assert "bytes weren't the protocol, and weren't recorded any more: 1 (a word is" in out
    assert "Commands of transactions that weren't carried out are left out: 1" in out
    sent = {name: after[name] - before.get(name, 0) for name in after}
    found = verbs(tap.rows())
    # The script's own set is the server's and not a client's.
    expected = {"set": sent["set"] - 1, **{name: sent[name] for name in ("get", "mset", "eval")}}
    assert {name: found[name] for name in expected} == expected
    assert [found[name] for name in ("multi", "exec", "discard", "hello")] == [2, 1, 1, 1]


SESSION = (
    "SET k value EX 60", "GET k", "get none", "SETEX k 30 v", "MSET a 1 b 22", "MGET a b c",
    "HSET h f 12 g 345", "HGETALL h", "LPUSH l one two", "LRANGE l 0 -1", "RPOP l", "INCR n",
    "EXPIRE k 100", "PEXPIRE k 100000", "ZADD z 1 m", "ZRANGE z 0 -1", "SADD s x y", "SPOP s",
    "MULTI", "SET t 1 PX 5000", "GET t", "EXEC", "DEL k a none", "UNLINK b", "EXISTS h l",
    "EVAL return'x' 1 k", "SETRANGE r 3 xyz", "APPEND r tail", "STRLEN r", "TTL r", "ECHO hi",
    "GETDEL r", "GETEX h2 EX 10", "XADD x * f v", "TYPE h", 'SET "a key" "\\x00\\xff"', "PING",
)  # fmt: skip


def test_a_tap_and_monitor_say_the_same_of_a_session(user: Kvmark, tapped: Tapped) -> None:
    testbed, port = server(user)
    (user.folder / "key").write_bytes(bytes(range(16)))
    told = user.folder / "m.txt"
    tap = tapped(testbed.url, "--hash-key", "key")
    with told.open("w") as file:
        monitor = subprocess.Popen(["redis-cli", "-p", str(port), "monitor"], stdout=file)
        try:
            wait_until(lambda: told.read_text().startswith("OK"), "MONITOR to begin")
            tap.cli(text="".join(f"{line}\n" for line in (*SESSION, "ECHO 'the end'")))
            wait_until(lambda: '"the end"' in told.read_text(), "the last command")
        finally:
            monitor.terminate()
            monitor.wait()
    tap.end()
    user("trace", "import", "m.txt", "-o", "m.trace", "--hash-key", "key")
    # What redis-cli asks for itself isn't in the session.
    own = pl.col("statement").is_in(["COMMAND"]).not_()
    names = ["kind", "statement", "key", "key_size", "ttl_ms", "items"]
    ours, theirs = (tap.rows(name).filter(own) for name in ("t.trace", "m.trace"))
    assert ours.select(names).rows() == theirs.select(names).rows()
    writes = theirs["value_size"].is_not_null()
    assert (
        ours.filter(writes)["value_size"].to_list() == theirs["value_size"].drop_nulls().to_list()
    )
    reads = ours.filter(pl.col("kind") == "read").select("statement", "value_size").rows()
    assert reads[:5] == [
        ("GET {key}", 5), ("GET {key}", None), ("MGET {key}", 1), ("MGET {key}", 2),
        ("MGET {key}", None),
    ]  # fmt: skip


def test_a_tap_knows_when_and_how_operations_ended(user: Kvmark, tapped: Tapped) -> None:
    testbed, _ = server(user)
    tap = tapped(testbed.url)
    tap.cli(text="SET k value\nGET k\nGET none\nLPUSH k x\n")
    tap.end()
    rows = tap.rows("t.trace", "completed_ns", "outcome").filter(pl.col("statement") != "COMMAND")
    assert rows["outcome"].to_list() == ["ok", "ok", "miss", "refused"]
    # redis-cli asks when the answer to what was before is there.
    ends = [*rows["at_ns"][1:], None]
    for at_ns, completed_ns, next_ns in zip(rows["at_ns"], rows["completed_ns"], ends, strict=True):
        assert at_ns < completed_ns
        assert next_ns is None or completed_ns <= next_ns


def test_what_a_killed_tap_wrote_can_be_read(user: Kvmark, tapped: Tapped) -> None:
    testbed, _ = server(user)
    tap = tapped(testbed.url)
    words = ("-t", "set,get", "-n", "20000", "-P", "8", "-q")
    subprocess.run(["redis-benchmark", "-p", str(tap.port), *words], check=True)
    tapes = [user.folder / "t.trace" / f"tape-{number:02}.tape" for number in range(2)]
    wait_until(lambda: sum(path.stat().st_size for path in tapes) > 30_000 * 64, "tapes")
    tap.process.kill()
    tap.process.communicate()
    sentence = user.refuses("trace", "show", "t.trace")
    assert "make a trace of what is there by kvmark trace import t.trace -o Y.trace" in sentence
    out = user("trace", "import", "t.trace", "-o", "y.trace").out
    assert "The recording was interrupted: pending operations are missing." in out
    found = verbs(tap.rows("y.trace"))
    assert 30_000 <= found["set"] + found["get"] <= 40_000
    assert user("trace", "show", "y.trace", "--json").json["answer"]["operations"] >= 30_000


def test_what_memcached_counted_is_in_the_trace_of_a_tap(user: Kvmark, tapped: Tapped) -> None:
    if shutil.which("memcached") is None:
        pytest.skip("memcached isn't installed: apt-get install memcached")
    wanted = memcached.MemcachedOptions(memory_bytes=2**26)
    testbed = memcached.up(wanted, Path(user.more["KVMARK_TESTBEDS"]))
    tap = tapped(testbed.url)

    def stats() -> dict[str, int]:
        with socket.create_connection(("127.0.0.1", testbed.nodes[0].port)) as own:
            found = re.findall(rb"STAT (cmd_\w+) (\d+)", asked(own, b"stats\r\n", b"END\r\n"))
        return {name.decode(): int(count) for name, count in found}

    before = stats()
    with tap.raw(b"") as connection:
        sets = b"".join(b"set k%d 0 60 3\r\nabc\r\n" % number for number in range(500))
        asked(connection, sets, b"STORED\r\n" * 500)
        asked(connection, b"set q 0 0 1 noreply\r\nx\r\nget q\r\n", b"VALUE q 0 1\r\nx\r\nEND\r\n")
        asked(connection, b"get k1 none k2\r\n", b"END\r\n")
        asked(connection, b"mg k1 v\r\nms m 2 T90\r\nok\r\nmn\r\n", b"MN\r\n")
        asked(connection, b"touch k1 100\r\ndelete k1\r\n", b"DELETED\r\n")
    tap.raw(b"\x80\x0b" + bytes(22)).close()
    after = stats()
    out = tap.end()
    assert "weren't recorded any more, because of the binary protocol: 1" in out
    rows = tap.rows()
    found = verbs(rows)
    assert found["set"] + found["ms"] == after["cmd_set"] - before["cmd_set"] == 502
    gets = rows["statement"].is_in(["get {key}", "mg {key}"]).sum()
    assert gets == after["cmd_get"] - before["cmd_get"] == 5
    sizes = rows.filter(pl.col("statement") == "get {key}")["value_size"].to_list()
    assert sizes == [1, 3, None, 3]
    assert rows.filter(pl.col("statement") == "ms {key} {value} {ttl}")["ttl_ms"].to_list() == [
        90_000
    ]


def asked(connection: socket.socket, sent: bytes, end: bytes) -> bytes:
    """What is answered, up to there."""
    connection.sendall(sent)
    answer = b""
    while not answer.endswith(end):
        got = connection.recv(1 << 16)
        assert got, answer
        answer += got
    return answer


def resident(pid: int) -> int:
    """Bytes of memory that a process has had at the most."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def test_a_value_of_512_mb_costs_no_memory(user: Kvmark, tapped: Tapped) -> None:
    testbed, _ = server(user)
    tap = tapped(testbed.url)
    tap.cli("set", "small", "x")
    before, size = resident(tap.process.pid), 512 << 20
    chunk = bytes(1 << 20)
    with tap.raw(b"*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n" % size) as connection:
        for _ in range(512):
            connection.sendall(chunk)
        assert asked(connection, b"\r\n", b"\r\n") == b"+OK\r\n"
        connection.sendall(b"GET big\r\n")
        left = size + len(f"${size}\r\n\r\n")
        while left:
            left -= len(connection.recv(1 << 20))
    assert resident(tap.process.pid) - before < 64 << 20
    tap.end()
    big = tap.rows().filter(pl.col("key_size") == 3)
    assert big["value_size"].to_list() == [size, size]


def test_recording_ends_where_the_disk_may_take_no_more(user: Kvmark, tapped: Tapped) -> None:
    testbed, _ = server(user)
    tap = tapped(testbed.url, "--disk", "100k")
    words = ("-t", "set", "-n", "20000", "-P", "8", "-q")
    subprocess.run(["redis-benchmark", "-p", str(tap.port), *words], check=True)
    assert tap.process.stderr is not None
    assert "Recording has ended, and forwarding goes on" in tap.process.stderr.readline()
    assert tap.cli("set", "k", "after") == "OK\n"
    out = tap.end()
    assert (
        "Recording ended before forwarding did: the tapes have reached the limit of --disk" in out
    )
    assert 0 < len(tap.rows()) <= 1600


def test_a_server_with_tls_is_tapped_by_clients_without(user: Kvmark, tapped: Tapped) -> None:
    testbed = redis.up(redis.RedisOptions(tls=True), Path(user.more["KVMARK_TESTBEDS"]))
    tap = tapped(testbed.url)
    assert tap.cli("set", "k", "x" * 100_000) == "OK\n"
    assert tap.cli("get", "k") == "x" * 100_000 + "\n"
    tap.end()
    assert verbs(tap.rows()) == {"set": 1, "get": 1}


def test_a_connection_that_leaves_is_not_recorded_any_more(user: Kvmark, tapped: Tapped) -> None:
    testbed, _ = server(user)
    tap = tapped(testbed.url)
    with tap.raw(b"GET k\r\nSUBSCRIBE news\r\n") as connection:
        assert b"subscribe" in asked(connection, b"", b":1\r\n")
        tap.cli("publish", "news", "hello")
        assert b"hello" in asked(connection, b"", b"hello\r\n")
    out = tap.end()
    assert "weren't recorded any more, because of SUBSCRIBE: 1" in out
    assert verbs(tap.rows())["get"] == 1


def test_clients_that_are_sent_past_the_tap_are_told(user: Kvmark, tapped: Tapped) -> None:
    testbed = redis.up(redis.RedisOptions(cluster=3), Path(user.more["KVMARK_TESTBEDS"]))
    tap = tapped(f"redis://{testbed.nodes[0].address}")
    answers = [tap.cli("get", f"key{number}") for number in range(30)]
    moved = sum("MOVED" in answer for answer in answers)
    assert 0 < moved < 30
    assert f"Replies that sent clients past the tap (MOVED): {moved}; put one" in tap.end()


def test_a_trace_can_be_made_of_a_tap_that_goes_on(user: Kvmark, tapped: Tapped) -> None:
    testbed, _ = server(user)
    tap = tapped(testbed.url)
    tap.cli("set", "k", "v")
    tape = user.folder / "t.trace"
    wait_until(lambda: sum(one.stat().st_size for one in tape.glob("*.tape")), "a block")
    user("trace", "import", "t.trace", "-o", "y.trace")
    tap.cli("set", "k", "w")
    tap.end()
    assert verbs(tap.rows("y.trace"))["set"] == 1
    assert verbs(tap.rows())["set"] == 2


def test_a_tap_ends_after_its_time(user: Kvmark) -> None:
    testbed, port = server(user)
    result = user(
        "trace", "record", "--listen", 0, "--to", testbed.url, "-o", "t.trace",
        "--duration", "200ms",
        exits=3,
    )  # fmt: skip
    assert "kvmark: nothing was recorded" in result.err
    assert not (user.folder / "t.trace").exists()
    assert cli(port, "ping") == "PONG\n"


def stored(port: int) -> dict[str, str]:
    """All strings of a server."""
    keys = sorted(cli(port, "--scan").split())
    return {key: cli(port, "get", key).strip() for key in keys}


def test_what_was_kept_on_purpose_is_replayed_as_it_was(user: Kvmark, tapped: Tapped) -> None:
    testbed, port = server(user)
    tap = tapped(testbed.url, "--keep-keys", "--keep-values")
    for number in range(50):
        tap.cli("set", f"user:{number}", f"value-{number * number}")
    tap.cli(text="HELLO 3 AUTH default hunter2\nAUTH hunter2\nGET user:7\nDEL user:8\n")
    out = tap.end()
    assert "Keys and values that are written are kept as they were." in out
    files = b"".join(file.read_bytes() for file in (user.folder / "t.trace").iterdir())
    assert b"hunter2" not in files
    assert "Keys and values that are written are kept" in user("trace", "show", "t.trace").out
    before = stored(port)
    assert len(before) == 49
    cli(port, "flushall")
    words = ("replay", "t.trace", "--skip", "hello,auth,command", "--system", testbed.url)
    user(*words, "--speed", "max", "-q", exits=(0, 1))
    assert stored(port) == before
    assert "verify: t.trace has the very keys" in user.refuses(*words, "--verify")


def test_what_a_killed_tap_kept_is_read_again(user: Kvmark, tapped: Tapped) -> None:
    testbed, _ = server(user)
    tap = tapped(testbed.url, "--keep-keys")
    tap.cli("set", "someone", "something")
    tape = user.folder / "t.trace"
    wait_until(lambda: any(one.stat().st_size for one in tape.glob("*.tape")), "a block")
    tap.process.kill()
    tap.process.communicate()
    user("trace", "import", "t.trace", "-o", "y.trace")
    rows = pl.concat(Trace.open(user.folder / "y.trace").batches(("statement", "key_content")))
    assert (rows["statement"][-1], rows["key_content"][-1]) == ("SET {key} {value}", b"someone")
    files = b"".join(file.read_bytes() for file in tape.iterdir())
    assert b"someone" in files
    assert b"something" not in files
    assert "recorded without values" in user.refuses(
        "trace", "import", "t.trace", "-o", "z.trace", "--keep-values"
    )


def test_wrong_words_are_told_in_a_sentence(user: Kvmark) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for listen, to, more, sentence in (
            (port, "redis://127.0.0.1", (), f"can't listen at 127.0.0.1:{port}: Address"),
            ("a:b", "redis://127.0.0.1", (), "--listen: 'a:b' is no port, and no HOST:PORT"),
            (0, "cql://127.0.0.1", (), "a tap understands redis and memcached, and not c"),
            (0, "redis://me:pw@127.0.0.1", (), "--to: clients log in by themselves"),
            (0, "redis://a,b", (), "--to: a tap is before one server"),
            (0, "redis://a?cluster=true", (), "--to: a tap has no use for cluster"),
            (0, "redis://a", ("--memory", "1k"), "--memory: a tap needs 1M at least"),
            (0, "redis://a", ("--disk", "much"), "'much' is not a size; write it like 64M or 10G"),
        ):
            words = ("--listen", listen, "--to", to, "-o", "t.trace", *more)
            assert sentence in user.refuses("trace", "record", *words)
    assert not (user.folder / "t.trace").exists()
    assert not list(user.folder.iterdir())
