"""What a server of the Redis protocol holds, whoever started it: how many keys, and removing them.

A server is named by the options of its driver, as they come out of a URL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kvmark.errors import SystemUnderTestError
from kvmark.secret import Secret
from kvmark.testbed.console import Console
from kvmark.testbed.system import Contents

__all__ = ["Database", "contents"]

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
        counts = self._of_each(_count, "doesn't say what it holds")
        return None if None in counts else sum(each or 0 for each in counts)

    def remove_keys(self) -> None:
        """Removes all keys.

        Raises:
            SystemUnderTestError: the server can't be reached, or refuses.
            UsageError: the password can't be read.
        """
        refusal = "can't be emptied (--on-existing keep loads over what it holds)"
        self._of_each(lambda console: console.ask("FLUSHDB"), refusal)

    def _of_each(self, ask: Callable[[Console], T], refusal: str) -> list[T]:
        """What each server that holds a part of the keys answers; `refusal` says what it didn't."""
        try:
            consoles = [Console("redis", self.options, self.password)]
            if self.options.get("cluster") == "true":
                asked = self.options["address"].partition(",")[0].rpartition(":")[0]
                slots = consoles[0].ask("CLUSTER", "SLOTS")
                consoles = [
                    Console("redis", {**self.options, "address": place}, self.password)
                    for place in _primaries(slots, asked or self.options["address"])
                ]
            return [ask(console) for console in consoles]
        except SystemUnderTestError as problem:
            raise SystemUnderTestError(
                f"the server at {self.options['address']} {refusal}: {problem}"
            ) from problem


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


def _count(console: Console) -> int | None:
    try:
        return int(console.ask("DBSIZE"))
    except SystemUnderTestError as problem:
        if _UNKNOWN in str(problem).lower():
            return None
        raise


def _primaries(slots: list[Any], asked: str) -> list[str]:
    """The addresses of the servers that own slots. An empty host is the one that was asked."""
    places = [(host or asked, port) for _, _, (host, port, *_), *_ in slots]
    return list(dict.fromkeys(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in places))
