"""What servers of memcached's protocol hold, whoever started them, and removing it.

They are named by the options of their driver, as they come out of a URL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from kvmark.errors import SystemUnderTestError
from kvmark.interrupts import pause
from kvmark.secret import Secret
from kvmark.testbed.console import Console
from kvmark.testbed.memcached.health import told
from kvmark.testbed.system import Contents

__all__ = ["contents"]

_LOOKS: Final = 20
_LOOK_S: Final = 0.1


def contents(options: Mapping[str, str], password: Secret | None) -> Contents | None:
    """What the servers hold; None where one doesn't count it.

    Raises:
        SystemUnderTestError: a server can't be reached, or refuses.
        UsageError: the password can't be read.
    """
    items = 0
    addresses = options["address"].split(",")
    consoles = [Console("memcached", {**options, "address": each}, password) for each in addresses]
    for console, address in zip(consoles, addresses, strict=True):
        with _named(address):
            count = told(console).get("curr_items")
        if count is None:
            return None
        # What was flushed is counted until the server looks at it.
        if count != "0" and _has_any(console):
            items += int(count)

    def remove() -> None:
        for console, address in zip(consoles, addresses, strict=True):
            with _named(address):
                console.ask("flush_all")

    return Contents(
        f"{items:,} items" if items else None,
        "remove them with --on-existing remove, load over them with --on-existing keep, or name an"
        " empty server",
        remove,
    )


def _has_any(console: Console) -> bool:
    """Whether an item can still be read; a server that doesn't tell is taken at its count."""
    for _ in range(_LOOKS):
        try:
            said = console.ask("lru_crawler", "metadump", "all")
        except SystemUnderTestError:
            # A list of items isn't an answer that the driver knows: its first line is enough.
            return True
        if said == "END":
            return False
        pause(_LOOK_S)
    return True


@contextmanager
def _named(address: str) -> Iterator[None]:
    """Says which server it was that failed."""
    try:
        yield
    except SystemUnderTestError as problem:
        raise SystemUnderTestError(
            f"the server at {address} doesn't say what it holds: {problem}"
        ) from problem
