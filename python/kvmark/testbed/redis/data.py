"""The keys of a server with the Redis protocol that anyone may have started: owner and removal.

The options of the driver name the server. A database that kvmark found empty has an additional key,
its mark: it isn't counted, and no scan of records returns it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from kvmark.errors import SystemUnderTestError
from kvmark.secret import Secret
from kvmark.testbed.console import CANNOT_EMPTY, CANNOT_MARK, Console, naming_server
from kvmark.testbed.system import Contents, DriverOptions, IsOwnKey

MARK: Final = "kvmark:dataset"
"""The key whose value is the claim."""
_OWN: Final = frozenset({MARK, "_indices"})
"""Includes the driver's index of records, which YCSB has too."""
_UNKNOWN: Final = "unknown command"
_ELSEWHERE: Final = "MOVED"
_PAGE: Final = 1000


@dataclass(frozen=True)
class _Database:
    """One numbered database of a server, or all of a cluster."""

    options: DriverOptions
    password: Secret | None

    @cached_property
    def consoles(self) -> list[Console]:
        """One for each server with a part of the keys."""
        first = Console("redis", self.options, self.password)
        if self.options.get("cluster") != "true":
            return [first]
        host = self.options["address"].partition(",")[0].rpartition(":")[0]
        slots = first.ask("CLUSTER", "SLOTS")
        return [
            Console("redis", {**self.options, "address": place}, self.password)
            for place in _primaries(slots, host or self.options["address"])
        ]

    @cached_property
    def marked(self) -> tuple[Console, str] | None:
        """The server with the mark, and the claim in it."""
        for console in self.consoles:
            # Another server of the cluster has the mark's slot, or the key isn't kvmark's.
            with suppress(SystemUnderTestError):
                claim = console.ask("GET", MARK)
                if claim is not None:
                    return console, str(claim)
        return None

    def keys(self) -> int | None:
        """The number of keys without the mark; None if a server doesn't count them."""
        with naming_server(self.options["address"], "doesn't report its contents"):
            counts = [_unless(_UNKNOWN, one, "DBSIZE") for one in self.consoles]
            if None in counts:
                return None
            return sum(map(int, counts)) - (self.marked is not None)

    def foreign_key(self, is_own: IsOwnKey) -> str | None:
        """A description of a key that isn't one's own; None without one."""
        with naming_server(self.options["address"], "doesn't list its keys"):
            for console in self.consoles:
                for key in _scan(console):
                    if key not in _OWN and not is_own(key):
                        return f"the key {key!r}"
        return None

    def remove_keys(self) -> None:
        """Removes all keys, the mark's server last: it proves the ownership of the rest."""
        last = None if self.marked is None else self.marked[0]
        with naming_server(self.options["address"], CANNOT_EMPTY):
            for console in sorted(self.consoles, key=lambda console: console is last):
                console.ask("FLUSHDB")

    def mark(self, claim: str) -> None:
        """Writes the mark to the server that has its slot."""
        with naming_server(self.options["address"], CANNOT_MARK):
            for console in self.consoles:
                if _unless(_ELSEWHERE, console, "SET", MARK, claim):
                    return


def contents(options: DriverOptions, password: Secret | None) -> Contents | None:
    """The keys of a server; None if it can't count them, and so may not be empty.

    Raises:
        SystemUnderTestError: the server can't be reached, or refuses.
        UsageError: the password can't be read.
    """
    database = _Database(options, password)
    keys = database.keys()
    if keys is None:
        return None
    return Contents(
        found=f"{keys:,} keys" if keys else None,
        others="name an empty database such as redis://HOST:PORT/1",
        claim=None if database.marked is None else database.marked[1],
        foreign=database.foreign_key,
        remove=database.remove_keys,
        mark=database.mark,
    )


def _unless(refusal: str, console: Console, *words: str) -> Any:
    """The reply to a command; None where the server refuses for that reason.

    Raises:
        SystemUnderTestError: it refuses for another reason, or can't be reached.
    """
    try:
        return console.ask(*words)
    except SystemUnderTestError as problem:
        if refusal.lower() in str(problem).lower():
            return None
        raise


def _scan(console: Console) -> Iterator[str]:
    cursor = "0"
    while True:
        cursor, keys = console.ask("SCAN", cursor, "COUNT", _PAGE)
        yield from map(str, keys)
        if str(cursor) == "0":
            return


def _primaries(slots: list[Any], own_host: str) -> list[str]:
    """The addresses of the servers that own slots. An empty host is `own_host`."""
    places = [(host or own_host, port) for _, _, (host, port, *_), *_ in slots]
    return list(dict.fromkeys(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in places))
