"""Work that is always the same: how long it takes says how fast a core is just now."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import Final

from kvmark.testbed.process import bound_to

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
    cores = () if core is None else {core} & os.sched_getaffinity(0)
    with bound_to(cores):
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
