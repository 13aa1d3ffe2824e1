"""A small client of CQL's native protocol, version 4, for setting servers up and asking after them.

It isn't what measures: one connection to one server, one statement at a time, results in one page.
A driver would look for the other servers by itself, and it is each single one that is asked after.
"""

from __future__ import annotations

import ipaddress
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from kvmark.testbed.connection import Connection, ReplyError, trusting

__all__ = ["Client", "ReplyError", "Value"]

Value: TypeAlias = "str | int | bool | bytes | list[Value] | None"
"""A value of a row; of a type that isn't known here, its bytes."""

_VERSION: Final = 4
_ANSWER: Final = 0x80
_HEADER: Final = struct.Struct(">BBhBi")
_LONGEST: Final = 256 * 2**20

# Kinds of messages.
_ERROR: Final = 0x00
_STARTUP: Final = 0x01
_READY: Final = 0x02
_AUTHENTICATE: Final = 0x03
_QUERY: Final = 0x07
_RESULT: Final = 0x08
_AUTH_RESPONSE: Final = 0x0F
_AUTH_SUCCESS: Final = 0x10

_ROWS: Final = 2
_MORE_PAGES: Final = 0x02
_GLOBAL_TABLE: Final = 0x01
_CONSISTENCY: Final = {"ONE": 1, "QUORUM": 4, "ALL": 5}


def _integer(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


_SCALARS: Final[Mapping[int, Callable[[bytes], Value]]] = MappingProxyType(
    {
        0x01: bytes.decode,
        0x02: _integer,
        0x04: lambda data: data != b"\0",
        0x09: _integer,
        0x0C: lambda data: str(uuid.UUID(bytes=data)),
        0x0D: bytes.decode,
        0x0F: lambda data: str(uuid.UUID(bytes=data)),
        0x10: lambda data: str(ipaddress.ip_address(data)),
    }
)
_CUSTOM: Final = 0x00
_LIST: Final = 0x20
_MAP: Final = 0x21
_SET: Final = 0x22
_USER_DEFINED: Final = 0x30
_TUPLE: Final = 0x31


class Client(Connection):
    """One connection, open from the beginning.

    Raises:
        OSError: there is no connection, it breaks, or an answer takes longer than the timeout.
        ReplyError: the server refused the user or the password.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        login: tuple[str, str] | None = None,
        authority: Path | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        super().__init__(host, port, trusting(authority, host), timeout_s)
        try:
            self._introduce(login)
        except BaseException:
            self.close()
            raise

    def ask(self, statement: str, consistency: str = "ONE") -> list[dict[str, Value]]:
        """Carries out one statement; its rows by the names of their columns, none if it has none.

        Raises:
            OSError: the connection broke, or the answer took too long.
            ReplyError: the server answered with an error.
        """
        text = statement.encode()
        flags = b"\0"
        body = struct.pack(">i", len(text)) + text + struct.pack(">H", _CONSISTENCY[consistency])
        result = self._expect(_QUERY, body + flags, _RESULT)
        return _rows(result) if result.integer() == _ROWS else []

    def _introduce(self, login: tuple[str, str] | None) -> None:
        kind, _ = self._exchange(_STARTUP, b"\0\1" + _string("CQL_VERSION") + _string("3.0.0"))
        if kind == _READY:
            return
        if kind != _AUTHENTICATE:
            raise ConnectionError(f"the server answered a greeting with message {kind}")
        if login is None:
            raise ReplyError("the server asks for a user and a password")
        token = "".join(f"\0{word}" for word in login).encode()
        self._expect(_AUTH_RESPONSE, struct.pack(">i", len(token)) + token, _AUTH_SUCCESS)

    def _expect(self, kind: int, body: bytes, expected: int) -> _Body:
        answered, answer = self._exchange(kind, body)
        if answered != expected:
            raise ConnectionError(f"the server answered message {kind} with message {answered}")
        return answer

    def _exchange(self, kind: int, body: bytes) -> tuple[int, _Body]:
        self.send(_HEADER.pack(_VERSION, 0, 0, kind, len(body)) + body)
        version, _, _, answered, length = _HEADER.unpack(self.read(_HEADER.size))
        if version != _VERSION | _ANSWER or not 0 <= length <= _LONGEST:
            raise ConnectionError("the server doesn't speak version 4 of CQL's protocol")
        answer = _Body(self.read(length))
        if answered == _ERROR:
            answer.integer()
            raise ReplyError(answer.string())
        return answered, answer


class _Body:
    """The body of a message, read from its beginning."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, length: int) -> bytes:
        """The next bytes."""
        part = self._data[self._at : self._at + length]
        if len(part) != length:
            raise ConnectionError("the server's reply ends too early")
        self._at += length
        return part

    def integer(self) -> int:
        """The next four bytes as a number."""
        return _integer(self.take(4))

    def short(self) -> int:
        """The next two bytes as a number."""
        return int.from_bytes(self.take(2), "big")

    def string(self) -> str:
        """The next text, after its length in two bytes."""
        return self.take(self.short()).decode(errors="replace")

    def value(self) -> bytes | None:
        """The next bytes, after their length in four; None for null."""
        length = self.integer()
        return None if length < 0 else self.take(length)


_Decode: TypeAlias = Callable[[bytes], Value]


def _rows(result: _Body) -> list[dict[str, Value]]:
    flags, columns = result.integer(), result.integer()
    if flags & _MORE_PAGES:
        result.value()
    if flags & _GLOBAL_TABLE:
        result.string(), result.string()
    found = list(_columns(result, columns, each_has_table=not flags & _GLOBAL_TABLE))
    rows = range(result.integer())
    return [{name: _decoded(result.value(), decode) for name, decode in found} for _ in rows]


def _columns(result: _Body, count: int, *, each_has_table: bool) -> Iterator[tuple[str, _Decode]]:
    for _ in range(count):
        if each_has_table:
            result.string(), result.string()
        name = result.string()
        yield name, _type(result)


def _type(result: _Body) -> _Decode:
    """Reads the description of a type; what decodes its values."""
    kind = result.short()
    if kind == _CUSTOM:
        result.string()
    elif kind in {_LIST, _SET}:
        element = _type(result)
        return lambda data: _elements(data, element)
    elif kind == _MAP:
        _type(result), _type(result)
    elif kind == _USER_DEFINED:
        result.string(), result.string()
        for _ in range(result.short()):
            result.string(), _type(result)
    elif kind == _TUPLE:
        for _ in range(result.short()):
            _type(result)
    return _SCALARS.get(kind, bytes)


def _elements(data: bytes, element: _Decode) -> list[Value]:
    body = _Body(data)
    return [_decoded(body.value(), element) for _ in range(body.integer())]


def _decoded(data: bytes | None, decode: _Decode) -> Value:
    return None if data is None else decode(data)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data
