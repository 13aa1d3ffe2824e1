"""What a lying proxy does to frames of version 4 of CQL's protocol.

Source: Apache Cassandra, `doc/native_protocol_v4.spec`. Statements are prepared, and the first
bound value is the key.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO

from lying_proxy import Victims

ERROR, RESULT, PREPARE, EXECUTE, BATCH = 0x00, 0x08, 0x09, 0x0A, 0x0D
PREPARED = 4
ANSWER = 0x84
WITH_VALUES = 0x01
VOID = struct.pack(">i", 1)
_TEXT = b"planted"
UNAVAILABLE = struct.pack(">ih", 0x1000, len(_TEXT)) + _TEXT + struct.pack(">hii", 1, 1, 0)
REFUSED = struct.pack(">ih", 0x2200, len(_TEXT)) + _TEXT
UNSET = -2

Value = bytes | int
"""A bound value; a number below 0 stands for none."""


@dataclass(frozen=True)
class Frame:
    """One message of either side."""

    version: int
    flags: int
    stream: int
    opcode: int
    body: bytes

    @classmethod
    def read(cls, source: BinaryIO) -> Frame | None:
        """The next one; None at the end."""
        header = source.read(9)
        if len(header) < 9:
            return None
        version, flags, stream, opcode, length = struct.unpack(">BBhBi", header)
        return cls(version, flags, stream, opcode, source.read(length))

    def bytes(self) -> bytes:
        """As it is sent."""
        head = (self.version, self.flags, self.stream, self.opcode, len(self.body))
        return struct.pack(">BBhBi", *head) + self.body

    def answered(self, opcode: int, body: bytes) -> Frame:
        """An answer to it that no server gave."""
        return Frame(ANSWER, 0, self.stream, opcode, body)


@dataclass(frozen=True)
class Bound:
    """A prepared statement with its values."""

    text: str
    values: tuple[Value, ...]

    @property
    def verb(self) -> str:
        """Its first word."""
        return self.text.split()[0].upper()

    @property
    def key(self) -> bytes:
        """The value bound first."""
        return self.values[0] if isinstance(self.values[0], bytes) else b""


class Reader:
    """Reads what bodies are made of, from the front."""

    def __init__(self, body: bytes) -> None:
        self.body, self.at = body, 0

    def take(self, length: int) -> bytes:
        """So many bytes."""
        self.at += length
        return self.body[self.at - length : self.at]

    def number(self, form: str) -> int:
        """A whole number, by its form as `struct` spells it."""
        (number,) = struct.unpack(f">{form}", self.take(struct.calcsize(form)))
        return int(number)

    def values(self) -> tuple[Value, ...]:
        """Bound values, with their number before them."""
        lengths = range(self.number("h"))
        return tuple(self._value() for _ in lengths)

    def _value(self) -> Value:
        length = self.number("i")
        return self.take(length) if length >= 0 else length


def written(values: Sequence[Value]) -> bytes:
    """Bound values, as they are sent."""
    texts = [
        struct.pack(">i", one) if isinstance(one, int) else struct.pack(">i", len(one)) + one
        for one in values
    ]
    return struct.pack(">h", len(values)) + b"".join(texts)


@dataclass
class CqlLiar:
    """Plants one fault at so many keys of a table, by statements that name it."""

    fault: str
    count: int
    table: str
    victims: Victims = field(init=False)
    statements: dict[bytes, str] = field(default_factory=dict)
    """By the id that the server gave them."""
    written: set[bytes] = field(default_factory=set)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.victims = Victims(self.count)

    def __call__(self, requests: BinaryIO, client: socket.socket, server: socket.socket) -> None:
        """Carries a connection: requests here, answers in a thread of their own."""
        carried = Carried(self, client, server)
        answers = threading.Thread(target=carried.answers, daemon=True)
        answers.start()
        while frame := Frame.read(requests):
            carried.request(frame)
        server.shutdown(socket.SHUT_WR)
        answers.join()

    def altered(self, bound: Bound) -> Bound | None:
        """What is carried out instead; None for nothing."""
        own = self._take(bound)
        if not own:
            return bound
        key, *rest = bound.values
        match self.fault:
            case "lose_record" | "return_older" | "resurrect_record":
                return None
            case "lose_field":
                return Bound(bound.text, (key, UNSET, *rest[1:]))
            case "tear_value":
                torn = [one[: len(one) // 2] if isinstance(one, bytes) else one for one in rest]
                return Bound(bound.text, (key, *torn))
            case "swap_records":
                keys = self.victims.keys
                return Bound(bound.text, (keys[keys.index(bound.key) ^ 1], *rest))
        return bound

    def fails(self, bound: Bound) -> tuple[bool, bool]:
        """Whether an error is answered, and whether the write is carried out for all that."""
        if self.fault not in ("apply_failed", "apply_refused") or bound.verb != "INSERT":
            return False, True
        known = bound.key in self.victims.keys
        fails = bound.key in self.written and self.victims.take(bound.key)
        return fails, not known

    def _take(self, bound: Bound) -> bool:
        """Whether the fault is planted at what a statement does."""
        writes = bound.verb == "INSERT"
        match self.fault:
            case "lose_record" | "lose_field" | "tear_value":
                return writes and self.victims.take(bound.key)
            case "return_older":
                return writes and bound.key in self.written and self.victims.take(bound.key)
            case "resurrect_record":
                return bound.verb == "DELETE" and self.victims.take(bound.key)
            case "swap_records" if writes:
                self.victims.take(bound.key)
            case "swap_records":
                return bound.verb == "SELECT" and bound.key in self.victims.keys
        return False


class Carried:
    """One connection."""

    def __init__(self, liar: CqlLiar, client: socket.socket, server: socket.socket) -> None:
        self.liar, self.client, self.server = liar, client, server
        self.preparing: dict[int, str] = {}
        self.failing: set[int] = set()
        """Streams of which the answer becomes an error."""
        self.sending = threading.Lock()

    def request(self, frame: Frame) -> None:
        """Sends a request on, or something else, or answers it."""
        with self.liar.turn:
            if frame.opcode == PREPARE:
                self.preparing[frame.stream] = frame.body[4:].decode()
            if frame.opcode == EXECUTE:
                return self._execute(frame)
            if frame.opcode == BATCH:
                return self._batch(frame)
        self.server.sendall(frame.bytes())
        return None

    def answers(self) -> None:
        """Hands answers to the client until there are no more."""
        source = self.server.makefile("rb")
        with suppress(OSError):
            while frame := Frame.read(source):
                self._answer(frame)
        with suppress(OSError):
            self.client.shutdown(socket.SHUT_RDWR)

    def _answer(self, frame: Frame) -> None:
        with self.liar.turn:
            text = self.preparing.pop(frame.stream, None)
            reader = Reader(frame.body)
            if text and frame.opcode == RESULT and reader.number("i") == PREPARED:
                self.liar.statements[reader.take(reader.number("h"))] = text
            if frame.stream in self.failing:
                self.failing.remove(frame.stream)
                frame = frame.answered(ERROR, self._error())
        self._send(frame)

    def _send(self, frame: Frame) -> None:
        with self.sending:
            self.client.sendall(frame.bytes())

    def _error(self) -> bytes:
        return REFUSED if self.liar.fault == "apply_refused" else UNAVAILABLE

    def _execute(self, frame: Frame) -> None:
        reader = Reader(frame.body)
        text = self.liar.statements.get(reader.take(reader.number("h")), "")
        reader.take(2)
        before = frame.body[: reader.at + 1]
        if not reader.number("B") & WITH_VALUES or self.liar.table not in text:
            return self.server.sendall(frame.bytes())
        bound = Bound(text, reader.values())
        fails, applies = self.liar.fails(bound)
        if fails and not applies:
            return self._send(frame.answered(ERROR, self._error()))
        if fails:
            self.failing.add(frame.stream)
        instead = self.liar.altered(bound)
        self._note(bound)
        if instead is None:
            return self._send(frame.answered(RESULT, VOID))
        body = before + written(instead.values) + frame.body[reader.at :]
        sent = Frame(frame.version, frame.flags, frame.stream, frame.opcode, body)
        return self.server.sendall(sent.bytes())

    def _batch(self, frame: Frame) -> None:
        reader = Reader(frame.body)
        kind, count = reader.take(1), reader.number("h")
        statements = []
        for _ in range(count):
            assert reader.number("B") == 1, "the driver prepares what it sends in batches"
            own = reader.take(reader.number("h"))
            bound = Bound(self.liar.statements[own], reader.values())
            instead = self.liar.altered(bound)
            self._note(bound)
            if instead is not None:
                head = struct.pack(">Bh", 1, len(own)) + own
                statements.append(head + written(instead.values))
        body = kind + struct.pack(">h", len(statements)) + b"".join(statements)
        body += frame.body[reader.at :]
        sent = Frame(frame.version, frame.flags, frame.stream, frame.opcode, body)
        self.server.sendall(sent.bytes())

    def _note(self, bound: Bound) -> None:
        if bound.verb == "INSERT":
            self.liar.written.add(bound.key)
