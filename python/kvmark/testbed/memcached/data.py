"""What servers of memcached's protocol hold, whoever started them, and removing it.

They are named by the options of their driver, as they come out of a URL.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Final

from kvmark.errors import SystemUnderTestError
from kvmark.secret import Secret
from kvmark.testbed.memcached.client import Client, ReplyError
from kvmark.testbed.named import encryption_of, password_of, place_of
from kvmark.testbed.system import Contents

__all__ = ["contents"]

_PORT: Final = 11211
_LOOKS: Final = 20
_LOOK_S: Final = 0.1


def contents(options: Mapping[str, str], password: Secret | None) -> Contents | None:
    """What the servers hold; None where one doesn't count it.

    Raises:
        SystemUnderTestError: a server can't be reached, or refuses.
        UsageError: the password can't be read.
    """
    items = 0
    for address in options["address"].split(","):
        connect = partial(_connected, options, password, address)
        with connect() as client:
            count = client.told("stats").get("curr_items")
        if count is None:
            return None
        # What was flushed is counted until the server looks at it.
        if count != "0" and _has_any(connect):
            items += int(count)

    def remove() -> None:
        for address in options["address"].split(","):
            with _connected(options, password, address) as client:
                client.line("flush_all")

    return Contents(
        f"{items:,} items" if items else None,
        "remove them with --on-existing remove, load over them with --on-existing keep, or name an"
        " empty server",
        remove,
    )


def _has_any(connect: Callable[[], AbstractContextManager[Client]]) -> bool:
    """Whether an item can still be read; a server that doesn't tell is taken at its count."""
    for _ in range(_LOOKS):
        with connect() as client:
            # Of the list of all items the beginning is enough.
            began = client.begins("lru_crawler metadump all", len("END"))
        if began != "BUS":
            return began != "END"
        time.sleep(_LOOK_S)
    return True


@contextmanager
def _connected(
    options: Mapping[str, str], password: Secret | None, address: str
) -> Iterator[Client]:
    host, port = place_of(address, _PORT)
    username, secret = options.get("username"), password_of(options, password)
    try:
        with Client(
            host,
            port,
            login=(username, secret) if username and secret else None,
            encryption=encryption_of(options, host),
        ) as client:
            yield client
    except (OSError, ReplyError) as problem:
        raise SystemUnderTestError(
            f"the server at {address} doesn't say what it holds: {problem}"
        ) from problem
