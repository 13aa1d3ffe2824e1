"""The items of servers with memcached's protocol that anyone may have started: owner and removal.

The options of the driver name the servers. Each server that kvmark found empty has an additional
item, its mark, which isn't counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from kvmark.errors import SystemUnderTestError
from kvmark.interrupts import pause
from kvmark.secret import Secret
from kvmark.testbed import console as consoles
from kvmark.testbed.console import Console, naming_server
from kvmark.testbed.system import Contents, DriverOptions, IsOwnKey

_MARK: Final = "kvmark:dataset"
_ATTEMPTS: Final = 20
_PAUSE_S: Final = 0.1
_LISTING_MS: Final = 300_000
"""Listing all items takes long if there are many."""
_MOST_LISTED: Final = 1_000_000
"""A listing takes about 100 bytes for each item of an unknown server."""
_KEY: Final = re.compile(r"^key=(\S+)", re.MULTILINE)


def stats(console: Console, *section: str) -> dict[str, str]:
    """The lines `STAT name value` of a server."""
    lines = (line.split(" ", 2) for line in console.ask("stats", *section).splitlines())
    return {words[1]: words[2] for words in lines if words[0] == "STAT"}


@dataclass(frozen=True, slots=True)
class _Server:
    """One of the servers among which keys are divided."""

    address: str
    console: Console
    listing: Console
    """The same server, with a limit for long replies."""

    def items(self) -> int | None:
        """The number of items without the mark; None if the server doesn't count them."""
        with naming_server(self.address, "doesn't report its contents"):
            count = stats(self.console).get("curr_items")
        if count is None:
            return None
        # Flushed items are counted until the server visits them, but aren't listed.
        keys = self._keys() if 0 < int(count) <= _MOST_LISTED else None
        if keys is None:
            return int(count) - (self.claim() is not None)
        return sum(key != _MARK for key in keys)

    def claim(self) -> str | None:
        """The claim in the server's mark; None without one."""
        with naming_server(self.address, "doesn't report its contents"):
            lines = self.console.ask("get", _MARK).splitlines()
        return str(lines[1]) if len(lines) > 1 else None

    def foreign_key(self, is_own: IsOwnKey) -> str | None:
        """A description of an item whose key isn't one's own; None without one."""
        keys = self._keys()
        if keys is None:
            return f"items that the server at {self.address} doesn't list"
        foreign = (key for key in keys if key != _MARK and not is_own(key))
        return next((f"the key {key!r}" for key in foreign), None)

    def _keys(self) -> Sequence[str] | None:
        """All keys; None from a server that doesn't list them, such as one before 1.6.9.

        It walks the hash table: items move between the lists of `metadump all`, which misses some.
        """
        for _ in range(_ATTEMPTS):
            try:
                listed = str(self.listing.ask("lru_crawler", "metadump", "hash"))
            except SystemUnderTestError:
                return None
            if not listed.startswith("BUSY"):
                ended = listed.endswith("END")
                return [unquote(key) for key in _KEY.findall(listed)] if ended else None
            pause(_PAUSE_S)
        return None


def contents(options: DriverOptions, password: Secret | None) -> Contents | None:
    """The items of the servers; None if one doesn't count them.

    Raises:
        SystemUnderTestError: a server can't be reached, or refuses.
        UsageError: the password can't be read.
    """
    patient = {**options, "connect_timeout_ms": str(_LISTING_MS)}
    servers = [
        _Server(
            address,
            Console("memcached", {**options, "address": address}, password),
            Console("memcached", {**patient, "address": address}, password),
        )
        for address in options["address"].split(",")
    ]
    counts = [server.items() for server in servers]
    if None in counts:
        return None
    items = sum(count or 0 for count in counts)
    claims = {server.claim() for server, count in zip(servers, counts, strict=True) if count}

    def foreign(is_own: IsOwnKey) -> str | None:
        return next(filter(None, (server.foreign_key(is_own) for server in servers)), None)

    def remove() -> None:
        for server in servers:
            with naming_server(server.address, consoles.CANNOT_EMPTY):
                server.console.ask("flush_all")

    def mark(claim: str) -> None:
        for server in servers:
            with naming_server(server.address, consoles.CANNOT_MARK):
                server.console.ask("set", _MARK, 0, 0, f"{len(claim)}\r\n{claim}")

    # A server with items and no mark was replaced, restarted or full: the items may be others'.
    own = claims.pop() if len(claims) == 1 else None
    found = f"{items:,} items" if items else None
    return Contents(found, "name an empty server", own, foreign, remove, mark)
