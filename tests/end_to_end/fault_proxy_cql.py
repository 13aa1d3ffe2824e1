"""Faults planted in frames of version 4 of CQL's protocol.

Source: Apache Cassandra, `doc/native_protocol_v4.spec`. Statements are prepared, and the first
bound value is the key.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import BinaryIO

from fault_proxy import Victims

ERROR, RESULT, PREPARE, EXECUTE, BATCH = 0x00, 0x08, 0x09, 0x0A, 0x0D
PREPARED = 4
RESPONSE = 0x84
WITH_VALUES = 0x01
VOID = struct.pack(">i", 1)
_TEXT = b"planted"
ERRORS = {
    "apply_failed": struct.pack(">ih", 0x1000, len(_TEXT)) + _TEXT + struct.pack(">hii", 1, 1, 0),
    "apply_refused": struct.pack(">ih", 0x2200, len(_TEXT)) + _TEXT,
}
UNSET = -2

Value = bytes | int
"""A bound value; a negative number is null or unset."""


@dataclass(frozen=True)
class Frame:
    """One message: version, flags, stream and opcode in five bytes, and its body."""

    head: bytes
    body: bytes

    @classmethod
    def read(cls, source: BinaryIO) -> Frame | None:
        """The next message; None at the end."""
        header = source.read(9)
        if len(header) < 9:
            return None
        return cls(header[:5], source.read(int.from_bytes(header[5:])))

    @property
    def stream(self) -> bytes:
        return self.head[2:4]

    @property
    def opcode(self) -> int:
        return self.head[4]

    def bytes(self) -> bytes:
        return self.head + struct.pack(">i", len(self.body)) + self.body

    def response(self, opcode: int, body: bytes) -> Frame:
        """A response to it that no server sent."""
        return Frame(struct.pack(">BB2sB", RESPONSE, 0, self.stream, opcode), body)


@dataclass(frozen=True)
class Bound:
    """A prepared statement with its values."""

    text: str
    values: tuple[Value, ...]

    @property
    def verb(self) -> str:
        return self.text.split()[0].upper()

    @property
    def key(self) -> bytes:
        return self.values[0] if isinstance(self.values[0], bytes) else b""


class Reader:
    """Reads a body from the front."""

    def __init__(self, body: bytes) -> None:
        self.body, self.at = body, 0

    def take(self, length: int) -> bytes:
        self.at += length
        return self.body[self.at - length : self.at]

    def number(self, form: str) -> int:
        """An integer, by its form in `struct`."""
        (number,) = struct.unpack(f">{form}", self.take(struct.calcsize(form)))
        return int(number)

    def short_bytes(self) -> bytes:
        return self.take(self.number("h"))

    def values(self) -> tuple[Value, ...]:
        """Bound values, which follow their number."""
        lengths = range(self.number("h"))
        return tuple(self._value() for _ in lengths)

    def _value(self) -> Value:
        length = self.number("i")
        return self.take(length) if length >= 0 else length


def encoded(values: Sequence[Value]) -> bytes:
    """Bound values after their number."""
    texts = [
        struct.pack(">i", one) if isinstance(one, int) else struct.pack(">i", len(one)) + one
        for one in values
    ]
    return struct.pack(">h", len(values)) + b"".join(texts)


class CqlFaults:
    """Plants one fault at a number of keys of a table, which its statements name."""

    def __init__(self, fault: str, count: int, table: str) -> None:
        self.fault, self.table = fault, table
        self.victims = Victims(count)
        self.statements: dict[bytes, str] = {}
        self.written: set[bytes] = set()
        self.lock = threading.Lock()

    def __call__(self, requests: BinaryIO, client: socket.socket, server: socket.socket) -> None:
        """Carries a connection; responses go through a second thread."""
        connection = Connection(self, client, server)
        responses = threading.Thread(target=connection.carry_responses, daemon=True)
        responses.start()
        while frame := Frame.read(requests):
            connection.request(frame)
        server.shutdown(socket.SHUT_WR)
        responses.join()

    def altered(self, bound: Bound) -> Bound | None:
        """The statement that the server executes instead; None for none."""
        writes, rewrites = bound.verb == "INSERT", bound.key in self.written
        if writes:
            self.written.add(bound.key)
        key, *rest = bound.values
        planted = {
            "lose_record": writes,
            "lose_field": writes,
            "tear_value": writes,
            "swap_records": writes,
            "return_older": writes and rewrites,
            "resurrect_record": bound.verb == "DELETE",
        }.get(self.fault, False) and self.victims.take(bound.key)
        match self.fault:
            case "lose_record" | "return_older" | "resurrect_record" if planted:
                return None
            case "lose_field" if planted:
                return Bound(bound.text, (key, UNSET, *rest[1:]))
            case "tear_value" if planted:
                torn = [one[: len(one) // 2] if isinstance(one, bytes) else one for one in rest]
                return Bound(bound.text, (key, *torn))
            case "swap_records" if not writes and bound.key in self.victims.keys:
                keys = self.victims.keys
                return Bound(bound.text, (keys[keys.index(bound.key) ^ 1], *rest))
        return bound

    def fails(self, bound: Bound) -> bool:
        """Whether the response to a write is an error."""
        writes_again = bound.verb == "INSERT" and bound.key in self.written
        return self.fault in ERRORS and writes_again and self.victims.take(bound.key)


class Connection:
    """One connection of a client."""

    def __init__(self, faults: CqlFaults, client: socket.socket, server: socket.socket) -> None:
        self.faults, self.client, self.server = faults, client, server
        self.preparing: dict[bytes, str] = {}
        self.failing: set[bytes] = set()
        """Streams whose response becomes an error."""
        self.sending = threading.Lock()

    def request(self, frame: Frame) -> None:
        """Forwards a request or another one, or responds to it."""
        with self.faults.lock:
            if frame.opcode == PREPARE:
                self.preparing[frame.stream] = frame.body[4:].decode()
            if frame.opcode == EXECUTE:
                self._execute(frame)
            elif frame.opcode == BATCH:
                self._batch(frame)
            else:
                self.server.sendall(frame.bytes())

    def carry_responses(self) -> None:
        """Forwards responses until they end."""
        source = self.server.makefile("rb")
        with suppress(OSError):
            while frame := Frame.read(source):
                self._respond(frame)
        with suppress(OSError):
            self.client.shutdown(socket.SHUT_RDWR)

    def _respond(self, frame: Frame) -> None:
        with self.faults.lock:
            text = self.preparing.pop(frame.stream, None)
            reader = Reader(frame.body)
            if text and frame.opcode == RESULT and reader.number("i") == PREPARED:
                self.faults.statements[reader.short_bytes()] = text
            if frame.stream in self.failing:
                self.failing.remove(frame.stream)
                frame = frame.response(ERROR, ERRORS[self.faults.fault])
        self._send(frame)

    def _send(self, frame: Frame) -> None:
        with self.sending:
            self.client.sendall(frame.bytes())

    def _execute(self, frame: Frame) -> None:
        reader = Reader(frame.body)
        text = self.faults.statements.get(reader.short_bytes(), "")
        reader.take(2)
        before = frame.body[: reader.at + 1]
        if not reader.number("B") & WITH_VALUES or self.faults.table not in text:
            return self.server.sendall(frame.bytes())
        bound = Bound(text, reader.values())
        first = bound.key not in self.faults.victims.keys
        if self.faults.fails(bound):
            if not first:
                return self._send(frame.response(ERROR, ERRORS[self.faults.fault]))
            self.failing.add(frame.stream)
        altered = self.faults.altered(bound)
        if altered is None:
            return self._send(frame.response(RESULT, VOID))
        body = before + encoded(altered.values) + frame.body[reader.at :]
        return self.server.sendall(replace(frame, body=body).bytes())

    def _batch(self, frame: Frame) -> None:
        reader = Reader(frame.body)
        kind, count = reader.take(1), reader.number("h")
        statements = []
        for _ in range(count):
            assert reader.number("B") == 1, "the driver prepares the statements of batches"
            statement = reader.short_bytes()
            altered = self.faults.altered(Bound(self.faults.statements[statement], reader.values()))
            if altered is not None:
                head = struct.pack(">Bh", 1, len(statement)) + statement
                statements.append(head + encoded(altered.values))
        body = kind + struct.pack(">h", len(statements)) + b"".join(statements)
        body += frame.body[reader.at :]
        self.server.sendall(replace(frame, body=body).bytes())
