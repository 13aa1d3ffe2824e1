"""The items of servers with DynamoDB's API: their owner and removal. kvmark starts no such server.

Items are those of the tables with the driver's key; other tables are never touched. A server that
kvmark found empty has an additional table, its mark, which stays without an item after a removal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

from kvmark.errors import UsageError
from kvmark.interrupts import pause
from kvmark.secret import Secret
from kvmark.testbed import console as consoles
from kvmark.testbed.console import Console, naming_server
from kvmark.testbed.system import Contents, DriverOptions, IsOwnKey

_OWN_KEY: Final = "_key"
"""The key of tables that benchmarks make. Others may be anybody's, in all of a region."""
_MARK: Final = "kvmark.dataset"
_OWNER: Final = {"name": {"S": "owner"}}
"""The key of the mark's only item."""
_MOST_REMOVED: Final = 25
"""The requests that a batch may have."""
_PAUSE_S: Final = 0.1
_LISTING_MS: Final = 60_000

_Item: TypeAlias = dict[str, dict[str, str]]


@dataclass(frozen=True)
class _Server:
    """The server that a driver's options name first."""

    address: str
    console: Console
    key: tuple[str, ...]
    """The attributes of a table's key; the last is the record's."""
    partition: str
    """The value of the first of two."""

    def ask(self, action: str, failure: str = "doesn't report its contents", **body: Any) -> Any:
        with naming_server(self.address, failure):
            return self.console.ask(action, json.dumps(body))

    def _pages(self, action: str, member: str, after: str, last: str, **body: Any) -> Iterator[Any]:
        page = self.ask(action, **body)
        yield page[member]
        while last in page:
            page = self.ask(action, **body, **{after: page[last]})
            yield page[member]

    def _tables(self) -> list[str]:
        names = ("TableNames", "ExclusiveStartTableName", "LastEvaluatedTableName")
        return [name for page in self._pages("ListTables", *names) for name in page]

    def items(self, table: str, limit: int) -> Iterator[list[_Item]]:
        """The keys of all items, in pages."""
        names = {f"#{number}": name for number, name in enumerate(self.key)}
        return self._pages(
            "Scan", "Items", "ExclusiveStartKey", "LastEvaluatedKey",
            TableName=table, Limit=limit, ConsistentRead=True,
            ProjectionExpression=",".join(names), ExpressionAttributeNames=names,
        )  # fmt: skip

    @cached_property
    def has_mark(self) -> bool:
        return _MARK in self._tables()

    def filled(self) -> list[str]:
        """The tables with the driver's key and an item."""

        def has_key(table: str) -> bool:
            schema = self.ask("DescribeTable", TableName=table)["Table"]["KeySchema"]
            return tuple(part["AttributeName"] for part in schema) == self.key

        tables = [table for table in self._tables() if table != _MARK and has_key(table)]
        return [table for table in tables if any(self.items(table, 1))]

    def claim(self) -> str | None:
        """The claim in the mark; None without one."""
        if not self.has_mark:
            return None
        item = self.ask("GetItem", TableName=_MARK, Key=_OWNER, ConsistentRead=True).get("Item")
        return str(item["claim"]["S"]) if item else None

    def foreign_key(self, is_own: IsOwnKey) -> str | None:
        """A description of an item whose key isn't one's own; None without one."""
        for table in self.filled():
            for item in (item for page in self.items(table, 1000) for item in page):
                *partition, key = (next(iter(item[name].values())) for name in self.key)
                if partition not in ([], [self.partition]):
                    return f"an item in the partition {partition[0]!r}"
                if not is_own(key):
                    return f"the key {key!r}"
        return None

    def remove(self) -> None:
        """Removes all items, then the mark's.

        Raises:
            UsageError: tables with this key may belong to others.
        """
        tables = self.filled()
        if tables and self.key != (_OWN_KEY,):
            raise UsageError(
                f"{self.address} has items in {', '.join(tables)}: kvmark removes only those of"
                f" tables with the key {_OWN_KEY}; remove these yourself, or write"
                " --on-existing keep"
            )
        for table in tables:
            for page in self.items(table, _MOST_REMOVED):
                requests = {table: [{"DeleteRequest": {"Key": item}} for item in page]}
                while page and requests:
                    answer = self.ask(
                        "BatchWriteItem", consoles.CANNOT_EMPTY, RequestItems=requests
                    )
                    requests = answer.get("UnprocessedItems")
                    if requests:
                        pause(_PAUSE_S)
        if self.has_mark:
            self.ask("DeleteItem", consoles.CANNOT_EMPTY, TableName=_MARK, Key=_OWNER)

    def mark(self, claim: str) -> None:
        """Writes the mark, whose table may have to be made."""
        failure = consoles.CANNOT_MARK
        if not self.has_mark:
            self.ask(
                "CreateTable", failure, TableName=_MARK, BillingMode="PAY_PER_REQUEST",
                KeySchema=[{"AttributeName": "name", "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": "name", "AttributeType": "S"}],
            )  # fmt: skip
            is_active = False
            while not is_active:
                pause(_PAUSE_S)
                table = self.ask("DescribeTable", failure, TableName=_MARK)["Table"]
                is_active = table["TableStatus"] == "ACTIVE"
        self.ask("PutItem", failure, TableName=_MARK, Item={**_OWNER, "claim": {"S": claim}})


def contents(options: DriverOptions, password: Secret | None) -> Contents:
    """The items of a server.

    Raises:
        SystemUnderTestError: the server can't be reached, or refuses.
        UsageError: the password can't be read.
    """
    patient = {**options, "connect_timeout_ms": str(_LISTING_MS)}
    names = (options.get("partition_key"), options.get("primary_key", _OWN_KEY))
    key = tuple(name for name in names if name)
    server = _Server(
        options["address"].split(",")[0],
        Console("dynamodb", patient, password),
        key,
        options.get("partition", "YCSB_0"),
    )
    tables = server.filled()
    return Contents(
        found=f"items in {', '.join(tables)}" if tables else None,
        others="name another server or region",
        claim=server.claim(),
        foreign=server.foreign_key,
        remove=server.remove,
        mark=server.mark,
    )
