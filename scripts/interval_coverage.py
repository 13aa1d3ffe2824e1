"""Simulates how often the interval of a run covers the truth, and writes tables into the page.

.venv/bin/python scripts/interval_coverage.py [TABLE...]

Each simulated run has intervals whose rates, or times, are correlated by φ from one to the next.
The engine's own runs are those of the simulated driver, on its virtual clock: it stands still for a
part of each interval, and the parts are correlated.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import pictures
from numpy.typing import NDArray

from kvmark import catalog
from kvmark.analysis.summary.run import throughput
from kvmark.plan.compile import PRECISE_INTERVALS, interval_ns
from kvmark.records import Run, close_run
from kvmark.spec.run import LONGEST_NS, SECOND_NS, RunSpec
from kvmark.spec.url import parse_system_url
from kvmark.stats import LEAST_INTERVALS, Counts, Estimate, quantile_of_intervals, rate_of_intervals

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "method" / "intervals.md"
BEGIN, END = "<!-- coverage of {}: begin -->", "<!-- coverage of {}: end -->"

TIMED_NS: Final = 30 * SECOND_NS
TIMED_INTERVALS: Final = TIMED_NS // interval_ns(TIMED_NS)
"""Those of a run of 30 s."""
PHIS: Final = (0.0, 0.2, 0.4, 0.6, 0.8)
LENGTHS: Final = (LEAST_INTERVALS, TIMED_INTERVALS, 150, 300)
SCATTER: Final = 0.1
"""The deviation of an interval's rate, as a share."""
SHIFT, WITHIN = 0.2, 0.5
"""The deviations of the logarithm of a time: between intervals, and within one."""
OPERATIONS: Final = 400
"""Simulated operations of an interval."""
_NORMAL: Final = {0.5: 0.0, 0.99: 2.3263478740408408}
MEDIAN_NS: Final = 100_000
WORKS: Final = 0.5
"""The share of its time in which the simulated system works."""
SERVICE_US: Final = 2000
ENGINE_SCATTER: Final = 0.05
ENGINE_PHIS: Final = (0.0, 0.4, 0.8)
RUNS: Final = 8000
QUANTILE_RUNS: Final = 400
ENGINE_RUNS: Final = 100
ENDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "30 s": {"duration_ns": TIMED_NS},
    "until ± 3 %, 60 s at most (default)": {"warmup_ns": 0},
}
"""What ends a run of the engine."""
_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class Held:
    """How many intervals of some runs held the truth."""

    held: int
    intervals: int
    runs: int
    #: Mean half width, as a share of the value.
    half: float

    @property
    def share(self) -> float:
        """Of the runs that have an interval."""
        return self.held / self.intervals


def correlated(chance: np.random.Generator, n: int, phi: float) -> NDArray[np.float64]:
    """A stationary series of deviation 1 whose neighbours are correlated by φ."""
    steps = chance.normal(size=n)
    steps[1:] *= (1 - phi**2) ** 0.5
    for place in range(1, n):
        steps[place] += phi * steps[place - 1]
    return steps


def counted(estimates: Sequence[Estimate], truth: float) -> Held:
    """How many hold the truth."""
    known = [one for one in estimates if one.low is not None and one.high is not None]
    held = sum((one.low or 0) <= truth <= (one.high or 0) for one in known)
    halves = math.fsum(one.relative_error or 0.0 for one in known)
    return Held(held, len(known), len(estimates), halves / max(len(known), 1))


def of_rates(n: int, phi: float, runs: int = RUNS, seed: int = 1) -> Held:
    """Simulated rates of a run of n intervals."""
    chance = np.random.default_rng([seed, n, round(phi * 100)])
    estimates = []
    for _ in range(runs):
        rates = 1000 * (1 + SCATTER * correlated(chance, n, phi))
        estimates.append(rate_of_intervals(float(rates.mean()), rates.tolist()).plain("ops/s"))
    return counted(estimates, 1000)


