"""The documents of a MongoDB database: their owner and removal. kvmark starts no such server.

Records are the documents of collections whose first document has a text as its key and binary
values only, as the driver and YCSB write them; other collections are never touched. A server that
kvmark found empty has an additional collection, its mark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kvmark.secret import Secret
from kvmark.testbed import console as consoles
from kvmark.testbed.console import Console, naming_server
from kvmark.testbed.system import Contents, DriverOptions, IsOwnKey

_MARK: Final = "kvmark.dataset"
_LISTING_MS: Final = 60_000
_PAGE: Final = 1000


@dataclass(frozen=True)
class _Database:
    """The database that a driver's options name."""

    address: str
    console: Console

    def ask(
        self, command: str, failure: str = "doesn't report its contents", **members: Any
    ) -> Any:
        with naming_server(self.address, failure):
            return self.console.ask(command, json.dumps(members))

    def _documents(self, collection: str, **members: Any) -> Iterator[dict[str, Any]]:
        cursor = self.ask("find", find=collection, **members)["cursor"]
        yield from cursor["firstBatch"]
        while cursor["id"] and not members.get("singleBatch"):
            cursor = self.ask("getMore", getMore=cursor["id"], collection=collection)["cursor"]
            yield from cursor["nextBatch"]

    def filled(self) -> list[str]:
        """The collections with records."""
        # A view has no documents of its own.
        plain = self.ask("listCollections", filter={"type": "collection"})["cursor"]["firstBatch"]
        names = sorted(row["name"] for row in plain if row["name"] != _MARK)
        return [name for name in names if not name.startswith("system.") and self._has(name)]

    def _has(self, collection: str) -> bool:
        """Whether the first document, if any, is a record."""
        firsts = list(self._documents(collection, limit=1, singleBatch=True))
        return any(
            isinstance(first.pop("_id"), str)
            and all(isinstance(value, dict) and "$binary" in value for value in first.values())
            for first in firsts
        )

    def claim(self) -> str | None:
        """The claim in the mark; None without one."""
        marks = list(self._documents(_MARK, limit=1, singleBatch=True))
        return str(marks[0]["claim"]) if marks else None

    def foreign_key(self, is_own: IsOwnKey) -> str | None:
        """A description of a document whose key isn't one's own; None without one."""
        for collection in self.filled():
            for row in self._documents(collection, projection={"_id": 1}, batchSize=_PAGE):
                if not isinstance(row["_id"], str):
                    return f"a document of {collection} whose key isn't a text"
                if not is_own(row["_id"]):
                    return f"the key {row['_id']!r}"
        return None

    def remove(self) -> None:
        """Removes all records, then the mark. Collections and their indexes stay."""
        for collection in (*self.filled(), _MARK):
            every = [{"q": {}, "limit": 0}]
            self.ask("delete", consoles.CANNOT_EMPTY, delete=collection, deletes=every)

    def mark(self, claim: str) -> None:
        """Writes the mark."""
        write = {"q": {"_id": "owner"}, "u": {"_id": "owner", "claim": claim}, "upsert": True}
        self.ask("update", consoles.CANNOT_MARK, update=_MARK, updates=[write])


def contents(options: DriverOptions, password: Secret | None) -> Contents:
    """The records of a database.

    Raises:
        SystemUnderTestError: the server can't be reached, or refuses.
        UsageError: the password can't be read.
    """
    patient = {**options, "connect_timeout_ms": str(_LISTING_MS)}
    database = _Database(options["address"], Console("mongodb", patient, password))
    collections = database.filled()
    return Contents(
        found=f"documents in {', '.join(collections)}" if collections else None,
        others="name another database such as mongodb://HOST:PORT/DATABASE",
        claim=database.claim(),
        foreign=database.foreign_key,
        remove=database.remove,
        mark=database.mark,
    )
