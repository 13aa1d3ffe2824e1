"""Work that is always the same: how long it takes says how fast a core is just now."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from operator import itemgetter
from typing import Final

__all__ = ["fixed_work_ns"]

_OBJECTS: Final = 4096
_READS: Final = 20_000
"""A third of a millisecond's."""


def fixed_work_ns(core: int | None = None) -> int:
    """Processor time of this thread for reads of objects in an order of chance, from warm caches.

    Other threads may take the core meanwhile; that time isn't counted.

    Args:
        core: where it is done; anywhere where that isn't allowed, or nothing is said.
    """
    work = _work()
    with _on(core):
        # What ran before has filled the caches with its own.
        work()
        before_ns = time.thread_time_ns()
        work()
        return time.thread_time_ns() - before_ns


@cache
def _work() -> Callable[[], object]:
    chance = random.Random(1)  # noqa: S311 - an order, not a secret
    objects = [1_000_000 + number for number in range(_OBJECTS)]
    chance.shuffle(objects)
    read = itemgetter(*chance.choices(range(_OBJECTS), k=_READS))
    return lambda: read(objects)


@contextmanager
def _on(core: int | None) -> Iterator[None]:
    """Lets this thread have no other core meanwhile."""
    before = os.sched_getaffinity(0)
    if core is None or core not in before:
        yield
        return
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
