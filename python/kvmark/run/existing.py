"""What a system holds before a first load, and removing it: the only module that may.

kvmark removes what it can prove that it wrote, and else only what the user says. A system that it
found empty bears a mark with the claim of the study that will load it, from before the first
record on. Records are the study's if the mark names its claim and every key is one that the study
writes. Tables of CQL that kvmark makes for imitated tools bear a mark in their comment; they are
kvmark's with all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from kvmark.drivers import is_embedded
from kvmark.errors import (
    ForeignFile,
    GeneratorDied,
    KvmarkError,
    SystemUnderTestError,
    UsageError,
)
from kvmark.plan.model import Plan
from kvmark.plan.names import KeyNames
from kvmark.spec.owned_tables import TableRemoval
from kvmark.spec.url import SystemUrl
from kvmark.testbed.system import Contents
from kvmark.testbed.systems import STORES, TABLES

OnExisting: TypeAlias = Literal["refuse", "keep", "remove"]
"""What to do with records that are there: refuse what isn't proven to be kvmark's own, load over
all of them, remove all of them first."""


@dataclass(frozen=True, slots=True)
class DatasetClaim:
    """By what a study recognises its own records."""

    id: str
    """In the mark."""
    names: Callable[[], KeyNames]
    """The names of the keys that it writes."""


def check_existing(system: SystemUrl, on_existing: OnExisting) -> None:
    """Refuses a system with records before a study begins, which has none of its own yet.

    Raises:
        UsageError: it holds records.
        SystemUnderTestError: the system doesn't say what it holds.
    """
    contents = _contents(system, on_existing)
    if contents is not None and contents.found and on_existing == "refuse":
        _prove(system, contents, None)


def make_room(system: SystemUrl, on_existing: OnExisting, claim: DatasetClaim | None) -> None:
    """Makes a system empty before a first load, and marks what it will hold.

    Raises:
        UsageError: it holds records that the study can't prove to be its own.
        SystemUnderTestError: the system doesn't say what it holds, or doesn't let go of it.
    """
    contents = _contents(system, on_existing)
    if contents is None:
        return
    if on_existing == "remove":
        # The user said so, each time: nothing has to be proven later.
        contents.remove()
        return
    if contents.found:
        _prove(system, contents, claim)
        contents.remove()
    if claim is not None:
        contents.mark(claim.id)


def remove_tables(
    system: SystemUrl, removals: Sequence[TableRemoval], on_existing: OnExisting
) -> None:
    """Drops or empties tables where they exist, all or none of them.

    Raises:
        UsageError: kvmark didn't make one of them.
        SystemUnderTestError: the system doesn't answer, or refuses.
    """
    if on_existing == "keep" or system.driver not in TABLES or not removals:
        return
    tables = TABLES[system.driver](system.options, system.password)
    existing = [one for one in removals if tables.exists(one)]
    if on_existing == "refuse":
        for one in existing:
            if not tables.is_own(one):
                raise UsageError(
                    f"{system} has a {one.kind.lower()} {one.name} that kvmark can't show to have"
                    f" made: {one.verb} it with --on-existing remove, keep it with --on-existing"
                    " keep, or name another"
                )
    for one in existing:
        tables.remove(one)


@contextmanager
def removed_if_refused(plan: Plan) -> Iterator[None]:
    """Removes a database that was made only now when the run within can't begin."""
    path = str(plan.system.options.get("path", ""))
    made = is_embedded(plan.system.driver) and path != "" and _is_vacant(plan.system.driver, path)
    try:
        yield
    except GeneratorDied:
        # It had begun, and what it left may tell why it died.
        raise
    except KvmarkError:
        if made:
            # Files of others would be a reason to keep the folder, not to hide why it was refused.
            with suppress(ForeignFile, SystemUnderTestError):
                contents = STORES[plan.system.driver].contents({"path": path}, None)
                if contents is not None:
                    contents.remove()
        raise


def _is_vacant(driver: str, path: str) -> bool:
    """Whether no folder is there, or one with kvmark's mark alone."""
    if not Path(path).exists():
        return True
    contents = STORES[driver].contents({"path": path}, None)
    return contents is not None and contents.found is None and contents.claim is not None


def _contents(system: SystemUrl, on_existing: OnExisting) -> Contents | None:
    """What a system holds; None where nothing is to be removed, or it can't say what there is."""
    store = STORES.get(system.driver)
    if on_existing == "keep" or store is None:
        return None
    return store.contents(system.options, system.password)


def _prove(system: SystemUrl, contents: Contents, claim: DatasetClaim | None) -> None:
    """Refuses records that aren't the study's own.

    Raises:
        UsageError: says which and what can be done.
    """
    place = system.options.get("path", system)
    remedy = (
        "remove all of it with --on-existing remove, load over it with --on-existing keep, or"
        f" {contents.others}"
    )
    if contents.claim is None:
        whose = "without the mark that kvmark leaves on what it loads"
    elif claim is None or contents.claim != claim.id:
        whose = "that another kvmark command loaded"
    else:
        foreign = contents.foreign(claim.names().has)
        if foreign is None:
            return
        whose = f"and among them {foreign}, which this command doesn't write"
    raise UsageError(f"{place} already holds {contents.found} {whose}: {remedy}")
