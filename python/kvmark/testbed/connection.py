"""A connection to one server, for the small clients that set servers up and ask after them."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Self, TypeAlias

__all__ = ["Connection", "Encryption", "ReplyError", "trusting"]

Encryption: TypeAlias = tuple[ssl.SSLContext, str]
"""Whom to trust, and the name that the server's certificate must be for."""


class ReplyError(Exception):
    """The server answered with an error; the text is its own."""


class Connection:
    """A connection, open from the beginning; a host that begins with `/` is a Unix socket.

    Raises:
        OSError: there is no connection, it breaks, or an answer takes longer than the timeout.
    """

    def __init__(
        self, host: str, port: int, encryption: Encryption | None, timeout_s: float
    ) -> None:
        self._socket = _connected(host, port, timeout_s)
        try:
            if encryption is not None:
                context, name = encryption
                self._socket = context.wrap_socket(self._socket, server_hostname=name)
        except BaseException:
            self._socket.close()
            raise
        self._input = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        """The open connection."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the connection."""
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._input.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Sends all of the bytes."""
        self._socket.sendall(data)

    def read(self, length: int) -> bytes:
        """So many bytes, waited for."""
        data = self._input.read(length)
        if len(data) != length:
            raise _cut_short()
        return data

    def read_line(self, longest: int) -> bytes:
        """A line of at most so many bytes with its end, CR and LF."""
        line = self._input.readline(longest)
        if not line.endswith(b"\r\n"):
            raise _cut_short()
        return line


def trusting(authority: Path | None, host: str) -> Encryption | None:
    """Encryption for a host whose certificate this authority signed; none without one."""
    if authority is None:
        return None
    return ssl.create_default_context(cafile=authority), host


def _connected(host: str, port: int, timeout_s: float) -> socket.socket:
    if not host.startswith("/"):
        return socket.create_connection((host, port), timeout=timeout_s)
    made = socket.socket(socket.AF_UNIX)
    try:
        made.settimeout(timeout_s)
        made.connect(host)
    except BaseException:
        made.close()
        raise
    return made


def _cut_short() -> ConnectionError:
    return ConnectionError("the server closed the connection in the middle of a reply")
