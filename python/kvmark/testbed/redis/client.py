"""A small client of the Redis protocol, for setting servers up and asking after them.

It isn't what measures: no pipelining, no reconnecting, one command at a time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeAlias

from kvmark.testbed.connection import Connection, Encryption, ReplyError, trusting

__all__ = ["Client", "Reply", "ReplyError"]

Reply: TypeAlias = "str | int | list[Reply] | None"
"""A reply of protocol version 2; texts are decoded, whatever they hold."""

_LONGEST_LINE: Final = 64 * 1024
_LOGIN_ERRORS: Final = ("WRONGPASS", "NOAUTH", "NOPERM", "ERR", "LOADING", "MASTERDOWN", "BUSY")


class Client(Connection):
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
        encryption: Encryption | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        super().__init__(host, port, encryption or trusting(authority, host), timeout_s)
        try:
            if password is not None:
                self._log_in([*([username] if username else []), password])
        except BaseException:
            self.close()
            raise

    def ask(self, *words: str | int) -> Reply:
        """Sends one command and waits for its reply."""
        parts = [str(word).encode() for word in words]
        lengths = (b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        self.send(b"*%d\r\n%s" % (len(parts), b"".join(lengths)))
        return self._read()

    def _log_in(self, words: list[str]) -> None:
        try:
            self.ask("AUTH", *words)
        except ReplyError as refusal:
            # Old servers repeat what they don't understand, so only the kind of the error is told.
            said = str(refusal).partition(" ")[0]
            kind = said if said in _LOGIN_ERRORS else "an error"
            raise ReplyError(f"the server answered the login with {kind}") from None

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
        line = self.read_line(_LONGEST_LINE)
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
        return self.read(length + 2)[:-2].decode(errors="replace")
