"""Prints the cost of the engine on this machine, with its bounds.

python -m bench.engine [--times 5] [--only TEXT] [--results FOLDER] [--anyway]

Each figure is of a run of `kvmark run`, or of a program of the engine. All figures are measured
once in each block. Counted figures, which are the same each time, are measured once.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from bench.common.comparison import Benchmark, Figures
from bench.common.kvmark import kvmark_run, outcomes
from bench.common.process import ALL_CORES, execute
from bench.common.tools import cargo, find_example

from kvmark.analysis.peers import PeerBound, PeerCase, PeerFigure
from kvmark.records import Run

VALUE: Final = PeerFigure(name="value", heading="value")
UNIFORM: Final = str(Path(__file__).with_name("reads-uniform.yaml"))
DURATION: Final = ("--duration", "5s")
OVERLOAD: Final = ("--rate", "20M")
TIMEOUT_MS: Final = 200
PRECISE_NS: Final = 100_000
"""An operation is issued in time if it is issued this near to its intended start."""
ALLOCATIONS: Final = re.compile(r"(\d+) allocations in (\d+) operations")
INSTRUCTIONS: Final = re.compile(r"(\d+) instructions an operation, blocking; (\d+), asynchronous")
BARE_NS: Final = re.compile(r"([\d.]+) ns per operation")
Read = Callable[[Run], float]
BENCHMARK: Final = Benchmark("bench-engine", "What the engine costs", (VALUE,))


def of_run(read: Read, *words: object, workload: str = UNIFORM) -> float:
    """A figure of a run with these options."""
    with kvmark_run(["run", workload, *words, "--load", "never"], ALL_CORES) as made:
        return read(made)


def blocking(read: Read, workload: str = UNIFORM, clients: int = 1) -> float:
    """Clients with one thread each, each on its own core."""
    pin = "1,0" if clients > 1 else "1"
    words = ("--system", "null:", "--clients", clients, "--pin", pin, *DURATION)
    return of_run(read, *words, workload=workload)


def asynchronous(read: Read, workers: int = 1) -> float:
    """64 clients on each worker whose operations take one turn, each worker on its own core."""
    words = ("--system", "null:?yields=1", "--clients", 64 * workers, "--workers", workers)
    return of_run(read, *words, "--pin", "1,0" if workers > 1 else "1", *DURATION)


def paced(read: Read, rate: int) -> float:
    """The open model on one core."""
    words = ("--system", "null:?yields=1", "--clients", 1000, "--workers", 1, "--pin", 1)
    return of_run(read, *words, "--rate", rate, *DURATION)


def paced_threads(read: Read, rate: int) -> float:
    """The open model with 64 threads."""
    return of_run(read, "--system", "null:", "--clients", 64, "--rate", rate, *DURATION)


def crowding(*words: object) -> float:
    """CPU time per operation with 64 workers, in units of that with one worker."""

    def used(workers: int) -> float:
        load = ("--clients", 256, "--workers", workers, "--operations", 5_000_000)
        return of_run(cpu_ns, "--system", "null:?yields=1", *load, *words)

    return used(64) / used(1)


def given_up() -> float:
    """Of 10,000 clients in a pause, those given up within 1 ms of their time, in percent."""
    system = "sim:?servers=10000&service=constant&mean_us=1000&stall=1+3"
    words = ("--system", system, "--clients", 10_000, "--workers", 1, "--pin", 1, "--rate", 30_000)
    return of_run(timely_percent, *words, "--timeout", f"{TIMEOUT_MS}ms", *DURATION)


def peak_mb() -> float:
    """Peak memory of 10,000 clients that wait for a simulated system on the real clock."""
    system = "sim:?servers=10000&service=constant&mean_us=1000000"
    words = ("--system", system, "--clients", 10_000, *DURATION)
    return of_run(lambda made: (made.counted[0].process.max_resident_bytes or 0) / 1e6, *words)


def off_closed_form() -> float:
    """The error of p99 at a load of 0.1 with a pause from 1 s to 2 s of 5 s, in percent.

    The closed form is 1 - 0.01 / (1 / 0.9 / 5) s.
    """
    system = "sim:?service=constant&mean_us=50&stall=1+1"
    words = ("--system", system, "--clients", 10_000, "--rate", 2000, "--workers", 1, *DURATION)

    def error(made: Run) -> float:
        totals = made.totals(made.counted[0].index)
        p99_ns = max(totals, key=lambda total: total.count).response.p99 or 0
        return abs(p99_ns / ((1 - 0.01 / (1 / 0.9 / 5)) * 1e9) - 1) * 100

    return of_run(error, *words)


def ns(made: Run) -> float:
    """Time per operation of one core."""
    return made.counted[0].window_ns / outcomes(made).total()


def cpu_ns(made: Run) -> float:
    """CPU time of the generator per operation."""
    process = made.counted[0].process
    return ((process.cpu_user_ns or 0) + (process.cpu_system_ns or 0)) / outcomes(made).total()


def rate(made: Run) -> float:
    """Completed operations per second."""
    return 1e9 / ns(made)


def core_percent(made: Run) -> float:
    """CPU time of the workers as a share of a core."""
    phase = made.counted[0]
    return 100 * sum(worker.cpu_ns or 0 for worker in phase.workers) / phase.window_ns


def precise_percent(made: Run) -> float:
    """The share of operations that are issued in time."""
    totals = [total for total in made.totals(made.counted[0].index) if not total.part]
    waits = [made.times(total, "wait") for total in totals]
    precise = sum(int(wait.count[wait.high <= PRECISE_NS].sum()) for wait in waits)
    return 100 * precise / outcomes(made).total()


def timely_percent(made: Run) -> float:
    """The share of the operations given up that were within 1 ms of the timeout."""
    totals = made.totals(made.counted[0].index)
    late = [made.times(total, "service") for total in totals if total.outcome == "timeout"]
    timely = sum(int(one.count[one.high <= (TIMEOUT_MS + 1) * 1e6].sum()) for one in late)
    return 100 * timely / max(sum(int(one.count.sum()) for one in late), 1)


def bare_ns() -> float:
    """Time of two stamps and a record in a loop of nothing else.

    Raises:
        PeerFailedError: the example doesn't build, or fails.
    """
    (found,) = BARE_NS.findall(execute(bare_program(), 1).output)
    return float(found)


@cache
def bare_program() -> list[str]:
    """The example with that loop."""
    return find_example("kvmark-engine", "bare")


def allocations() -> float:
    """Allocations of a worker per operation, without a histogram's growth.

    Raises:
        PeerMissingError: the test doesn't build or finds too many.
    """
    counted = ALLOCATIONS.findall(engine_test("no_allocation"))
    return max(int(found) // int(operations) for found, operations in counted)


@cache
def instructions() -> tuple[int, int]:
    """Instructions of an operation as cachegrind counts them: blocking, and asynchronous.

    Raises:
        PeerMissingError: the test doesn't build, finds too many, or valgrind is missing.
    """
    find_example("kvmark-engine", "null")
    ((one, other),) = INSTRUCTIONS.findall(engine_test("instructions", "--ignored"))
    return int(one), int(other)


def engine_test(name: str, *words: str) -> str:
    """The output of a test of the engine."""
    return cargo("test", "-p", "kvmark-engine", "--test", name, "--", "--nocapture", *words)


INSTRUCTIONS_OF: Final[Mapping[str, Callable[[], float]]] = {
    "instructions, blocking, per operation": lambda: instructions()[0],
    "instructions, asynchronous, per operation": lambda: instructions()[1],
}
MEASURES: Final[Mapping[str, Callable[[], float]]] = {
    "bare loop: two stamps and a record, ns/op": bare_ns,
    "blocking, uniform reads, ns/op": lambda: blocking(ns),
    "blocking, uniform reads ÷ bare loop": lambda: blocking(ns) / bare_ns(),
    "blocking, YCSB C (zipfian), ns/op": lambda: blocking(ns, "ycsb/c"),
    "blocking, YCSB A, ns/op": lambda: blocking(ns, "ycsb/a"),
    "64 asynchronous clients, ns/op": lambda: asynchronous(ns),
    "64 asynchronous clients ÷ bare loop": lambda: asynchronous(ns) / bare_ns(),
    **INSTRUCTIONS_OF,
    "two cores ÷ one, blocking": lambda: blocking(rate, clients=2) / blocking(rate),
    "two cores ÷ one, asynchronous": lambda: asynchronous(rate, 2) / asynchronous(rate),
    "allocations by the engine, per operation": allocations,
    "issued within 100 µs at 1,000/s, %": lambda: paced(precise_percent, 1_000),
    "issued within 100 µs at 100,000/s, %": lambda: paced(precise_percent, 100_000),
    "share of a core at 10/s, %": lambda: paced(core_percent, 10),
    "share of a core at 100/s, %": lambda: paced(core_percent, 100),
    "share of a core at 1,000/s, %": lambda: paced(core_percent, 1_000),
    "share of a core at 100,000/s, %": lambda: paced(core_percent, 100_000),
    "64 threads, issued within 100 µs at 10,000/s, %": lambda: paced_threads(
        precise_percent, 10_000
    ),
    "64 threads, share of a core at 10,000/s, %": lambda: paced_threads(core_percent, 10_000),
    "64 threads, rate reached of 1,000,000/s": lambda: paced_threads(rate, 1_000_000),
    "CPU time with 64 workers ÷ one": crowding,
    "CPU time with 64 workers ÷ one, constant rate": lambda: crowding(*OVERLOAD),
    "CPU time with 64 workers ÷ one, Poisson": lambda: crowding(*OVERLOAD, "--arrival", "poisson"),
    "given up within 1 ms, 10,000 clients, %": given_up,
    "10,000 clients, peak memory, MB": peak_mb,
    "stall, p99 off the closed form, %": off_closed_form,
}
MOST: Final[Mapping[str, float]] = {
    "blocking, uniform reads, ns/op": 80,
    "blocking, uniform reads ÷ bare loop": 3.0,
    "64 asynchronous clients ÷ bare loop": 4.8,
    "allocations by the engine, per operation": 0,
    "share of a core at 1,000/s, %": 10,
    "64 threads, share of a core at 10,000/s, %": 15,
    "CPU time with 64 workers ÷ one": 1.15,
    "CPU time with 64 workers ÷ one, constant rate": 1.15,
    "CPU time with 64 workers ÷ one, Poisson": 1.15,
    "10,000 clients, peak memory, MB": 300,
    "stall, p99 off the closed form, %": 5,
}
LEAST: Final[Mapping[str, float]] = {
    "two cores ÷ one, blocking": 1.8,
    "two cores ÷ one, asynchronous": 1.8,
    "issued within 100 µs at 1,000/s, %": 99,
    "issued within 100 µs at 100,000/s, %": 99,
    "64 threads, rate reached of 1,000,000/s": 990_000,
    "given up within 1 ms, 10,000 clients, %": 99,
}


def bounds(name: str) -> tuple[PeerBound, ...]:
    """The bounds of a figure."""
    return tuple(
        PeerBound(figure=VALUE.name, limit=limits[name], most=limits is MOST)
        for limits in (MOST, LEAST)
        if name in limits
    )


CASES: Final = tuple(
    PeerCase(name=name, programs=("kvmark",), bounds=bounds(name)) for name in MEASURES
)


def measure(given: argparse.Namespace) -> bool:
    """Measures every figure and prints; whether nothing failed."""

    def value(case: PeerCase, _: str, __: int) -> Figures:
        return {VALUE.name: MEASURES[case.name]()}

    timed = [case for case in CASES if case.name not in INSTRUCTIONS_OF]
    counted = [case for case in CASES if case.name in INSTRUCTIONS_OF]
    found = BENCHMARK.repetitions(counted, value, given, blocks=1)
    found += BENCHMARK.repetitions(timed, value, given)
    return BENCHMARK.publish("the null driver and simulated ones", CASES, found, given)


if __name__ == "__main__":
    BENCHMARK.run(measure, BENCHMARK.parser(__doc__, 5))
