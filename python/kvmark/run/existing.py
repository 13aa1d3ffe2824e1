"""Whether a system holds records already when a sequence begins with a load, and what then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from kvmark.errors import UsageError
from kvmark.spec.url import SystemUrl
from kvmark.testbed.systems import STORES

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
    store = STORES.get(system.driver)
    if on_existing == "keep" or store is None:
        return _nothing
    contents = store.contents(system.options, system.password)
    if contents is None:
        # What can't be known to be empty isn't emptied.
        return _nothing
    if contents.found and on_existing == "refuse":
        raise UsageError(
            f"{system.options.get('path', system)} already holds {contents.found}, and the sequence"
            f" begins with a load: {contents.advice}"
        )
    return contents.remove


def _nothing() -> None:
    """Leaves a system as it is."""
