"""The search for a capacity: alone on made-up systems, and on a queue with a known answer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from studies import REFUSALS, Program

from kvmark.analysis.capacity import Outcome, RateRun, Stage
from kvmark.errors import UsageError
from kvmark.experiment.capacity import CapacityRequest, estimated, search
from kvmark.spec.objective import parse_objective

Kvmark = Callable[..., tuple[Any, str]]
OBJECTIVE = parse_objective("p99<10ms")


@dataclass
class MadeUp:
    """A system whose p99 in milliseconds follows from the rate and the number of the run."""

    capacity: float
    chance: Sequence[float] = (0.0,)
    otherwise: dict[float, Outcome] = field(default_factory=dict)
    too_few_below: float = 0.0
    #: How much a client carries: the rate that all of them carry may be less than the capacity.
    of_client: float = math.inf
    tried: list[float] = field(default_factory=list)

    def attempt(self, rate: float, stage: Stage, clients: int) -> RateRun:
        error = self.chance[len(self.tried) % len(self.chance)]
        self.tried.append(rate)
        most = min(self.capacity, self.of_client * clients)
        p99_ns = OBJECTIVE.bound * (rate / most) ** 2 * math.exp(error)
        one = self._judged(rate, stage, p99_ns)
        # Beyond what it carries, a system has all clients busy, too.
        busy = math.isfinite(self.of_client) and rate > 0.95 * most
        return replace(one, clients=clients, held_back=busy, throughput=min(rate, most))

    def together(self, runs: Sequence[RateRun]) -> RateRun:
        logs = [math.log(one.figures[OBJECTIVE.text] or 1) for one in runs]
        return self._judged(runs[-1].rate, "confirm", math.exp(sum(logs) / len(logs)))

    def _judged(self, rate: float, stage: Stage, p99_ns: float) -> RateRun:
        outcome: Outcome = "holds" if OBJECTIVE.met(p99_ns) else "missed"
        for least, instead in self.otherwise.items():
            outcome = instead if rate >= least else outcome
        reasons = () if outcome == "holds" else (f"{outcome} at {rate:g}",)
        if rate < self.too_few_below:
            outcome, reasons = "too few", ("so few",)
        return RateRun(rate, stage, "run", outcome, reasons, {OBJECTIVE.text: p99_ns}, rate)


def found_in(
    system: MadeUp, first: float, within: float = 0.03, confirm: int = 3, most_clients: int = 4096
) -> Any:
    return search(system, first, CapacityRequest(within, confirm, 16, most_clients))


@pytest.mark.parametrize("first", [1.0, 700.0, 999.0, 1_001.0, 5e6])
def test_the_ends_enclose_the_capacity_wherever_the_search_begins(first: float) -> None:
    found = found_in(MadeUp(1_000), first)
    assert found.found == "found"
    assert found.low <= 1_000 <= found.high
    assert found.high / found.low <= 1.03


def test_each_end_has_the_requested_number_of_confirming_runs() -> None:
    found = found_in(MadeUp(1_000), 600, confirm=4)
    confirmed = [one.rate for one in found.runs if one.stage == "confirm"]
    assert confirmed == [found.low] * 4 + [found.high] * 4
    # Without confirmation the bisection is the answer.
    found = found_in(MadeUp(1_000), 600, confirm=0)
    assert (found.found, len(found.runs)) == ("found", 2 + 5)


NOWHERE = "even at 150 ops/s missed at 150, and lower: so few"


@pytest.mark.parametrize(
    ("system", "asked", "found", "low", "reason"),
    [
        (MadeUp(1_000, otherwise={0.0: "missed"}), {}, "nowhere", None, r"^even at .*missed at"),
        (MadeUp(10, too_few_below=100), {}, "nowhere", None, f"^{NOWHERE}"),
        (MadeUp(1e9, otherwise={2_000.0: "generator"}), {}, "generator", 2_000, "generator at"),
        (MadeUp(math.inf), {}, "open", 600 * 2**20, "no rate was found at which"),
        *[
            (
                MadeUp(1_000, of_client=7.0),
                {"first": 50, "within": within, "most_clients": most},
                "clients",
                7.0 * most,
                f"all {most} clients were busy",
            )
            for most, within in [(16, 0.03), (64, 0.03), (64, 0.3)]
        ],
    ],
)
def test_a_search_without_both_ends_has_a_reason(
    system: MadeUp, asked: dict[str, Any], found: str, low: float | None, reason: str
) -> None:
    capacity = found_in(system, **{"first": 600, **asked})
    assert capacity.found == found
    assert re.search(reason, capacity.reason)
    assert capacity.high is None or found == "nowhere"
    within = asked.get("within", 0.03)
    assert capacity.low == (None if low is None else pytest.approx(low, rel=within))
    assert capacity.clients == asked.get("most_clients", 16)
    assert estimated(capacity, [OBJECTIVE]) is None


def test_a_run_that_held_by_chance_does_not_move_the_answer() -> None:
    # One run of the bisection sees a tenth of the time that the others see.
    lucky = [0.0, 0.0, -2.3, *([0.0] * 40)]
    found = found_in(MadeUp(1_000, lucky), 600)
    assert found.found in ("found", "nowhere")
    steady = found_in(MadeUp(1_000, [0.01, -0.012, 0.004, -0.007]), 600)
    estimate = estimated(steady, [OBJECTIVE])
    assert estimate.value == pytest.approx(1_000, rel=0.01)
    assert estimate.low < 1_000 < estimate.high


def test_where_only_the_ends_are_known_there_is_no_interval() -> None:
    found = found_in(MadeUp(1_000), 600)
    dropped = tuple(
        replace(one, figures={OBJECTIVE.text: 1e6}) if not one.holds else one for one in found.runs
    )
    estimate = estimated(replace(found, runs=dropped), [OBJECTIVE])
    assert (estimate.value, estimate.low, estimate.high) == (found.low, None, None)


@pytest.mark.parametrize(("within", "confirm"), [(0.0, 3), (1.5, 3), (0.03, -1)])
def test_an_exactness_that_cannot_be_had_is_refused(within: float, confirm: int) -> None:
    with pytest.raises(UsageError):
        CapacityRequest(within, confirm, clients=16, most_clients=16)


@pytest.mark.parametrize("of_client", [0.9, 7.0, 500.0])
def test_the_number_of_clients_is_raised_until_it_does_not_matter(of_client: float) -> None:
    found = found_in(MadeUp(1_000, of_client=of_client), 12)
    assert found.found == "found"
    assert found.low <= 1_000 <= found.high <= found.low * 1.03
    # As many as carry the capacity, and at most twice as many.
    enough = max(16, 1_000 / of_client)
    assert enough * 0.97 <= found.clients <= 2 * enough
    estimate = estimated(found, [OBJECTIVE])
    assert estimate.value == pytest.approx(1_000, rel=0.03)


def test_a_system_that_is_busy_with_all_clients_is_not_tried_again_and_again() -> None:
    found = found_in(MadeUp(1_000, of_client=500.0), 600)
    wider = [one for one in found.runs if one.clients > 16]
    missed = {one.rate for one in found.runs if not one.holds}
    assert found.clients == 16
    assert len(wider) <= len(missed)
    assert not [one for one in wider if one.stage == "confirm"]


# On the simulated driver's virtual clock.


@pytest.fixture
def kvmark(program: Program) -> Callable[..., tuple[Any, str]]:
    """Carries out the command; its answer, and what it said."""

    def kvmark(*words: str, exits: int = 0) -> tuple[Any, str]:
        done = program("capacity", "ycsb/c", "--json", "-q", *words)
        assert done.code == exits, done
        return done.json if done.out else None, done.err

    return kvmark


def test_the_capacity_of_a_queue_is_that_of_its_closed_form(kvmark: Kvmark, tmp_path: Path) -> None:
    """M/M/1: response times are exponential with rate μ - λ, so that p99 = ln(100) ÷ (μ - λ)."""
    service_per_s, p99_s = 10_000.0, 0.001
    expected = service_per_s - math.log(100) / p99_s
    words = ("--clients", "100", "--duration", "20s", "--confirm", "2", "--interval", "10s")
    system = "sim:?clock=virtual&service=exponential&mean_us=100"
    answer, _ = kvmark("--system", system, "--slo", "p99<1ms", *words)
    capacity, tried = answer["capacity"], answer["search"]["runs"]
    assert capacity["value"] == pytest.approx(expected, rel=0.03)
    assert capacity["low"] <= capacity["value"] <= capacity["high"]
    assert capacity["low"] <= expected * 1.01
    assert capacity["high"] >= expected * 0.98
    assert answer["search"]["high"] / answer["search"]["low"] <= 1.03 + 1e-9
    # Each is a run like any other, with its verdict beside it; one more is the closed model.
    runs = {path.parent.name for path in (tmp_path / "runs").glob("*/manifest.json")}
    assert {one["run"] for one in tried} < runs
    assert len(runs) == len(tried) + 1
    last = tried[-1]["run"]
    manifest = json.loads((tmp_path / "runs" / last / "manifest.json").read_bytes())
    said = manifest["spec"]["capacity"]
    assert (manifest["tags"][0], said["name"]) == (answer["tag"], answer["tag"])
    assert said["number"] == len(tried) + 1
    assert manifest["spec"]["capacity"]["rate"] == tried[-1]["rate"]
    assert (tmp_path / "runs" / f"{last}.verdict.json").exists()


# 64 servers of 10 ms each: sixteen clients keep a quarter of them busy.
PARALLEL = ("--system", "sim:?clock=virtual&service=constant&mean_us=10000&servers=64")
COARSE = ("--slo", "p99<20ms", "--within", "20%", "--confirm", "1", "--duration", "4s")


def test_the_usual_clients_do_not_hold_a_parallel_system_back(kvmark: Kvmark) -> None:
    answer, _ = kvmark(*PARALLEL, *COARSE)
    assert answer["search"]["found"] == "found"
    assert answer["search"]["clients"] >= 64
    assert 4_500 < answer["search"]["low"] < answer["search"]["high"] < 8_000


def test_clients_that_hold_it_back_are_no_success(kvmark: Kvmark, tmp_path: Path) -> None:
    words = (*PARALLEL, *COARSE, "--clients", "16", "--report", str(tmp_path / "report.md"))
    answer, said = kvmark(*words, exits=1)
    assert answer["search"]["found"] == "clients"
    assert answer["capacity"] is None
    assert 1_000 < answer["search"]["low"] < 1_700
    for text in (answer["sentence"], said, (tmp_path / "report.md").read_text()):
        assert "all 16 clients were busy" in text


def test_an_objective_that_holds_at_no_rate_ends_with_the_reason(kvmark: Kvmark) -> None:
    system = "sim:?clock=virtual&service=constant&mean_us=1000"
    answer, said = kvmark("--system", system, "--slo", "p99<100us", "--from", "300", exits=1)
    assert (answer["capacity"], answer["search"]["found"]) == (None, "nowhere")
    assert said.startswith("kvmark: capacity: even at ")
    assert "p99<100us was missed with 1" in said


@pytest.mark.parametrize(("words", "sentence"), REFUSALS["capacity"])
def test_wrong_use_is_one_sentence(kvmark: Kvmark, words: str, sentence: str) -> None:
    answer, told = kvmark(*words.split(), exits=2)
    assert answer is None
    assert told.startswith(f"kvmark: {sentence}")
    assert told.count("\n") == 1
