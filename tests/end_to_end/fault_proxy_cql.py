"""Faults planted in frames of version 4 of CQL's protocol.

Source: Apache Cassandra, `doc/native_protocol_v4.spec`. Statements are prepared, and the first
bound value is the key.
"""

from __future__ import annotations

import io
import socket
import struct
import threading
from collections.abc import Callable, Sequence
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


Ask = Callable[[Frame], Frame]
"""Sends a request to the server and returns its response."""


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


WRITE_FAULTS = ("lose_record", "lose_field", "tear_value", "swap_records")


class CqlFaults:
    """Plants one fault at a number of keys of a table, which its statements name."""

    def __init__(self, fault: str, count: int, table: str) -> None:
        self.fault, self.table = fault, table
        self.victims = Victims(count)
        self.statements: dict[bytes, str] = {}
        self.written: set[Value] = set()
        self.lock = threading.Lock()

    def __call__(self, requests: BinaryIO, client: socket.socket, server: socket.socket) -> None:
        """Answers the requests of a connection one at a time."""
        replies = server.makefile("rb")

        def ask(request: Frame) -> Frame:
            server.sendall(request.bytes())
            while reply := Frame.read(replies):
                if reply.stream == request.stream:
                    return reply
                # An event.
                client.sendall(reply.bytes())
            raise ConnectionError("the server has closed the connection")

        answers = {PREPARE: self._prepare, EXECUTE: self._execute, BATCH: self._batch}
        while frame := Frame.read(requests):
            with self.lock:
                reply = answers.get(frame.head[4], lambda frame, ask: ask(frame))(frame, ask)
            client.sendall(reply.bytes())

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

    def _prepare(self, frame: Frame, ask: Ask) -> Frame:
        reply = ask(frame)
        body = io.BytesIO(reply.body)
        if reply.head[4] == RESULT and number(body, "i") == PREPARED:
            self.statements[short_bytes(body)] = frame.body[4:].decode()
        return reply

    def _execute(self, frame: Frame, ask: Ask) -> Frame:
        body = io.BytesIO(frame.body)
        text = self.statements.get(short_bytes(body), "")
        _consistency, flags = body.read(2), number(body, "B")
        before = frame.body[: body.tell()]
        if not flags & WITH_VALUES or self.table not in text:
            return ask(frame)
        values = bound_values(body)
        first = values[0] not in self.victims.keys
        fails = self.fails(text, values[0])
        if fails and not first:
            return frame.response(ERROR, ERRORS[self.fault])
        altered = self.altered(text, values)
        if altered is None:
            return frame.response(RESULT, VOID)
        reply = ask(frame._replace(body=before + encoded(altered) + body.read()))
        return frame.response(ERROR, ERRORS[self.fault]) if fails else reply

    def _batch(self, frame: Frame, ask: Ask) -> Frame:
        body = io.BytesIO(frame.body)
        kind, count = body.read(1), number(body, "h")
        statements = []
        for _ in range(count):
            assert number(body, "B") == 1, "the driver prepares the statements of batches"
            statement = short_bytes(body)
            altered = self.altered(self.statements[statement], bound_values(body))
            if altered is not None:
                head = struct.pack(">Bh", 1, len(statement)) + statement
                statements.append(head + encoded(altered))
        batch = kind + struct.pack(">h", len(statements)) + b"".join(statements) + body.read()
        return ask(frame._replace(body=batch))
