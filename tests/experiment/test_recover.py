"""Recovery from a trigger, on the simulated queue with a known condition."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from studies import REFUSALS, Program

from kvmark.analysis.recovery import _first_at_level, least_goodput
from kvmark.spec.trigger import parse_trigger

QUEUE = "sim:?clock=virtual&service=constant&mean_us=1000"
"""A server that completes 1,000 requests a second."""
RETRY = ("--retry", "3,timeout=100ms", "--trigger", "rate x5 for 2s", "--before", "5s")
ROWS = [{"rate": rate, "backlog": 0} for rate in (98.0, 102.0) * 20]


@pytest.fixture
def kvmark(program: Program) -> Callable[..., tuple[Any, str]]:
    """Carries out the command; its answer, and what it said."""

    def kvmark(*words: str, exits: int = 0) -> tuple[Any, str]:
        done = program("recover", "ycsb/c", "--json", "-q", *words)
        assert done.code == exits, done
        return done.json if done.out else None, done.err

    return kvmark


@pytest.mark.parametrize(("low", "backlog", "first"), [
    ([], 0, 0),  # Never below the level.
    ([*range(10)], 0, 10),
    ([*range(10), 20], 0, 10),  # One slow interval later.
    ([*range(10), *range(20, 24)], 0, 24),  # Four are a relapse.
    ([*range(10), *range(30, 40)], 0, None),
    ([*range(40)], 0, None),
    ([], 1, None),  # Arrivals still wait.
])  # fmt: skip
def test_a_service_has_recovered_when_it_stays_at_its_level(
    low: list[int], backlog: int, first: int | None
) -> None:
    after = [
        {"rate": 50.0 if place in low else row["rate"], "backlog": backlog}
        for place, row in enumerate(ROWS)
    ]
    assert _first_at_level(after, least_goodput(ROWS), 0) == first


def test_a_trigger_is_a_rate_for_a_while_or_a_fault() -> None:
    spike = parse_trigger("rate  x2.5 for 2s")
    assert (spike.factor, spike.length_ns, spike.fault(1)) == (2.5, 2 * 10**9, None)
    assert spike.curve(100, 10, 20) == "steps:100.000/10ns,250.000/2000000000ns,100.000/20ns"
    pause = parse_trigger("pause primary-1 for 2s")
    fault = pause.fault(3 * 10**9)
    assert fault is not None
    assert (pause.length_ns, fault.text) == (2 * 10**9, "3s pause primary-1 for 2s")
    assert parse_trigger("restart node-1").length_ns == 0


def test_a_queue_recovers_unless_all_attempts_exceed_its_rate(
    kvmark: Callable[..., tuple[Any, str]], tmp_path: Path
) -> None:
    """After a spike that fills it beyond the timeout: if 3 attempts at the base rate are < μ."""
    report = tmp_path / "report.md"
    words = ("--system", QUEUE, *RETRY, "--limit", "40s", "--report", str(report))
    answer, _ = kvmark(*words, "--rate", "250")
    (one,) = answer["recoveries"]
    before, _, _, end = one["parts"]
    assert one["outcome"] == "recovered"
    assert 0 < one["recovery_ns"] < 25e9
    assert before["attempts"] == pytest.approx(before["goodput"])
    assert end["goodput"] == pytest.approx(250, rel=0.1)
    assert " recovered from 'rate x5 for 2s' after " in report.read_text()
    answer, said = kvmark(*words, "--rate", "450", exits=1)
    (one,) = answer["recoveries"]
    end = one["parts"][-1]
    assert (one["outcome"], one["recovery_ns"]) == ("not recovered", None)
    assert end["goodput"] < 20
    assert end["attempts"] == pytest.approx(3 * 450, rel=0.1)
    assert one["wasted_attempts"] > 20 * 3 * 400
    assert said == "kvmark: recover: not recovered within the limit\n"
    answer, said = kvmark(*words, "--rate", "1500", exits=1)
    assert answer["recoveries"][0]["outcome"] == "not carried"
    assert "ops/s succeeded before the trigger" in said


def test_the_search_ends_at_the_stability_condition(
    kvmark: Callable[..., tuple[Any, str]],
) -> None:
    words = ("--rate", "100", "--search", "--within", "5%", "--arrival", "constant")
    answer, _ = kvmark("--system", QUEUE, *RETRY, "--limit", "60s", *words)
    assert answer["search"]["found"] == "found"
    # From just below a third of the queue's rate it takes longer than the limit.
    assert 280 < answer["search"]["low"] <= 1000 / 3
    assert len(answer["recoveries"]) == len(answer["search"]["runs"])
    assert answer["sentence"].startswith("ycsb/c on sim:")


@pytest.mark.parametrize(("words", "sentence"), REFUSALS["recover"])
def test_wrong_use_is_one_sentence(
    kvmark: Callable[..., tuple[Any, str]], words: str, sentence: str
) -> None:
    answer, told = kvmark(*shlex.split(words), exits=2)
    assert answer is None
    assert told.startswith(f"kvmark: {sentence}")
    assert told.count("\n") == 1


GROUPS = """
name: groups
dataset: {records: 100}
groups:
  - {name: changing, clients: 1, mix: {read_modify_write: 1}, operations: 1000}
  - {name: reading, clients: 1, mix: {read: 1}, operations: 1000, retry: 3}
"""


def test_groups_without_a_policy_are_not_counted(program: Program, tmp_path: Path) -> None:
    (tmp_path / "groups.yaml").write_text(GROUPS)
    system = "sim:?clock=virtual&mean_us=100&error_share=0.2"
    done = program("run", str(tmp_path / "groups.yaml"), "--system", system, "--json", "-q")
    attempts = done.json["summary"]["phases"][0]["attempts"]
    assert attempts["retried"] == attempts["attempts"] - 1000 > 0


def test_a_run_reports_its_attempts(program: Program) -> None:
    system = "sim:?clock=virtual&mean_us=100&error_share=0.2"
    words = ("run", "ycsb/f", "--system", system, "--operations", "20k", "--retry", "3")
    done = program(*words, "--json", "-q")
    (phase,) = done.json["summary"]["phases"]
    attempts, by_name = phase["attempts"], {one["operation"]: one for one in phase["operations"]}
    failed = sum(phase["errors"].values())
    assert attempts["given_up"] == failed > 0
    made = by_name["ATTEMPT"]["count"] + sum(by_name["ATTEMPT"]["others"].values())
    assert attempts["attempts"] == made
    # Each request has 1 + 0.2 + 0.04 attempts, and half of the operations two requests.
    assert attempts["per_operation"] == pytest.approx(1.24 * 1.5, rel=0.02)
    assert attempts["retried"] == pytest.approx(0.24 * 1.5 * 20_000, rel=0.05)
    text = program(*words, "-q").out
    assert f"{failed} operations given up" in text
    assert "1 client, at most 3 attempts" in text
