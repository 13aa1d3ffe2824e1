"""What the engine's own tests and examples count and measure."""

from __future__ import annotations

import re
from functools import cache, partial

from bench.common.process import execute
from bench.common.tools import cargo, find_example

ALLOCATIONS = re.compile(r"(\d+) allocations in (\d+) operations")
INSTRUCTIONS = re.compile(r"(\d+) instructions an operation, blocking; (\d+), asynchronous")
BARE_NS = re.compile(r"([\d.]+) ns per operation")


def allocations_per_operation() -> int:
    """Whole allocations of a worker per operation, where they are most.

    A histogram that grows because a duration was longer than any before isn't one.

    Raises:
        PeerMissingError: the test doesn't build or finds too many.
    """
    counted = ALLOCATIONS.findall(_test("no_allocation"))
    return max(int(found) // int(operations) for found, operations in counted)


@cache
def instructions_per_operation() -> tuple[int, int]:
    """Instructions of an operation as cachegrind counts them: blocking, and of 64 clients' one.

    Raises:
        PeerMissingError: the test doesn't build, finds too many, or valgrind is missing.
    """
    find_example("kvmark-engine", "null")
    ((blocking, asynchronous),) = INSTRUCTIONS.findall(_test("instructions", "--ignored"))
    return int(blocking), int(asynchronous)


def bare_ns() -> float:
    """Time of two stamps and a record in a loop of nothing else, in nanoseconds.

    Raises:
        PeerFailedError: the example doesn't build, or fails.
    """
    (found,) = BARE_NS.findall(execute(_bare(), 1).output)
    return float(found)


_bare = cache(partial(find_example, "kvmark-engine", "bare"))


def _test(name: str, *words: str) -> str:
    return cargo("test", "-p", "kvmark-engine", "--test", name, "--", "--nocapture", *words)
