"""A server in a thread of the test, which answers as Redis does, and Redis's protocol."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO


class Server(socketserver.ThreadingTCPServer):
    daemon_threads, allow_reuse_address = True, True

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection may end in the middle."""


@contextmanager
def serving(handler: type[socketserver.StreamRequestHandler]) -> Iterator[int]:
    """The port of a server."""
    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


class Store:
    """Values by key; `before_answer` may delay a client."""

    def __init__(self, before_answer: Callable[[], object]) -> None:
        self.before_answer = before_answer
        self.values: dict[bytes, bytes] = {}
        self.lock = threading.Lock()
        self.port = 0

    def answer(self, name: bytes, words: Sequence[bytes]) -> bytes:
        with self.lock:
            match name:
                case b"GET":
                    return bulk(self.values.get(words[0]))
                case b"MGET":
                    values = b"".join(bulk(self.values.get(key)) for key in words)
                    return b"*%d\r\n%s" % (len(words), values)
                case b"SET" | b"SETEX":
                    self.values[words[0]] = words[1] if name == b"SET" else words[2]
                    return b"+OK\r\n"
                case b"DEL":
                    removed = [key for key in words if self.values.pop(key, None) is not None]
                    return b":%d\r\n" % len(removed)
                case b"PING":
                    return b"+PONG\r\n"
                case b"INFO":
                    return bulk(b"redis_version:7.0.15\r\n")
        return b"-ERR unknown command\r\n"


@contextmanager
def store(
    before_answer: Callable[[], object] = lambda: None, *, pings: bool = True
) -> Iterator[Store]:
    """A store that serves at its port; answers to PING are delayed only with `pings`."""
    made = Store(before_answer)

    class Client(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while words := read_command(self.rfile):
                if pings or words != [b"PING"]:
                    made.before_answer()
                self.wfile.write(made.answer(words[0].upper(), words[1:]))

    with serving(Client) as made.port:
        yield made


def bulk(value: bytes | None) -> bytes:
    return b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value)


def command(words: Iterable[bytes]) -> bytes:
    """A command as a client sends it."""
    sent = [*map(bulk, words)]
    return b"*%d\r\n%s" % (len(sent), b"".join(sent))


def read_command(requests: BinaryIO) -> list[bytes]:
    """The words of the next command, an array or a line; none at the end."""
    head = requests.readline()
    if head[:1] not in {b"*", b""}:
        return head.split()
    return [requests.read(int(requests.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:] or 0))]


def read_reply(replies: BinaryIO) -> bytes:
    """The bytes of one reply, of either version of the protocol."""
    line = replies.readline()
    if not line:
        raise ConnectionError("the server has closed the connection")
    kind, rest = line[:1], line[1:-2]
    if kind in b"$=!" and rest != b"-1":
        return line + replies.read(int(rest) + 2)
    if kind in b"*~>%" and rest != b"-1":
        elements = int(rest) * (2 if kind == b"%" else 1)
        return line + b"".join(read_reply(replies) for _ in range(elements))
    return line
