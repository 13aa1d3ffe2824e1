"""Whether a system holds records already when a sequence begins with a load, and what then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from kvmark.errors import UsageError
from kvmark.spec.url import SystemUrl
from kvmark.testbed.redis.data import Database
from kvmark.testbed.rocksdb import holds_database, remove_database

__all__ = ["OnExisting", "emptier"]

OnExisting: TypeAlias = Literal["refuse", "keep", "remove"]
"""What to do with records that are there: refuse to begin, load over them, remove them first."""


def emptier(system: SystemUrl, on_existing: OnExisting) -> Callable[[], None]:
    """What makes a system empty before each first load, once it is known to be ours to empty.

    What was there before is removed only if the user said so. What is loaded later is the
    sequence's own and is removed before the next one, unless everything is to be kept.

    Raises:
        UsageError: there are records, and nothing was said about them.
        SystemUnderTestError: the system doesn't say, or doesn't let go of them.
    """
    if on_existing == "keep":
        return _nothing
    if system.driver == "rocksdb":
        return _folder_emptier(Path(system.options["path"]), on_existing)
    if system.driver == "redis":
        return _server_emptier(system, on_existing)
    return _nothing


def _nothing() -> None:
    """Leaves a system as it is."""


def _folder_emptier(folder: Path, on_existing: OnExisting) -> Callable[[], None]:
    if on_existing == "refuse" and holds_database(folder):
        raise UsageError(
            f"{folder} already holds a database, and the sequence begins with a load: remove it"
            " with --on-existing remove, name another folder, or leave load out of --workloads"
        )
    return lambda: remove_database(folder)


def _server_emptier(system: SystemUrl, on_existing: OnExisting) -> Callable[[], None]:
    database = Database(system.options, system.password)
    keys = database.keys()
    if keys is None:
        # A server that can't count its keys can't be known to hold none: nothing is removed.
        return _nothing
    if keys and on_existing == "refuse":
        raise UsageError(
            f"{system} already holds {keys:,} keys, and the sequence begins with a load: remove"
            " them with --on-existing remove, load over them with --on-existing keep, or name an"
            " empty database such as redis://HOST:PORT/1"
        )
    return database.remove_keys
