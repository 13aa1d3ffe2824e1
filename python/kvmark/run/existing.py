"""Existing records of a system before a first load, and their removal: no other module removes any.

kvmark removes only data that it can prove it wrote, or that the user names with an option. A system
that was empty gets a mark with the claim of the study, before the first record. Records are the
study's if the mark has its claim and every key is one that the study writes. Tables of CQL that
kvmark makes for imitated tools have a mark in their comment and are kvmark's with all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from kvmark.drivers import is_embedded
from kvmark.errors import ForeignFile, GeneratorDied, KvmarkError, SystemUnderTestError, UsageError
from kvmark.plan.model import Plan
from kvmark.plan.names import KeyNames
from kvmark.spec.owned_tables import TABLE_MARK, TableRemoval
from kvmark.spec.url import SystemUrl
from kvmark.testbed.system import Contents, contents_of, driven_by

OnExisting: TypeAlias = Literal["refuse", "keep", "remove"]
"""For existing records: refuse those that aren't proven to be kvmark's, load over all of them, or
remove all of them first."""


@dataclass(frozen=True, slots=True)
class DatasetClaim:
    """The proof by which a study recognises its own records."""

    id: str
    """The text of the mark."""
    names: Callable[[], KeyNames]
    """The names of the study's keys."""


def check_existing(system: SystemUrl, on_existing: OnExisting) -> None:
    """Refuses a system with records before a study begins, as none can be the study's.

    Raises:
        UsageError: there are records.
        SystemUnderTestError: the system doesn't report its contents.
    """
    contents = _contents(system, on_existing)
    if contents is not None and contents.found and on_existing == "refuse":
        _prove(system, contents, None)


def check_loaded(system: SystemUrl, on_existing: OnExisting, advice: str) -> None:
    """Refuses a system without records before a study that loads none; `advice` ends the sentence.

    Raises:
        UsageError: there are no records.
        SystemUnderTestError: the system doesn't report its contents.
    """
    contents = _contents(system, on_existing)
    if contents is not None and contents.found is None:
        raise UsageError(f"{system} has no records: {advice}")


def make_room(system: SystemUrl, on_existing: OnExisting, claim: DatasetClaim | None) -> None:
    """Empties a system before a first load, and marks it.

    Raises:
        UsageError: it has records that the study can't prove to be its own.
        SystemUnderTestError: the system doesn't report its contents, or can't be emptied.
    """
    contents = _contents(system, on_existing)
    if contents is None:
        return
    if on_existing == "remove":
        # The user gives the option each time, so a mark isn't needed.
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
    """Drops or empties existing tables, all or none of them.

    Raises:
        UsageError: kvmark didn't make one of them.
        SystemUnderTestError: the system doesn't answer, or refuses.
    """
    if on_existing == "keep" or not removals:
        return
    kind = driven_by(system.driver)
    if kind is None or kind.tables is None:
        return
    tables = kind.tables(system.options, system.password)
    comments = [(one, tables.comment(one)) for one in removals]
    existing = [(one, comment) for one, comment in comments if comment is not None]
    for one, comment in existing:
        if on_existing == "refuse" and TABLE_MARK not in comment:
            raise UsageError(
                f"{system} has a {one.kind.lower()} {one.name} that kvmark can't show to have"
                f" made: {one.verb} it with --on-existing remove, keep it with --on-existing"
                " keep, or name another"
            )
    for one, _ in existing:
        tables.remove(one)


@contextmanager
def removed_if_refused(plan: Plan) -> Iterator[None]:
    """Removes a new database when the run within can't begin."""
    path = str(plan.system.options.get("path", ""))
    driver = plan.system.driver
    made = is_embedded(driver) and path != "" and _is_vacant(driver, path)
    try:
        yield
    except GeneratorDied:
        # The run had begun, and the database may explain the death.
        raise
    except KvmarkError:
        if made:
            # Foreign files keep the folder, but don't hide the error.
            with suppress(ForeignFile, SystemUnderTestError):
                contents = contents_of(driver, {"path": path}, None)
                if contents is not None:
                    contents.remove()
        raise


def _is_vacant(driver: str, path: str) -> bool:
    """Whether the folder is missing, or has only kvmark's mark."""
    if not Path(path).exists():
        return True
    contents = contents_of(driver, {"path": path}, None)
    return contents is not None and contents.found is None and contents.claim is not None


def _contents(system: SystemUrl, on_existing: OnExisting) -> Contents | None:
    """The records of a system; None if nothing is to be removed, or if it can't report them."""
    if on_existing == "keep":
        return None
    return contents_of(system.driver, system.options, system.password)


def _prove(system: SystemUrl, contents: Contents, claim: DatasetClaim | None) -> None:
    """Refuses records that aren't the study's own.

    Raises:
        UsageError: names them and the options.
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
