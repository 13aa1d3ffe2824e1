"""What is measured of the engine, each with the bound it is held to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench.engine.programs import (
    allocations_per_operation,
    bare_ns,
    instructions_per_operation,
)
from bench.engine.runs import TIMEOUT_MS, UNIFORM, Facts, facts

SECONDS = "5s"


@dataclass(frozen=True)
class Case:
    """One figure of the engine."""

    name: str
    #: None of a ratio.
    unit: str
    #: The bound and whether the figure must not be above or below it; none for a figure to know.
    bound: float | None
    most: bool
    measure: Callable[[], float]
    #: Whether it is counted and the same each time.
    is_counted: bool = False

    @property
    def title(self) -> str:
        """The name with the unit."""
        return f"{self.name}, {self.unit}" if self.unit else self.name


def blocking(workload: str = UNIFORM, clients: int = 1) -> Facts:
    """Clients with threads of their own, each on its own core."""
    cores = ",".join(str(core) for core in reversed(range(2)))
    pin = cores if clients > 1 else cores[0]
    words = ["--system", "null:", "--clients", str(clients), "--duration", SECONDS, "--pin", pin]
    return facts([workload, *words])


def asynchronous(workers: int = 1) -> Facts:
    """64 clients on each worker whose operations take one turn, each worker on its own core."""
    pin = "1,0" if workers > 1 else "1"
    words = ["--system", "null:?yields=1", "--clients", str(64 * workers), "--pin", pin]
    return facts([UNIFORM, *words, "--workers", str(workers), "--duration", SECONDS])


def paced(rate: int) -> Facts:
    """The open model on a core of its own."""
    words = ["--system", "null:?yields=1", "--clients", "1000", "--workers", "1", "--pin", "1"]
    return facts([UNIFORM, *words, "--rate", str(rate), "--duration", SECONDS])


def issued_in_time(rate: int) -> float:
    """The share of operations that are issued within 100 µs of their time, in percent."""
    return 100 * paced(rate).precise_share


def polled(rate: int) -> float:
    """What precise issue costs at a rate: processor time as a share of a core, in percent."""
    run = paced(rate)
    return 100 * run.cpu_seconds / run.seconds


def given_up() -> float:
    """Of 10,000 clients in a stall, those given up within 1 ms of their time, in percent."""
    system = "sim:?servers=10000&service=constant&mean_us=1000&stall=1+3"
    words = ["--system", system, "--clients", "10000", "--workers", "1", "--pin", "1"]
    words += ["--rate", "30000", "--timeout", f"{TIMEOUT_MS}ms", "--duration", SECONDS]
    return 100 * (facts([UNIFORM, *words]).timely_share or 0)


def many_clients() -> Facts:
    """10,000 clients that wait for a simulated system on the real clock."""
    system = "sim:?servers=10000&service=constant&mean_us=1000000"
    return facts([UNIFORM, "--system", system, "--clients", "10000", "--duration", SECONDS])


def stalled() -> Facts:
    """2,000 operations a second for 5 s at a load of 0.1, with a stall from 1 s to 2 s."""
    system = "sim:?service=constant&mean_us=50&stall=1+1"
    words = ["--system", system, "--clients", "10000", "--rate", "2000", "--duration", "5s"]
    return facts([UNIFORM, *words, "--workers", "1"])


def ns(run: Facts) -> float:
    """Time per operation of one core."""
    return run.seconds * 1e9 / run.operations


def stall_error(run: Facts) -> float:
    """How far p99 of response time is from 1 - 0.01 / (1 / 0.9 / 5) s, in percent."""
    expected_ns = (1 - 0.01 / (1 / 0.9 / 5)) * 1e9
    return abs((run.response_ns_p99 or 0) / expected_ns - 1) * 100


CASES: tuple[Case, ...] = (
    Case("bare loop: two stamps and a record", "ns/op", None, True, bare_ns),
    Case("blocking, uniform reads", "ns/op", 80, True, lambda: ns(blocking())),
    Case("blocking, uniform reads ÷ bare loop", "", 3.0, True, lambda: ns(blocking()) / bare_ns()),
    Case("blocking, YCSB C (zipfian)", "ns/op", None, True, lambda: ns(blocking("ycsb/c"))),
    Case("blocking, YCSB A", "ns/op", None, True, lambda: ns(blocking("ycsb/a"))),
    Case("64 asynchronous clients", "ns/op", None, True, lambda: ns(asynchronous())),
    Case(
        "64 asynchronous clients ÷ bare loop",
        "",
        4.8,
        True,
        lambda: ns(asynchronous()) / bare_ns(),
    ),
    Case(
        "instructions, blocking",
        "per operation",
        None,
        True,
        lambda: instructions_per_operation()[0],
        is_counted=True,
    ),
    Case(
        "instructions, asynchronous",
        "per operation",
        None,
        True,
        lambda: instructions_per_operation()[1],
        is_counted=True,
    ),
    Case(
        "two cores ÷ one, blocking",
        "",
        1.8,
        False,
        lambda: blocking(clients=2).rate / blocking().rate,
    ),
    Case(
        "two cores ÷ one, asynchronous",
        "",
        1.8,
        False,
        lambda: asynchronous(2).rate / asynchronous().rate,
    ),
    Case("allocations by the engine", "per operation", 0, True, allocations_per_operation),
    *(
        Case(
            f"issued within 100 µs at {rate:,}/s",
            "%",
            99,
            False,
            partial(issued_in_time, rate),
        )
        for rate in (1_000, 100_000)
    ),
    *(
        Case(f"share of a core at {rate:,}/s", "%", bound, True, partial(polled, rate))
        for rate, bound in ((10, None), (100, None), (1_000, 10), (100_000, None))
    ),
    Case("given up within 1 ms, 10,000 clients", "%", 99, False, given_up),
    Case(
        "10,000 clients, peak memory",
        "MB",
        300,
        True,
        lambda: many_clients().max_resident_bytes / 1e6,
    ),
    Case("stall, p99 off the closed form", "%", 5, True, lambda: stall_error(stalled())),
)
