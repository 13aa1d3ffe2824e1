"""What a CQL server is, as far as the applications' tables and transactions depend on it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Server:
    """A kind of server."""

    kind: Literal["cassandra", "yugabyte", "redis"]
    version: str
    #: Whether several rows can be written as one, and be seen so.
    has_transactions: bool


REDIS = Server("redis", "", has_transactions=False)
"""Any server that speaks Redis's protocol: nothing depends on which."""

_ACCORD_SINCE = 6
_YUGABYTE_TABLE = "partitions"
"""A table of the keyspace `system` that only YugabyteDB has."""


def recognised(version: str, system_tables: frozenset[str], *, accord: bool | None) -> Server:
    """The kind of a server from its release version and the tables of its keyspace `system`.

    `accord` says whether its transactions are switched on; None where that isn't known.
    """
    if _YUGABYTE_TABLE in system_tables:
        return Server("yugabyte", version, has_transactions=True)
    major = re.match(r"\d+", version)
    old = major is None or int(major[0]) < _ACCORD_SINCE
    return Server("cassandra", version, has_transactions=not old and accord is not False)
