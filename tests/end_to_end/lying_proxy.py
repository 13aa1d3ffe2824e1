"""Proxies before a real server, in threads of the test's own, that plant faults in what passes.

A fault has a key of its own and lasts: a write of it that was lost stays lost whatever is written
afterwards, so that the number of keys at fault is exact.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Protocol

Address = tuple[str, int]


class Connection(socketserver.StreamRequestHandler):
    """A client's connection, with one of its own to the server."""

    server: Proxy

    def handle(self) -> None:
        with socket.create_connection(self.server.target) as upstream:
            self.server.serve(self.rfile, self.request, upstream)


class Proxy(socketserver.ThreadingTCPServer):
    """Before a server; `serve` carries the bytes of one connection."""

    daemon_threads, allow_reuse_address = True, True

    def __init__(self, target: Address, serve: Serve) -> None:
        super().__init__(("127.0.0.1", 0), Connection)
        self.target, self.serve = target, serve

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that ends in the middle is none of the test's concern."""


class Serve(Protocol):
    """Carries what a client sends, until it sends no more."""

    def __call__(self, requests: BinaryIO, client: socket.socket, server: socket.socket) -> None:
        """Requests are read from the first, replies go to the second."""


@contextmanager
def proxy(target: Address, serve: Serve) -> Iterator[Address]:
    """The address of a proxy while it is needed."""
    with Proxy(target, serve) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield ("127.0.0.1", made.server_address[1])
        made.shutdown()
        thread.join()


class Victims:
    """The keys at which a fault is planted: the first ones that come, up to a number."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.keys: list[bytes] = []

    def take(self, key: bytes) -> bool:
        """Whether the fault is at this key, or now is."""
        if key not in self.keys and len(self.keys) < self.count:
            self.keys.append(key)
        return key in self.keys


Ask = Callable[[list[bytes]], bytes]
"""Asks the server a command and returns its reply, byte for byte."""


def read_reply(replies: BinaryIO) -> bytes:
    """The bytes of one reply of Redis, of either version of its protocol."""
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


def read_command(requests: BinaryIO) -> list[bytes]:
    """The next command's words; none when there is no other."""
    head = requests.readline()
    if not head:
        return []
    return [requests.read(int(requests.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]


def command(words: list[bytes]) -> bytes:
    """A command as it is sent."""
    bulks = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
    return b"*%d\r\n%s" % (len(words), bulks)


def redis_serve(answer: Callable[[list[bytes], Ask], bytes]) -> Serve:
    """Answers command by command: what is asked at the same time is asked in turn."""
    turn = threading.Lock()

    def serve(requests: BinaryIO, client: socket.socket, server: socket.socket) -> None:
        replies = server.makefile("rb")

        def ask(words: list[bytes]) -> bytes:
            server.sendall(command(words))
            return read_reply(replies)

        while words := read_command(requests):
            with turn:
                reply = answer([words[0].upper(), *words[1:]], ask)
            client.sendall(reply)

    return serve


WRITES = (b"SET", b"HMSET", b"HSET")
READS = (b"GET", b"HGETALL", b"HMGET")


class RedisLiar:
    """Plants one fault at so many keys."""

    def __init__(self, fault: str, count: int) -> None:
        self.victims = Victims(count)
        self.written: set[bytes] = set()
        self._answer: Callable[[list[bytes], Ask], bytes] = getattr(self, f"_{fault}")

    def __call__(self, words: list[bytes], ask: Ask) -> bytes:
        reply = self._answer(words, ask)
        if words[0] in WRITES:
            self.written.add(words[1])
        return reply

    def _lose_record(self, words: list[bytes], ask: Ask) -> bytes:
        lost = words[0] in WRITES and self.victims.take(words[1])
        return b"+OK\r\n" if lost else ask(words)

    def _lose_field(self, words: list[bytes], ask: Ask) -> bytes:
        if words[0] in WRITES and self.victims.take(words[1]):
            # Its first field is never written.
            at = next((n for n in range(2, len(words), 2) if words[n] == b"field0"), None)
            if at is not None:
                words = words[:at] + words[at + 2 :]
            if len(words) == 2:
                return b"+OK\r\n"
        return ask(words)

    def _return_older(self, words: list[bytes], ask: Ask) -> bytes:
        again = words[0] in WRITES and words[1] in self.written
        return b"+OK\r\n" if again and self.victims.take(words[1]) else ask(words)

    def _swap_records(self, words: list[bytes], ask: Ask) -> bytes:
        if words[0] in WRITES:
            self.victims.take(words[1])
        if words[0] in READS and words[1] in self.victims.keys:
            other = self.victims.keys.index(words[1]) ^ 1
            return ask([words[0], self.victims.keys[other], *words[2:]])
        return ask(words)

    def _tear_value(self, words: list[bytes], ask: Ask) -> bytes:
        if words[0] == b"SET" and self.victims.take(words[1]):
            words = [*words[:2], words[2][: len(words[2]) // 2], *words[3:]]
        return ask(words)

    def _resurrect_record(self, words: list[bytes], ask: Ask) -> bytes:
        removed = words[0] == b"DEL" and self.victims.take(words[1])
        return b":1\r\n" if removed else ask(words)

    def _apply_failed(self, words: list[bytes], ask: Ask) -> bytes:
        return self._failed(words, ask, b"-LOADING the dataset is being loaded\r\n")

    def _apply_refused(self, words: list[bytes], ask: Ask) -> bytes:
        return self._failed(words, ask, b"-ERR this was refused\r\n")

    def _failed(self, words: list[bytes], ask: Ask, error: bytes) -> bytes:
        key = words[1] if len(words) > 1 else b""
        if words[0] in WRITES and key in self.written:
            if key in self.victims.keys:
                return error
            if self.victims.take(key):
                ask(words)
                return error
        return ask(words)

    def _none(self, words: list[bytes], ask: Ask) -> bytes:
        return ask(words)
