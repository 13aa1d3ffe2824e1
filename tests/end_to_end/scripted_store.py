"""A store that answers what is asked here, as Redis does, in a thread of the test's own."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager


class Store(socketserver.ThreadingTCPServer):
    """The store; `before_answer` may let a client wait."""

    daemon_threads, allow_reuse_address = True, True

    def __init__(self, before_answer: Callable[[], object]) -> None:
        super().__init__(("127.0.0.1", 0), Client)
        self.before_answer = before_answer
        self.values: dict[bytes, bytes] = {}
        self.turn = threading.Lock()

    def answer(self, name: bytes, words: Sequence[bytes]) -> bytes:
        with self.turn:
            match name:
                case b"GET":
                    return bulk(self.values.get(words[0]))
                case b"MGET":
                    found = b"".join(bulk(self.values.get(key)) for key in words)
                    return b"*%d\r\n%s" % (len(words), found)
                case b"SET" | b"SETEX":
                    self.values[words[0]] = words[1] if name == b"SET" else words[2]
                    return b"+OK\r\n"
                case b"DEL":
                    there = [key for key in words if self.values.pop(key, None) is not None]
                    return b":%d\r\n" % len(there)
                case b"PING":
                    return b"+PONG\r\n"
                case b"INFO":
                    return bulk(b"redis_version:7.0.15\r\n")
        return b"-ERR unknown command\r\n"


class Client(socketserver.StreamRequestHandler):
    """One of its connections."""

    server: Store

    def handle(self) -> None:
        while line := self.rfile.readline():
            words = [self._word() for _ in range(int(line[1:]))]
            self.server.before_answer()
            self.wfile.write(self.server.answer(words[0].upper(), words[1:]))

    def _word(self) -> bytes:
        length = int(self.rfile.readline()[1:])
        return self.rfile.read(length + 2)[:-2]


def bulk(value: bytes | None) -> bytes:
    return b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value)


@contextmanager
def store(before_answer: Callable[[], object] = lambda: None) -> Iterator[Store]:
    """The store while it is needed."""
    with Store(before_answer) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()
