"""What a server of the Redis protocol holds, whoever started it: how many keys, and removing them.

A server is named by the options of its driver, as they come out of a URL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from kvmark.errors import SystemUnderTestError
from kvmark.secret import Secret
from kvmark.testbed.named import encryption_of, password_of, place_of
from kvmark.testbed.redis.client import Client, Reply, ReplyError
from kvmark.testbed.system import Contents

__all__ = ["Database", "contents"]

_PORT: Final = 6379
_UNKNOWN: Final = "unknown command"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Database:
    """One numbered database of a server, or all of a cluster."""

    options: Mapping[str, str]
    """The driver's, as text."""
    password: Secret | None = None
    """None where the options say where it is, or there is none."""

    def keys(self) -> int | None:
        """How many keys there are; None where the server doesn't count them.

        Raises:
            SystemUnderTestError: the server can't be reached, or refuses.
            UsageError: the password can't be read.
        """
        counts = self._of_each(_count)
        return None if None in counts else sum(each or 0 for each in counts)

    def remove_keys(self) -> None:
        """Removes all keys.

        Raises:
            SystemUnderTestError: the server can't be reached, or refuses.
            UsageError: the password can't be read.
        """
        self._of_each(lambda client: client.ask("FLUSHDB"))

    def _of_each(self, ask: Callable[[Client], T]) -> list[T]:
        """What each server that holds a part of the keys answers."""
        places = [place_of(each, _PORT) for each in self.options["address"].split(",")]
        try:
            if self.options.get("cluster") == "true":
                with self._connect(*places[0]) as client:
                    places = _primaries(client.ask("CLUSTER", "SLOTS"), places[0][0])
            return [self._on(place, ask) for place in places]
        except (OSError, ReplyError) as problem:
            raise SystemUnderTestError(
                f"the server at {self.options['address']} doesn't say what it holds: {problem}"
            ) from problem

    def _on(self, place: tuple[str, int], ask: Callable[[Client], T]) -> T:
        with self._connect(*place) as client:
            number = self.options.get("database", "0")
            if number != "0":
                client.ask("SELECT", number)
            return ask(client)

    def _connect(self, host: str, port: int) -> Client:
        return Client(
            host,
            port,
            username=self.options.get("username"),
            password=password_of(self.options, self.password),
            encryption=encryption_of(self.options, host),
        )


def contents(options: Mapping[str, str], password: Secret | None) -> Contents | None:
    """What a server holds; None where it can't count its keys, and so can't be known to be empty.

    Raises:
        SystemUnderTestError: the server can't be reached, or refuses.
        UsageError: the password can't be read.
    """
    database = Database(options, password)
    keys = database.keys()
    if keys is None:
        return None
    return Contents(
        f"{keys:,} keys" if keys else None,
        "remove them with --on-existing remove, load over them with --on-existing keep, or name an"
        " empty database such as redis://HOST:PORT/1",
        database.remove_keys,
    )


def _count(client: Client) -> int | None:
    try:
        reply = client.ask("DBSIZE")
    except ReplyError as problem:
        if _UNKNOWN in str(problem).lower():
            return None
        raise
    return reply if isinstance(reply, int) else None


def _primaries(slots: Reply, asked: str) -> list[tuple[str, int]]:
    """The servers that own slots. An empty host is the one that was asked."""
    found: dict[tuple[str, int], None] = {}
    for entry in slots if isinstance(slots, list) else []:
        match entry:
            case [int(), int(), [str() | None as host, int() as port, *_], *_]:
                found[host or asked, port] = None
    return list(found)
