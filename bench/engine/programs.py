"""What the engine's own tests and examples count and measure."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache, partial

from bench.common.tools import find_example
from bench.engine.runs import ROOT, RunFailedError

ALLOCATIONS = re.compile(r"(\d+) allocations in (\d+) operations")
INSTRUCTIONS = re.compile(r"(\d+) instructions an operation, blocking; (\d+), asynchronous")
BARE_NS = re.compile(r"([\d.]+) ns per operation")


def allocations_per_operation() -> int:
    """Whole allocations of a worker per operation, where they are most.

    A histogram that grows because a duration was longer than any before isn't one.

    Raises:
        RunFailedError: the test doesn't build or finds too many.
    """
    counted = ALLOCATIONS.findall(_test("no_allocation"))
    return max(int(found) // int(operations) for found, operations in counted)


@cache
def instructions_per_operation() -> tuple[int, int]:
    """Instructions of an operation as cachegrind counts them: blocking, and of 64 clients' one.

    Raises:
        RunFailedError: the test doesn't build, finds too many, or valgrind is missing.
    """
    find_example("kvmark-engine", "null")
    ((blocking, asynchronous),) = INSTRUCTIONS.findall(_test("instructions", "--ignored"))
    return int(blocking), int(asynchronous)


def bare_ns() -> float:
    """Time of two stamps and a record in a loop of nothing else, in nanoseconds.

    Raises:
        RunFailedError: the example doesn't build.
    """
    done = subprocess.run(  # noqa: S603 - our own program
        ["taskset", "-c", "1", *_bare()],  # noqa: S607 - where the machine has it
        capture_output=True,
        text=True,
        check=True,
    )
    (found,) = BARE_NS.findall(done.stdout)
    return float(found)


_bare = cache(partial(find_example, "kvmark-engine", "bare"))


def _test(name: str, *words: str) -> str:
    said = _cargo("test", "-p", "kvmark-engine", "--test", name, "--", "--nocapture", *words)
    if "test result: ok" not in said:
        raise RunFailedError(f"the test {name} failed: {said[-2000:]}")
    return said


def _cargo(command: str, *words: str) -> str:
    scripted = [sys.executable, str(ROOT / "scripts" / "cargo.py"), command]
    done = subprocess.run(  # noqa: S603 - our own program
        [*scripted, "--release", "--locked", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RunFailedError(f"cargo {command} failed: {done.stdout}{done.stderr.strip()[-2000:]}")
    return done.stdout
