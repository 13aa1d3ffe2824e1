"""A tap before the target of a replay records the trace that is replayed."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import polars as pl
import pytest
from command_line import Kvmark
from hypothesis import Phase, example, given, seed, settings
from hypothesis import strategies as st
from scripted_store import command, read_reply, store

from kvmark.trace import TapProgress, TapSettings, Trace, record

PATIENCE_S = 60.0
KINDS = {"read": "read", "update": "update", "insert": "update", "delete": "delete"}
Command = tuple[str, ...]
Batch = tuple[int, tuple[Command, ...]]
"""A client and the commands that it sends at once."""
History = tuple[int, tuple[tuple[str, int | None, int | None], ...]]
"""The size of a key and its operations: kind, bytes written or read, time to live."""


@contextmanager
def tap(port: int, trace: Path) -> Iterator[int]:
    """The port of a tap before a store; it writes the trace at the end."""
    listens: list[int] = []
    ready, over = threading.Event(), threading.Event()

    def continues(progress: TapProgress) -> bool:
        listens.append(int(progress.listens.rpartition(":")[2]))
        ready.set()
        return not over.is_set()

    options = TapSettings(
        host="127.0.0.1", port=0, protocol="redis", address=f"127.0.0.1:{port}",
        default_port=6379, tls=False, ca_file=None, cert_file=None, key_file=None, server_name=None,
        threads=2, memory_bytes=1 << 26, disk_bytes=1 << 30,
        keep_keys=False, keep_values=False,
    )  # fmt: skip
    thread = threading.Thread(target=record, args=(options, trace, "a test", bytes(16), continues))
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        yield listens[0]
    finally:
        over.set()
        thread.join()


def send(port: int, batches: Sequence[Batch]) -> None:
    """Sends one batch after the other; each client has a connection."""
    connections: dict[int, tuple[socket.socket, BinaryIO]] = {}
    for client, commands in batches:
        if client not in connections:
            connection = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
            connections[client] = (connection, connection.makefile("rb"))
        connection, replies = connections[client]
        connection.sendall(b"".join(command([word.encode() for word in one]) for one in commands))
        for _ in commands:
            read_reply(replies)
    for connection, replies in connections.values():
        replies.close()
        connection.close()


def histories(trace: Path) -> Counter[History]:
    """The operations on each key, without its name."""
    columns = ("kind", "key", "key_size", "value_size", "ttl_ms")
    rows = pl.concat(Trace.open(trace).batches(columns))
    operations: dict[tuple[int, int], list[tuple[str, int | None, int | None]]] = {}
    for kind, key, key_size, value_size, ttl_ms in rows.iter_rows():
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
    user = Kvmark(folder, folder / "runs", {"XDG_CACHE_HOME": str(folder / "cache")})
    with store() as first:
        first.values.update((key.encode(), value.encode()) for key, value in existing.items())
        # Each verb reads a value first, so that the tap knows a miss by its size.
        first.values[b"the first of all"] = b"value"
        with tap(first.port, folder / "a.trace") as port:
            both = (0, (("GET", "the first of all"), ("MGET", "the first of all")))
            send(port, [both, *batches])
    for before, after in (("a", "b"), ("b", "c")):
        with store() as fresh, tap(fresh.port, folder / f"{after}.trace") as port:
            words = f"replay {before}.trace --system redis://127.0.0.1:{port} --clients {clients}"
            user(f"{words} --speed max --skip other -q", exits=(0, 1))
    sent = histories(folder / "b.trace")
    assert sent == replayed(histories(folder / "a.trace"))
    assert histories(folder / "c.trace") == sent
