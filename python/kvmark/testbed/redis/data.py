"""What a server of the Redis protocol holds, whoever started it: keys, whose they are, removal.

A server is named by the options of its driver, as they come out of a URL. A database that kvmark
found empty has one key more, its mark: it isn't counted, and no scan of records returns it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from kvmark.errors import SystemUnderTestError
from kvmark.secret import Secret
from kvmark.testbed.console import Console
from kvmark.testbed.system import Contents, IsOwnKey

MARK: Final = "kvmark:dataset"
"""The key whose value is the claim."""
_OWN: Final = frozenset({MARK, "_indices"})
"""With the index of records that the driver keeps, as YCSB does."""
_UNKNOWN: Final = "unknown command"
_ELSEWHERE: Final = "MOVED"
_PAGE: Final = 1000


@dataclass(frozen=True)
class _Database:
    """One numbered database of a server, or all of a cluster."""

    options: Mapping[str, str]
    password: Secret | None = None

    @cached_property
    def consoles(self) -> list[Console]:
        """One of each server that holds a part of the keys."""
        first = Console("redis", self.options, self.password)
        if self.options.get("cluster") != "true":
            return [first]
        asked = self.options["address"].partition(",")[0].rpartition(":")[0]
        slots = first.ask("CLUSTER", "SLOTS")
        return [
            Console("redis", {**self.options, "address": place}, self.password)
            for place in _primaries(slots, asked or self.options["address"])
        ]

    @cached_property
    def marked(self) -> tuple[Console, str] | None:
        """The server that holds the mark, and the claim in it."""
        for console in self.consoles:
            # Another server of the cluster has the mark's slot, or it is somebody else's key.
            with suppress(SystemUnderTestError):
                claim = console.ask("GET", MARK)
                if claim is not None:
                    return console, str(claim)
        return None

    def keys(self) -> int | None:
        """How many keys there are beside the mark; None where a server doesn't count them."""
        with self._named("doesn't say what it holds"):
            counts = [_unless(_UNKNOWN, one, "DBSIZE") for one in self.consoles]
            if None in counts:
                return None
            return sum(map(int, counts)) - (self.marked is not None)

    def foreign_key(self, is_own: IsOwnKey) -> str | None:
        """A key that isn't one of these names, nor the mark; None without one."""
        with self._named("doesn't list its keys"):
            for console in self.consoles:
                for key in _scan(console):
                    if key not in _OWN and not is_own(key):
                        return f"the key {key!r}"
        return None

    def remove_keys(self) -> None:
        """Removes all keys, the mark's server last: until then it proves whose the rest is."""
        last = None if self.marked is None else self.marked[0]
        with self._named("can't be emptied (--on-existing keep loads over what it holds)"):
            for console in sorted(self.consoles, key=lambda console: console is last):
                console.ask("FLUSHDB")

    def mark(self, claim: str) -> None:
        """Writes the mark to the server that has its slot."""
        refusal = "can't be marked as kvmark's own (--on-existing keep loads without a mark)"
        with self._named(refusal):
            for console in self.consoles:
                if _unless(_ELSEWHERE, console, "SET", MARK, claim):
                    return

    @contextmanager
    def _named(self, refusal: str) -> Iterator[None]:
        """Says which server it was that failed, and in what."""
        try:
            yield
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
    """The answer to a command; None where the server refuses for that reason.

    Raises:
        SystemUnderTestError: it refuses for another, or can't be reached.
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


def _primaries(slots: list[Any], asked: str) -> list[str]:
    """The addresses of the servers that own slots. An empty host is the one that was asked."""
    places = [(host or asked, port) for _, _, (host, port, *_), *_ in slots]
    return list(dict.fromkeys(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in places))