def of_quantiles(q: float, n: int, phi: float, runs: int = QUANTILE_RUNS, seed: int = 1) -> Held:
    """Simulated times of a run of n intervals, lognormal, in a histogram's buckets."""
    chance = np.random.default_rng([seed, n, round(phi * 100), round(q * 100)])
    truth = MEDIAN_NS * math.exp(_NORMAL[q] * math.hypot(SHIFT, WITHIN))
    estimates = []
    for _ in range(runs):
        shifts = SHIFT * correlated(chance, n, phi)
        logs = shifts[:, None] + chance.normal(0, WITHIN, (n, OPERATIONS))
        found = quantile_of_intervals([_bucketed(MEDIAN_NS * np.exp(one)) for one in logs], q)
        if found is not None:
            estimates.append(found.estimate("ns"))
    return counted(estimates, truth)


def _bucketed(times: NDArray[np.float64]) -> Counts:
    """Ranges of a thousandth, as a histogram of three digits has them."""
    low = (times // 64 * 64).astype(np.int64)
    distinct, count = np.unique(low, return_counts=True)
    return Counts(distinct, distinct + 63, count.astype(np.int64))


def of_engine(phi: float, runs: int, folder: Path, end: Mapping[str, Any]) -> Held:
    """Runs of the engine with the simulated driver, ended as usual or as said."""
    truth = WORKS * 1e6 / SERVICE_US
    made = (engine_run(folder, phi, seed, end) for seed in range(runs))
    return counted([throughput(run, run.counted[0]) for run in made], truth)


def engine_run(folder: Path, phi: float, seed: int, end: Mapping[str, Any]) -> Run:
    """One of them: one client, whose system stands still for a part of each interval."""
    is_timed = "duration_ns" in end
    most, longest_ns = (TIMED_INTERVALS, TIMED_NS) if is_timed else (PRECISE_INTERVALS, LONGEST_NS)
    length_s = longest_ns / most / SECOND_NS
    chance = np.random.default_rng([seed, round(phi * 100)])
    works = WORKS * (1 + ENGINE_SCATTER * correlated(chance, most + 1, phi))
    stalls = ",".join(
        f"{(n + share) * length_s:.6f}+{(1 - share) * length_s:.6f}"
        for n, share in enumerate(works)
    )
    spec = RunSpec(
        workload=catalog.load("ycsb/c"),
        system=parse_system_url(
            f"sim:?clock=virtual&service=constant&mean_us={SERVICE_US}&stall={stalls}"
        ),
        seed=seed + 1,
        load="never",
        **end,
    )
    return close_run(pictures.executed(spec, folder).path)


def engine_table() -> str:
    """Coverage of the engine's runs."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        return _table(
            "a run",
            tuple(ENDS),
            lambda end, phi: of_engine(phi, ENGINE_RUNS, root, ENDS[end]),
            ENGINE_PHIS,
        )


def _table(
    first: str,
    rows: Sequence[_Row],
    held: Callable[[_Row, float], Held],
    phis: Sequence[float] = PHIS,
) -> str:
    lines = [
        f"| {first} | " + " | ".join(f"φ = {phi:g}" for phi in phis) + " |",
        "|---|" + "---:|" * len(phis),
    ]
    for row in rows:
        found = [held(row, phi) for phi in phis]
        lines.append(f"| {row} | " + " | ".join(map(_cell, found)) + " |")
    return "\n".join(lines)


def _cell(held: Held) -> str:
    known = "" if held.intervals == held.runs else f" ({held.intervals} runs)"
    return f"{held.share * 100:.1f} %, ± {held.half * 100:.2g} %{known}"


TABLES: Final[dict[str, Callable[[], str]]] = {
    "rates": partial(_table, "intervals", LENGTHS, of_rates),
    "medians": partial(_table, "intervals", LENGTHS[:2], partial(of_quantiles, 0.5)),
    "tails": partial(_table, "intervals", LENGTHS[:2], partial(of_quantiles, 0.99)),
    "engine": engine_table,
}
"""Coverage by number of intervals, or by end of the run, and correlation."""


def main(names: Sequence[str]) -> int:
    """Simulates, and writes the tables into the page: those that are named, or all."""
    for name in names or TABLES:
        table = TABLES[name]
        text = PAGE.read_text(encoding="utf-8")
        before, begin, rest = text.partition(BEGIN.format(name))
        _, end, after = rest.partition(END.format(name))
        PAGE.write_text(f"{before}{begin}\n{table()}\n{end}{after}", encoding="utf-8")
        print("written:", name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
