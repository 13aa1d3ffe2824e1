"""What every kind of system in a testbed can be asked, whatever it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from kvmark.secret import Secret
from kvmark.spec.owned_tables import TableRemoval
from kvmark.testbed.state import Node, Testbed

IsOwnKey: TypeAlias = Callable[[str], bool]
OwnFiles: TypeAlias = re.Pattern[str]
"""Paths within a testbed's folder that its servers or kvmark make."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a server counted since it started; None where it doesn't say."""

    network_sent_bytes: int | None = None
    network_received_bytes: int | None = None
    gc_count: int | None = None
    """Collections of garbage."""
    gc_time_s: float | None = None
    """Time that they took."""


class Meter(Protocol):
    """Asks one server what only it knows of itself."""

    def look(self) -> Counted:
        """What it counted; nothing when it doesn't answer at once."""
        ...

    def close(self) -> None:
        """Lets go of the server."""
        ...


@dataclass(frozen=True, slots=True)
class Promotion:
    """How a replica takes its primary's place, by name, and gives it back."""

    check: Callable[[Testbed, str], None]
    """Refuses a server that can't."""
    begin: Callable[[Testbed, str], None]
    end: Callable[[Testbed, str], None]


@dataclass(frozen=True, slots=True)
class Contents:
    """What a system holds, whoever started it, and whose it is.

    Nothing but `kvmark.run.existing` may call `remove`.
    """

    found: str | None
    """What a load would find there, in words; None for nothing."""
    others: str
    """What a user can name instead, in words."""
    claim: str | None
    """The claim in the mark that kvmark left when the system was empty; None without a mark."""
    foreign: Callable[[IsOwnKey], str | None]
    """A record, in words, whose key isn't one's own; None without one. Reads all keys."""
    remove: Callable[[], None]
    """Removes all of it, the mark last."""
    mark: Callable[[str], None]
    """Marks an empty system: what it will hold is this claim's."""


class Tables(Protocol):
    """The tables of one system. Nothing but `kvmark.run.existing` may call `remove`."""

    def exists(self, removal: TableRemoval) -> bool:
        """Whether it is there."""
        ...

    def is_own(self, removal: TableRemoval) -> bool:
        """Whether it bears kvmark's mark."""
        ...

    def remove(self, removal: TableRemoval) -> None:
        """Drops or empties it."""
        ...


@dataclass(frozen=True, slots=True)
class Store:
    """What can be known and removed of what a driver's systems hold."""

    driver: str
    contents: Callable[[Mapping[str, str], Secret | None], Contents | None]
    """Asked with the driver's options as text, and a password that isn't among them; None where
    the system doesn't tell."""


@dataclass(frozen=True, slots=True)
class System:
    """One kind of system."""

    name: str
    wanted: type[Any]
    """A dataclass of what can be wished of it, with a `Word` for each option of its own."""
    up: Callable[[Any, Path, Callable[[str], None]], Testbed]
    """Starts what is wanted in a folder of its own below that one, and tells what goes on."""
    wait_for_answer: Callable[[Testbed, Node, float], None]
    """Waits, up to so many seconds, until a server answers for itself."""
    wait_for_node: Callable[[Testbed, Node, float], None]
    """Waits, up to so many seconds, until a server does its work together with the others."""
    describe: Callable[[Testbed], Mapping[str, Any]]
    """Version, effective settings and their fingerprint, for a manifest; no secret in it."""
    meter: Callable[[Testbed, Node], Meter]
    own_files: OwnFiles
    healthy_within_s: float
    """How long its servers may take to start."""
    driver: str | None = None
    """What speaks to it; None where that is another system's."""
    store: Store | None = None
    tables: Callable[[Mapping[str, str], Secret | None], Tables] | None = None
    """Asked with the driver's options as text, and a password that isn't among them."""
    named_by: str | None = None
    """The wish whose value is the usual name of a testbed; None for the system's own name."""
    required: str = ""
    """What is said where a wish is missing that has no usual value."""
    forgets: Callable[[Mapping[str, Any]], str | None] = lambda _: None
    """What is said when servers made with such wishes are up again without their data."""
    promotion: Promotion | None = None
    """How a replica takes its primary's place; None where that can't be said from outside."""
    check_again: Callable[[Testbed, Callable[[str], None]], None] = lambda _, __: None
    """Makes sure that what its servers need from outside is there before they start again."""
