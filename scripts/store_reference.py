"""Prints docs/reference/stores.md: the options of every driver's URL, from its own table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from kvmark import _engine
from kvmark.drivers import schemes

HEAD: Final = """\
# Options of stores

Options follow a system's URL: `redis://host:6379?protocol=3&connections=4`. Write special
characters as in any URL (`%40` is @). An unknown option or a wrong value is an error that lists
what is known.

This page is generated from the drivers."""
HEADINGS: Final = "| option | values | default | effect |\n|---|---|---|---|"
TITLES: Final = {
    "rocksdb": "RocksDB",
    "redis": "Redis",
    "memcached": "memcached",
    "cql": "Cassandra and compatible servers",
}


def page() -> Iterator[str]:
    """The lines of the page."""
    options = json.loads(_engine.driver_options())
    yield HEAD
    for name, title in TITLES.items():
        examples = ", ".join(
            f"`{one.example}`" for one in schemes().values() if one.driver.name == name
        )
        yield f"\n## {title}\n\n{examples}\n\n{HEADINGS}"
        for one in options[name]:
            default = "" if one["default"] in {None, ""} else f"`{one['default']}`"
            yield f"| `{one['name']}` | {one['accepts']} | {default} | {one['meaning']} |"


if __name__ == "__main__":
    print("\n".join(page()))
