"""A small client of memcached's text protocol, for setting servers up and asking after them.

It isn't what measures: no pipelining, no reconnecting, one command at a time.
"""

from __future__ import annotations

from typing import Final

from kvmark.testbed.connection import Connection, Encryption, ReplyError

__all__ = ["Client", "Login", "ReplyError"]

_LONGEST_LINE: Final = 64 * 1024
_ERRORS: Final = ("ERROR", "CLIENT_ERROR", "SERVER_ERROR")

Login = tuple[str, str]
"""User and password."""


class Client(Connection):
    """One connection, open from the beginning; a host that begins with `/` is a Unix socket.

    Raises:
        OSError: there is no connection, it breaks, or an answer takes longer than the timeout.
        ReplyError: the server refused the password.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        login: Login | None = None,
        encryption: Encryption | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        super().__init__(host, port, encryption, timeout_s)
        try:
            if login is not None:
                self._log_in(*login)
        except BaseException:
            self.close()
            raise

    def line(self, command: str) -> str:
        """Sends a line and returns the reply's first.

        Raises:
            ReplyError: it is an error.
        """
        self.send(f"{command}\r\n".encode())
        return self._read()

    def told(self, command: str) -> dict[str, str]:
        """Sends a command whose reply is lines `STAT name value`."""
        line, found = self.line(command), {}
        while line != "END":
            _, name, value = line.split(" ", 2)
            found[name] = value
            line = self._read()
        return found

    def begins(self, command: str, length: int) -> str:
        """Sends a line and returns so much of the reply; the connection is of no use then."""
        self.send(f"{command}\r\n".encode())
        return self.read(length).decode(errors="replace")

    def _read(self) -> str:
        line = self.read_line(_LONGEST_LINE)[:-2].decode(errors="replace")
        if line.split(" ", 1)[0] in _ERRORS:
            raise ReplyError(line)
        return line

    def _log_in(self, username: str, password: str) -> None:
        token = f"{username} {password}".encode()
        # A server without users stores it: it is to be forgotten at once.
        self.send(b"set login 0 -1 %d\r\n%s\r\n" % (len(token), token))
        try:
            self._read()
        except ReplyError as refusal:
            kind = str(refusal).partition(" ")[0]
            raise ReplyError(f"the server answered the login with {kind}") from None
