"""Faults planted in frames of version 4 of CQL's protocol.

Source: Apache Cassandra, `doc/native_protocol_v4.spec`. Statements are prepared, and the first
bound value is the key.
"""

from __future__ import annotations

import io
import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import BinaryIO, NamedTuple

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


class Frame(NamedTuple):
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

    def bytes(self) -> bytes:
        return self.head + struct.pack(">i", len(self.body)) + self.body

    def response(self, opcode: int, body: bytes) -> Frame:
        """A response to it that no server sent."""
        return Frame(struct.pack(">BB2sB", RESPONSE, 0, self.stream, opcode), body)


def number(body: BinaryIO, form: str) -> int:
    """The next integer, by its form in `struct`."""
    (value,) = struct.unpack(f">{form}", body.read(struct.calcsize(form)))
    return int(value)


def short_bytes(body: BinaryIO) -> bytes:
    return body.read(number(body, "h"))


def bound_values(body: BinaryIO) -> list[Value]:
    """The next values, which follow their number."""
    values: list[Value] = []
    for _ in range(number(body, "h")):
        length = number(body, "i")
        values.append(body.read(length) if length >= 0 else length)
    return values


def encoded(values: Sequence[Value]) -> bytes:
    """Values after their number."""
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
        self.written: set[Value] = set()
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

    def altered(self, text: str, values: Sequence[Value]) -> Sequence[Value] | None:
        """The values of the statement that the server executes instead; None for no statement."""
        key, *rest = values
        assert isinstance(key, bytes)
        writes, rewrites = text.startswith("INSERT"), key in self.written
        if writes:
            self.written.add(key)
        planted = {
            "resurrect_record": text.startswith("DELETE"),
            "return_older": writes and rewrites,
        }.get(self.fault, writes and self.fault in WRITE_FAULTS) and self.victims.take(key)
        match self.fault:
            case "lose_record" | "return_older" | "resurrect_record" if planted:
                return None
            case "lose_field" if planted:
                return [key, UNSET, *rest[1:]]
            case "tear_value" if planted:
                return [key, *(one[: len(one) // 2] for one in rest if isinstance(one, bytes))]
            case "swap_records" if not writes and key in self.victims.keys:
                return [self.victims.keys[self.victims.keys.index(key) ^ 1], *rest]
        return values

    def fails(self, text: str, key: Value) -> bool:
        """Whether the response to a write is an error."""
        writes_again = text.startswith("INSERT") and isinstance(key, bytes) and key in self.written
        return self.fault in ERRORS and writes_again and self.victims.take(key)


WRITE_FAULTS = ("lose_record", "lose_field", "tear_value", "swap_records")


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
            opcode = frame.head[4]
            if opcode == PREPARE:
                self.preparing[frame.stream] = frame.body[4:].decode()
            if opcode == EXECUTE:
                self._execute(frame)
            elif opcode == BATCH:
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
            body = io.BytesIO(frame.body)
            if text and frame.head[4] == RESULT and number(body, "i") == PREPARED:
                self.faults.statements[short_bytes(body)] = text
            if frame.stream in self.failing:
                self.failing.remove(frame.stream)
                frame = frame.response(ERROR, ERRORS[self.faults.fault])
        self._send(frame)

    def _send(self, frame: Frame) -> None:
        with self.sending:
            self.client.sendall(frame.bytes())

    def _execute(self, frame: Frame) -> None:
        body = io.BytesIO(frame.body)
        text = self.faults.statements.get(short_bytes(body), "")
        _consistency, flags = body.read(2), number(body, "B")
        before = frame.body[: body.tell()]
        if not flags & WITH_VALUES or self.faults.table not in text:
            return self.server.sendall(frame.bytes())
        values = bound_values(body)
        first = values[0] not in self.faults.victims.keys
        if self.faults.fails(text, values[0]):
            if not first:
                return self._send(frame.response(ERROR, ERRORS[self.faults.fault]))
            self.failing.add(frame.stream)
        altered = self.faults.altered(text, values)
        if altered is None:
            return self._send(frame.response(RESULT, VOID))
        changed = before + encoded(altered) + body.read()
        return self.server.sendall(frame._replace(body=changed).bytes())

    def _batch(self, frame: Frame) -> None:
        body = io.BytesIO(frame.body)
        kind, count = body.read(1), number(body, "h")
        statements = []
        for _ in range(count):
            assert number(body, "B") == 1, "the driver prepares the statements of batches"
            statement = short_bytes(body)
            altered = self.faults.altered(self.faults.statements[statement], bound_values(body))
            if altered is not None:
                head = struct.pack(">Bh", 1, len(statement)) + statement
                statements.append(head + encoded(altered))
        batch = kind + struct.pack(">h", len(statements)) + b"".join(statements) + body.read()
        self.server.sendall(frame._replace(body=batch).bytes())
