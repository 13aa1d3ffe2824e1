"""A proxy before a real server that plants faults at some keys.

A fault lasts: a lost write of a key stays lost after later writes, so that the number of keys with
a fault is exact.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from scripted_store import command, read_command, read_reply, serving

Serve = Callable[[BinaryIO, socket.socket, socket.socket], None]
"""Carries the requests of a client to its connection with the server, until they end."""
Ask = Callable[[list[bytes]], bytes]
"""Sends a command to the server and returns its reply, byte for byte."""

WRITES = (b"SET", b"HMSET", b"HSET")
READS = (b"GET", b"HGETALL", b"HMGET")
ERRORS = {
    "apply_failed": b"-LOADING the dataset is being loaded\r\n",
    "apply_refused": b"-ERR this was refused\r\n",
}


@contextmanager
def proxy(host: str, port: int, serve: Serve) -> Iterator[int]:
    """The port of a proxy before a server."""

    class Connection(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with socket.create_connection((host, port)) as upstream:
                serve(self.rfile, self.request, upstream)

    with serving(Connection) as own_port:
        yield own_port


class Victims:
    """The keys with a fault: the first ones, up to a number."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.keys: list[bytes] = []

    def take(self, key: bytes) -> bool:
        """Whether this key has the fault; it gets it if there are too few."""
        if key not in self.keys and len(self.keys) < self.count:
            self.keys.append(key)
        return key in self.keys


def redis_serve(answer: Callable[[list[bytes], Ask], bytes]) -> Serve:
    """Answers one command at a time."""
    lock = threading.Lock()

    def serve(requests: BinaryIO, client: socket.socket, server: socket.socket) -> None:
        replies = server.makefile("rb")

        def ask(words: list[bytes]) -> bytes:
            server.sendall(command(words))
            return read_reply(replies)

        while words := read_command(requests):
            with lock:
                reply = answer([words[0].upper(), *words[1:]], ask)
            client.sendall(reply)

    return serve


class RedisFaults:
    """Plants one fault at a number of keys."""

    def __init__(self, fault: str, count: int) -> None:
        self.fault = fault
        self.victims = Victims(count)
        self.written: set[bytes] = set()

    def __call__(self, words: list[bytes], ask: Ask) -> bytes:
        reply = self._answer(words, ask)
        if words[0] in WRITES:
            self.written.add(words[1])
        return reply

    def _answer(self, words: list[bytes], ask: Ask) -> bytes:
        name, key = words[0], words[1] if len(words) > 1 else b""
        writes, rewrites = name in WRITES, name in WRITES and key in self.written
        match self.fault:
            case "lose_record" if writes and self.victims.take(key):
                return b"+OK\r\n"
            case "lose_field" if writes and self.victims.take(key):
                pairs = zip(words[2::2], words[3::2], strict=True)
                others = [part for pair in pairs if pair[0] != b"field0" for part in pair]
                return ask([*words[:2], *others]) if others else b"+OK\r\n"
            case "return_older" if rewrites and self.victims.take(key):
                return b"+OK\r\n"
            case "swap_records" if writes:
                self.victims.take(key)
            case "swap_records" if name in READS and key in self.victims.keys:
                other = self.victims.keys.index(key) ^ 1
                return ask([name, self.victims.keys[other], *words[2:]])
            case "tear_value" if name == b"SET" and self.victims.take(key):
                return ask([name, key, words[2][: len(words[2]) // 2], *words[3:]])
            case "resurrect_record" if name == b"DEL" and self.victims.take(key):
                return b":1\r\n"
            case "apply_failed" | "apply_refused" if rewrites:
                first = key not in self.victims.keys
                if self.victims.take(key):
                    if first:
                        ask(words)
                    return ERRORS[self.fault]
        return ask(words)
