"""Two sides of runs: what is refused, what is answered, what is warned of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from kvmark.analysis.comparison import Comparison, compare
from kvmark.analysis.conditions import hold, parse_condition
from kvmark.analysis.likeness import differences
from kvmark.analysis.metrics import THROUGHPUT, level, parse_metric
from kvmark.analysis.selection import runs_of
from kvmark.errors import RecordsError, UsageError
from kvmark.records import Records, Run
from kvmark.stats import difference, level_of

Change = Callable[[Any], None]


def nothing(_: Any) -> None:
    """Leaves a draft as it is."""


def made(healthy: Callable[[], Any], speed: float = 1.0, change: Change = nothing) -> Run:
    """A run whose clock went so much faster: the same operations in less time."""
    draft = healthy()
    draft.phase["end_ns"] = int(draft.phase["end_ns"] / speed)
    for row in draft.intervals:
        row["start_ns"], row["end_ns"] = int(row["start_ns"] / speed), int(row["end_ns"] / speed)
    change(draft)
    run: Run = draft.run()
    return run


def side(healthy: Callable[[], Any], seed: int, mean: float = 1.0, runs: int = 4) -> list[Run]:
    """Repetitions that scatter by 2 %."""
    speeds = np.random.default_rng(seed).lognormal(np.log(mean), 0.02, runs)
    return [made(healthy, float(speed)) for speed in speeds]


def effect(comparison: Comparison, metric: str = "throughput") -> Any:
    (case,) = comparison.cases
    return next(row.effect for row in case.rows if row.metric.name == metric)


def codes(comparison: Comparison) -> set[str]:
    return {caution.code for case in comparison.cases for caution in case.cautions}


def test_a_change_between_repetitions_is_found_with_its_size(healthy: Callable[[], Any]) -> None:
    found = effect(compare(side(healthy, 1), side(healthy, 2, 1.1)))
    assert found.significant()
    assert found.change == pytest.approx(0.1, abs=0.03)


def test_repetitions_of_the_same_show_no_difference_and_what_could_have_been_seen(
    healthy: Callable[[], Any],
) -> None:
    found = effect(compare(side(healthy, 1), side(healthy, 2)))
    assert not found.significant()
    assert 0.01 < found.detectable < 0.1


def test_single_runs_are_compared_by_their_intervals_and_say_so(healthy: Callable[[], Any]) -> None:
    comparison = compare([made(healthy)], [made(healthy, 1.05)])
    assert effect(comparison).significant()
    assert "one_run" in codes(comparison)


def test_a_quantile_of_repetitions_is_that_of_their_merged_histograms(
    healthy: Callable[[], Any],
) -> None:
    runs = side(healthy, 1, runs=3)
    found = level(runs, parse_metric("p99"))
    assert found is not None
    assert found.between_runs
    assert level(runs[:1], parse_metric("READ.service.p99")) is not None


@pytest.mark.parametrize(
    ("place", "change", "allowed"),
    [
        ("dataset.count", lambda draft: draft.plan["dataset"].update(count=2000), "plan"),
        ("groups[0].clients", lambda draft: draft.plan["groups"][0].update(clients=16), "plan"),
        ("system.version", lambda draft: draft.engine["system"].update(version="11"), "system"),
        (
            "system.compression",
            lambda draft: draft.engine["system"].update(configuration={"compression": "none"}),
            "system",
        ),
    ],
)
def test_unlike_sides_are_refused_with_the_difference_unless_it_is_allowed(
    healthy: Callable[[], Any], place: str, change: Change, allowed: str
) -> None:
    sides = [made(healthy)], [made(healthy, change=change)]
    with pytest.raises(UsageError, match="differ") as refused:
        compare(*sides)
    assert place in str(refused.value)
    assert f"--allow {allowed}" in str(refused.value)
    comparison = compare(*sides, allow=(allowed,))
    assert [one.place for one in comparison.cases[0].differences] == [place]


def test_seeds_and_places_are_no_differences(healthy: Callable[[], Any]) -> None:
    def elsewhere(draft: Any) -> None:
        draft.plan["seeds"] = {"keys": 5}
        draft.plan["system"]["options"] = {"path": "other/db"}

    assert differences([made(healthy)], [made(healthy, change=elsewhere)]) == ()


def test_an_invalid_run_is_refused_unless_it_is_allowed(healthy: Callable[[], Any]) -> None:
    def broken(draft: Any) -> None:
        draft.turn(20_000, "READ", "timeout")

    sides = [made(healthy)], [made(healthy, change=broken)]
    with pytest.raises(UsageError, match=r"is INVALID .*--allow invalid"):
        compare(*sides)
    assert "verdict" in codes(compare(*sides, allow=("invalid",)))


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("machines", lambda draft: draft.host.update(cores=8)),
        ("generator", lambda draft: draft.worker.update(cpu_ns=16_000_000_000)),
        ("generator", lambda draft: draft.worker.update(waiting_for_core_ns=900_000_000)),
    ],
)
def test_it_warns_when_the_sides_were_not_driven_alike(
    healthy: Callable[[], Any], code: str, change: Change
) -> None:
    assert code not in codes(compare([made(healthy)], [made(healthy)]))
    assert code in codes(compare([made(healthy)], [made(healthy, change=change)]))


def test_cases_are_compared_one_by_one_and_those_of_one_side_are_named(
    healthy: Callable[[], Any],
) -> None:
    def larger(draft: Any) -> None:
        draft.plan["dataset"]["count"] = 5000

    base = [made(healthy), made(healthy, change=larger)]
    comparison = compare(base, [made(healthy, 1.2)])
    assert [case.title for case in comparison.cases] == ["A with 1,000 records"]
    assert comparison.baseline_only == ("A with 5,000 records",)


def condition_fails(text: str, before: Sequence[float], after: Sequence[float]) -> bool:
    return hold(parse_condition(text), difference(level_of(before), level_of(after)), 1).failed


def test_a_condition_is_broken_only_beyond_its_margin_and_beyond_chance() -> None:
    steady, noisy = [100, 101, 99, 100, 100.5], [100, 150, 60, 130, 80]
    assert condition_fails("throughput<-3%", steady, [v * 0.95 for v in steady])
    assert not condition_fails("throughput<-3%", steady, [v * 0.98 for v in steady])
    assert not condition_fails("throughput<-3%", noisy, [v * 0.9 for v in noisy])
    assert not condition_fails("throughput<-3%", steady, [v * 1.1 for v in steady])
    assert condition_fails("p99>5%", steady, [v * 1.1 for v in steady])


def test_several_conditions_share_the_error_level() -> None:
    found = difference(level_of([100, 103, 98, 101]), level_of([94, 97, 93, 98]))
    condition = parse_condition("throughput<-1%")
    assert hold(condition, found, 1).failed
    assert not hold(condition, found, 1000).failed


@pytest.mark.parametrize(
    "text", ["p99", "p99>5", "p98>5%", "p99>-5%", "throughput<3%", "a.b.p99>1%"]
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_condition(text)


def test_metrics_go_by_their_names() -> None:
    for name in ("throughput", "p50", "service.p99", "READ.p999", "READ.wait.p95"):
        assert parse_metric(name).name == name
    assert parse_metric("p99.9") == parse_metric("p999")
    assert parse_metric("throughput") == THROUGHPUT


def test_words_mean_ids_tags_and_commits(records: Records, healthy: Callable[[], Any]) -> None:
    run = made(healthy)
    assert [one.id for one in runs_of(records, [run.id, "last"])] == [run.id]
    for word in ("tag:none", "commit:none", "20300101"):
        with pytest.raises(RecordsError):
            runs_of(records, [word])
