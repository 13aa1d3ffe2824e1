"""A small client of the Redis protocol, for setting servers up and asking after them.

It isn't what measures: no pipelining, no reconnecting, one command at a time.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

__all__ = ["Client", "Reply", "ReplyError"]

Reply: TypeAlias = "str | int | list[Reply] | None"
"""A reply of protocol version 2; texts are decoded, whatever they hold."""

_LONGEST_LINE: Final = 64 * 1024


class ReplyError(Exception):
    """The server answered with an error; the text is its own."""


class Client:
    """One connection, open from the beginning; a host that begins with `/` is a Unix socket.

    It is encrypted with an authority to trust, or with a context and the name to check.

    Raises:
        OSError: there is no connection, it breaks, or an answer takes longer than the timeout.
        ReplyError: the server refused the password.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        username: str | None = None,
        password: str | None = None,
        authority: Path | None = None,
        encryption: tuple[ssl.SSLContext, str] | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        self._socket = _connected(host, port, timeout_s)
        try:
            if authority is not None:
                encryption = ssl.create_default_context(cafile=authority), host
            if encryption is not None:
                context, name = encryption
                self._socket = context.wrap_socket(self._socket, server_hostname=name)
        except BaseException:
            self._socket.close()
            raise
        self._input = self._socket.makefile("rb")
        try:
            if password is not None:
                self.ask("AUTH", *([username] if username else []), password)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """The open connection."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the connection."""
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._input.close()
        self._socket.close()

    def ask(self, *words: str | int) -> Reply:
        """Sends one command and waits for its reply."""
        parts = [str(word).encode() for word in words]
        lengths = (b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        self._socket.sendall(b"*%d\r\n%s" % (len(parts), b"".join(lengths)))
        return self._read()

    def text(self, *words: str | int) -> str:
        """Sends a command whose reply is a text."""
        reply = self.ask(*words)
        if not isinstance(reply, str):
            raise ReplyError(f"{words[0]} was answered with {type(reply).__name__}, not a text")
        return reply

    def facts(self, *words: str | int) -> dict[str, str]:
        """Sends a command whose reply is lines `name:value`, as those of INFO."""
        lines = (line.partition(":") for line in self.text(*words).splitlines())
        return {name: value for name, colon, value in lines if colon}

    def pairs(self, *words: str | int) -> dict[str, str]:
        """Sends a command whose reply lists names and values in turn."""
        reply = self.ask(*words)
        found = [str(part) for part in reply] if isinstance(reply, list) else []
        return dict(zip(found[::2], found[1::2], strict=True))

    def _read(self) -> Reply:
        line = self._input.readline(_LONGEST_LINE)
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection in the middle of a reply")
        kind, rest = line[:1], line[1:-2].decode(errors="replace")
        match kind:
            case b"+":
                return rest
            case b"-":
                raise ReplyError(rest)
            case b":":
                return int(rest)
            case b"$":
                return self._read_text(int(rest))
            case b"*":
                return None if rest == "-1" else [self._read() for _ in range(int(rest))]
            case _:
                raise ConnectionError(f"the server's reply begins with {kind!r}")

    def _read_text(self, length: int) -> str | None:
        if length < 0:
            return None
        data = self._input.read(length + 2)
        if len(data) != length + 2:
            raise ConnectionError("the server closed the connection in the middle of a reply")
        return data[:-2].decode(errors="replace")


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
