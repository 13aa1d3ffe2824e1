"""Numbers of one run and of repetitions, against what was put in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvmark.analysis.summary.run import quantile_curve, summarize
from kvmark.analysis.verdict.cases import aggregate
from kvmark.analysis.verdict.judge import judge
from kvmark.stats import Counts, mean_interval
from runs_on_disk import histogram

Draft = Any
Make = Callable[[], Draft]


def test_throughput_counts_successes_in_the_window(healthy: Make) -> None:
    draft = healthy()
    draft.total("READ")["in_window"] -= 1000
    draft.turn(500, "UPDATE", "timeout")
    (phase,) = summarize(draft.run()).phases
    ok = draft.total("READ")["in_window"] + draft.total("UPDATE")["in_window"]
    assert phase.throughput.value == pytest.approx(ok / 20)
    assert phase.throughput.unit == "ops/s"


def test_the_error_of_one_run_comes_from_its_full_intervals(healthy: Make) -> None:
    draft = healthy()
    last = max(row["end_ns"] for row in draft.intervals)
    row = {**draft.intervals[1], "start_ns": last, "end_ns": last + 10_000_000, "count": 1}
    draft.intervals += [row, {**row, "drain": True, "end_ns": last + 1_000_000_000}]
    (phase,) = summarize(draft.run()).phases
    assert phase.throughput.n == 40
    # Half a second holds 5,000 with a deviation of √2 · 20: were they known to be independent, the
    # mean of forty would be known to 18 ops/s.
    assert 9 < (phase.throughput.error or 0) < 60
    # Too few of them give none.
    draft.intervals[:] = [row for row in draft.intervals if row["start_ns"] < 3_000_000_000]
    (phase,) = summarize(draft.run()).phases
    assert phase.throughput.error is None


def test_times_are_those_of_successes_and_other_outcomes_are_counted(healthy: Make) -> None:
    draft = healthy()
    draft.turn(300, "READ", "timeout")
    draft.turn(100, "READ", "miss")
    (phase,) = summarize(draft.run()).phases
    read = phase.operations[0]
    assert (read.operation, read.count) == ("READ", draft.total("READ")["count"])
    assert read.others == {"timeout": 300, "miss": 100}
    assert phase.errors == {"timeout": 300}
    assert phase.hit_ratio == pytest.approx(1 - 100 / (phase.completed - 300))


def test_a_quantile_without_ten_operations_beyond_it_is_not_shown(healthy: Make) -> None:
    draft = healthy()
    draft.complete(("READ", 500))
    (phase,) = summarize(draft.run()).phases
    response = phase.operations[0].response
    assert response.shown_ns("p95") is not None
    assert response.shown_ns("p99") is None
    assert response.quantiles["p99"].ns > response.quantiles["p95"].ns


def test_parts_of_a_read_modify_write_are_listed_and_not_summed(healthy: Make) -> None:
    draft = healthy()
    names = ("READ-MODIFY-WRITE", "READ", "UPDATE")
    draft.complete(*((name, 2000) for name in names), part="READ-MODIFY-WRITE")
    (phase,) = summarize(draft.run()).phases
    assert phase.completed == 2000
    assert phase.throughput.value == pytest.approx(100)
    assert [(row.operation, row.part) for row in phase.operations] == [
        ("READ-MODIFY-WRITE", False),
        ("READ", True),
        ("UPDATE", True),
    ]


def test_processor_time_per_operation_leaves_idle_polling_out(healthy: Make) -> None:
    draft = healthy()
    draft.worker["idle_spin_ns"] = 2_000_000_000
    (phase,) = summarize(draft.run()).phases
    assert phase.cpu_ns_per_operation == pytest.approx(6e9 / phase.completed)
    assert phase.max_resident_bytes == 50_000_000


def test_a_load_counts_when_the_plan_measures_nothing_else(healthy: Make) -> None:
    draft = healthy()
    draft.phase["name"] = "load"
    # The plan would have measured then.
    run = draft.run()
    assert (summarize(run).phases, run.manifest.rate) == ((), 0)
    assert run.manifest.unmeasured == "ended in its load phase and measured nothing"
    draft.plan["phases"][0]["name"] = "load"
    assert [phase.name for phase in summarize(draft.run()).phases] == ["load"]
    draft.phase["stopped_by"] = "skipped"
    assert summarize(draft.run()).phases == ()


def test_repetitions_give_a_mean_with_a_t_interval(made: Make) -> None:
    case = aggregate([made(20 / seconds) for seconds in (18, 20, 22)])
    expected = mean_interval([18_000, 20_000, 22_000], "ms")
    assert (case.runtime_ms.value, case.runtime_ms.low) == (expected.value, expected.low)
    assert case.throughput.n == 3
    assert case.throughput.method == "mean, t-interval"
    assert len(case.runs) == 3


def test_quantiles_of_repetitions_are_merged_and_not_averaged(made: Make) -> None:
    runs = [made(lambda draft, n=n: draft.complete(("READ", n))) for n in (1900, 100)]
    both = Counts.merge(histogram(run) for run in runs)
    case = aggregate(runs)
    assert case.response.count == 2000
    assert case.response.quantiles["p99"].ns == both.quantile(0.99)


def test_one_run_alone_keeps_the_error_of_its_intervals_and_none_is_no_case(made: Make) -> None:
    case = aggregate([made()])
    assert case.throughput.n == 40
    assert case.runtime_ms.error is None
    with pytest.raises(ValueError, match="at least one run"):
        aggregate([])


def test_a_curve_ends_where_there_is_too_little_beyond() -> None:
    counts = Counts.of(np.random.default_rng(1).integers(1, 10**6, 1000))
    curve = quantile_curve(counts)
    assert curve[0][0] == 0.0
    assert curve[-1][0] == pytest.approx(0.99)
    assert [ns for _, ns in curve] == sorted(ns for _, ns in curve)


def test_the_lag_of_the_generator_stands_beside_the_times(healthy: Make) -> None:
    draft = healthy()
    assert summarize(draft.run()).phases[0].generator_lag is None
    read = draft.total("READ")
    draft.phase["generator_lag"] = {**read["service"], "count": read["count"]}
    (phase,) = summarize(draft.run()).phases
    lag = phase.generator_lag
    assert lag.count == read["count"]
    assert lag.shown_ns("p99") == phase.operations[0].service.shown_ns("p99")


@pytest.mark.parametrize(
    ("mix", "ended", "ratio"),
    [
        # A scan takes what there is: it looks for no record that must be there.
        ([("read", None), ("scan", None)], {"READ": (900, 100), "SCAN": (5000, 0)}, 0.9),
        # An operation of the user's own looks for its record, unless it inserts or deletes.
        ([("read", "GET"), ("insert", "PUT")], {"GET": (800, 200), "PUT": (5000, 0)}, 0.8),
        ([], {"LOOKUP": (700, 300)}, 0.7),
        ([("delete", None)], {"DELETE": (700, 300)}, None),
    ],
)
def test_the_hit_ratio_and_the_misses_of_the_verdict_are_one_figure(
    healthy: Make,
    mix: list[tuple[str, str | None]],
    ended: dict[str, tuple[int, int]],
    ratio: float | None,
) -> None:
    draft = healthy()
    names = [name for _, name in mix if name is not None]
    draft.plan["statements"] = [{"name": name} for name in names]
    draft.plan["groups"][0]["mix"] = [
        {"kind": kind, "weight": 1.0, "statement": names.index(name) if name else None}
        for kind, name in mix
    ]
    draft.complete(
        *(
            (name, count, outcome)
            for name, counts in ended.items()
            for outcome, count in zip(("ok", "miss"), counts, strict=True)
            if count
        )
    )
    run = draft.run()
    (phase,) = summarize(run).phases
    assert phase.hit_ratio == ratio
    misses = [reason for reason in judge(run).reasons if reason.code == "misses"]
    found = [1 - one.evidence["misses"] / one.evidence["operations"] for one in misses]
    assert found == ([] if ratio is None else [pytest.approx(ratio)])
