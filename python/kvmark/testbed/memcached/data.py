"""What servers of memcached's protocol hold, whoever started them: items, whose they are, removal.

They are named by the options of their driver, as they come out of a URL. Each server that kvmark
found empty has one item more, its mark, which isn't counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from kvmark.errors import SystemUnderTestError
from kvmark.interrupts import pause
from kvmark.secret import Secret
from kvmark.testbed.console import Console
from kvmark.testbed.memcached.up import told
from kvmark.testbed.system import Contents, IsOwnKey

_MARK: Final = "kvmark:dataset"
_LOOKS: Final = 20
_LOOK_S: Final = 0.1
_LISTING_MS: Final = 300_000
"""Listing all items takes as long as there are many."""
_MOST_LISTED: Final = 1_000_000
"""More items of an unknown server aren't listed, which takes about 100 bytes each."""
_KEY: Final = re.compile(r"^key=(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Server:
    """One of the servers among which keys are divided."""

    address: str
    console: Console
    listing: Console
    """The same server, with time for long answers."""

    def items(self) -> int | None:
        """How many items there are beside the mark; None where the server doesn't count them."""
        with self._named("doesn't say what it holds"):
            count = told(self.console).get("curr_items")
        if count is None:
            return None
        # What was flushed is counted until the server looks at it, and isn't listed.
        keys = self._keys() if 0 < int(count) <= _MOST_LISTED else None
        if keys is None:
            return int(count) - (self.claim() is not None)
        return sum(key != _MARK for key in keys)

    def claim(self) -> str | None:
        """The claim in the server's mark; None without one."""
        with self._named("doesn't say what it holds"):
            lines = self.console.ask("get", _MARK).splitlines()
        return str(lines[1]) if len(lines) > 1 else None

    def foreign_key(self, is_own: IsOwnKey) -> str | None:
        """An item whose key isn't one of these names, nor the mark; None without one."""
        keys = self._keys()
        if keys is None:
            return f"items that the server at {self.address} doesn't list"
        foreign = (key for key in keys if key != _MARK and not is_own(key))
        return next((f"the key {key!r}" for key in foreign), None)

    def remove(self) -> None:
        """Removes all items."""
        with self._named("can't be emptied (--on-existing keep loads over what it holds)"):
            self.console.ask("flush_all")

    def mark(self, claim: str) -> None:
        """Writes the mark."""
        refusal = "can't be marked as kvmark's own (--on-existing keep loads without a mark)"
        with self._named(refusal):
            self.console.ask("set", _MARK, 0, 0, f"{len(claim)}\r\n{claim}")

    def _keys(self) -> Sequence[str] | None:
        """All keys; None from a server that doesn't list them, such as one before 1.6.9.

        The hash table is walked: items move between the lists of `metadump all`, which misses some.
        """
        for _ in range(_LOOKS):
            try:
                listed = str(self.listing.ask("lru_crawler", "metadump", "hash"))
            except SystemUnderTestError:
                return None
            if not listed.startswith("BUSY"):
                ended = listed.endswith("END")
                return [unquote(key) for key in _KEY.findall(listed)] if ended else None
            pause(_LOOK_S)
        return None

    @contextmanager
    def _named(self, refusal: str) -> Iterator[None]:
        """Says which server it was that failed, and in what."""
        try:
            yield
        except SystemUnderTestError as problem:
            raise SystemUnderTestError(
                f"the server at {self.address} {refusal}: {problem}"
            ) from problem


def contents(options: Mapping[str, str], password: Secret | None) -> Contents | None:
    """What the servers hold; None where one doesn't count it.

    Raises:
        SystemUnderTestError: a server can't be reached, or refuses.
        UsageError: the password can't be read.
    """
    servers = [_server(options, each, password) for each in options["address"].split(",")]
    counts = [server.items() for server in servers]
    if None in counts:
        return None
    items = sum(count or 0 for count in counts)
    claims = {server.claim() for server, count in zip(servers, counts, strict=True) if count}
    return Contents(
        found=f"{items:,} items" if items else None,
        others="name an empty server",
        # A server with items and no mark was replaced, restarted or full: they may be others'.
        claim=claims.pop() if len(claims) == 1 else None,
        foreign=lambda names: next(filter(None, (one.foreign_key(names) for one in servers)), None),
        remove=lambda: _each(servers, _Server.remove),
        mark=lambda claim: _each(servers, lambda server: server.mark(claim)),
    )


def _server(options: Mapping[str, str], address: str, password: Secret | None) -> _Server:
    own = {**options, "address": address}
    patient = {**own, "connect_timeout_ms": str(_LISTING_MS)}
    return _Server(
        address, Console("memcached", own, password), Console("memcached", patient, password)
    )


def _each(servers: Sequence[_Server], do: Callable[[_Server], None]) -> None:
    for server in servers:
        do(server)
