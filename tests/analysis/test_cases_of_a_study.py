"""The figures of a study's cases: of which runs they are, and what servers and drivers counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kvmark.analysis.path_costs import path_costs
from kvmark.analysis.study import CaseRuns, EffectAsked, PathCost, effect, study_rows
from kvmark.analysis.summary.sums import disk_bytes_per_operation
from kvmark.frontends.cassandra_stress.output import CountingRules, stress_results
from kvmark.frontends.yugabyte_apps.table import app_grid, app_table, by_operation, case_runs
from kvmark.records import Run
from kvmark.records.histograms import encode
from kvmark.stats import Counts

Make = Callable[[], Any]


def test_a_run_that_failed_in_its_load_is_only_a_reason(made: Make, ended_in_its_load: Run) -> None:
    whole = CaseRuns({}, {0: made(), 1: made()}, frozenset({0, 1}))
    (wanted,) = study_rows([whole])
    (row,) = study_rows([replace(whole, runs={**whole.runs, 2: ended_in_its_load})])
    assert (row.throughput, row.completed) == (wanted.throughput, wanted.completed)
    codes, known = (
        {reason.code for reason in one.verdict.reasons} for one in (row.figures, wanted.figures)
    )
    assert "interrupted" in codes - known
    # Nor has a case figures of which no run came beyond its load.
    (row,) = study_rows([CaseRuns({}, {0: ended_in_its_load}, failures=("it took too long",))])
    assert (row.figures, row.throughput) == (None, None)


def test_an_effect_counts_commands_as_the_table_does(made: Make) -> None:
    runs = {number: made() for number in range(2)}
    cases = [
        CaseRuns({"batch": str(count)}, runs, frozenset(runs), commands={"clients": count})
        for count in (1, 10)
    ]
    before, after = study_rows(cases)
    found = effect(EffectAsked("batch", {"batch": "1"}, {"batch": "10"}), cases, {})
    told = (after.throughput.value / before.throughput.value - 1) * 100
    assert found.change.value == pytest.approx(told, rel=0.01)
    assert told == pytest.approx(900, rel=0.01)


def reads_take(response_ns: int) -> Callable[[Any], None]:
    """Lets all reads take that long."""

    def change(draft: Any) -> None:
        read = draft.total("READ")
        read["response"]["histogram"] = encode(Counts.of([response_ns] * read["count"]))

    return change


def test_figures_of_a_case_s_operations_merge_its_usable_runs(made: Make) -> None:
    quick = made(reads_take(200_000))
    runs = {0: made(0.2, reads_take(400_000)), 1: quick, 2: made(reads_take(100_000))}
    rows = study_rows([CaseRuns({"workload": "a"}, runs, frozenset({1, 2}))])

    def reads(*usable: Run) -> Any:
        found: Any = SimpleNamespace(runs=tuple(runs.values()), usable={run.id for run in usable})
        operations = by_operation(case_runs(rows[0], found))
        return next(one for one in operations if one.operation == "READ")

    both = reads(quick, runs[2])
    assert both.runs == 2
    assert both.figures["throughput"] == pytest.approx(quick.manifest.rate, rel=0.01)
    # Half of all reads took 100 µs and half 200 µs: no mean of the runs' quantiles.
    assert both.figures["mean_us"] == pytest.approx(150, rel=0.01)
    assert both.figures["p99_us"] == pytest.approx(200, rel=0.01)
    # If none is usable, all of them.
    assert (reads().runs, reads().figures["p99_us"]) == (3, pytest.approx(400, rel=0.01))


def test_a_case_s_application_table_is_over_all_its_runs(made: Make) -> None:
    def served(response_ns: int) -> Run:
        def readers(draft: Any) -> None:
            draft.plan["groups"][0]["name"] = "readers"
            for row in (*draft.engine["totals"], *draft.intervals):
                row["group"] = "readers"
                if row.get("outcome") == "ok":
                    row["response_ns_mean"] = float(response_ns)

        run: Run = made(readers, reads_take(response_ns))
        return run

    runs = [served(100_000), served(300_000)]
    alone, both = app_table(runs[:1]), app_table(runs)
    once, rows = ({row.name: row.spread for row in table.rows} for table in (alone, both))
    for name in ("Read throughput", "Read response time"):
        assert rows[name].n == 2 * once[name].n
    times = rows["Read response time"]
    assert (times.min, times.mean, times.max) == pytest.approx((0.1, 0.2, 0.3))
    (reads,) = both.times
    assert reads.response.count == 2 * alone.times[0].response.count
    assert (alone.runs, both.runs) == (1, 2)
    assert app_grid(both).title.endswith(" · 2 runs")
    assert app_grid(both).notes[0] == "Over the intervals of both runs of the case."


WINDOW_S = 20


def watch(draft: Any, *bytes_per_s: float | None) -> None:
    """Puts nodes behind the run that read so much from their disks each second."""
    draft.resources.clear()
    for number, each in enumerate(bytes_per_s, start=1):
        draft.watch(
            f"node-{number}",
            cpu_user_s=(0, 0.1),
            cpu_system_s=0.0,
            network_sent_bytes=0,
            network_received_bytes=0,
            disk_read_bytes=None if each is None else (5_000, each),
        )


@pytest.mark.parametrize(
    ("bytes_per_s", "samples", "whole"),
    [
        ((3e6, 1e6), slice(None), 4e6 * WINDOW_S),
        # A node that died after four seconds reads no more.
        ((1e6, 1e6), slice(21 + 5), 1e6 * (WINDOW_S + 4)),
        # Samples that miss the ends of a phase stand for all of it.
        ((4e6,), slice(5, 15), 4e6 * WINDOW_S),
        ((), slice(0), None),
        ((None,), slice(None), None),
        # One sample of a node gives no increase; the others' reads aren't those of all.
        ((1e3,), slice(1), None),
        ((3e6, None), slice(None), None),
    ],
)
def test_reads_of_all_nodes_are_divided_among_the_operations_or_unknown(
    healthy: Make, bytes_per_s: tuple[float | None, ...], samples: slice, whole: float | None
) -> None:
    draft = healthy()
    watch(draft, *bytes_per_s)
    draft.resources = draft.resources[samples]
    run = draft.run()
    operations = sum(total.count for total in run.totals(0))
    assert disk_bytes_per_operation([run]) == (
        whole and pytest.approx(whole / operations, rel=0.05)
    )
    (row,) = study_rows([CaseRuns({}, {0: run})])
    assert row.disk_bytes == disk_bytes_per_operation([run])


def test_collections_of_a_node_that_was_started_again_are_those_of_the_run(healthy: Make) -> None:
    """It had 500 before, has one a second, is killed after five seconds and is back at ten."""
    draft = healthy()
    watch(draft, 0)
    for second, row in enumerate(draft.resources):
        row["gc_count"] = 500 + second if second <= 5 else second - 10
        row["gc_time_s"] = row["gc_count"] / 20
    draft.resources = draft.resources[:6] + draft.resources[10:]
    garbage = stress_results(draft.run(), CountingRules("service", {}, frozenset())).garbage
    assert garbage.count == 5 + 10
    assert garbage.time_s == pytest.approx(15 / 20)


def test_attempts_beyond_the_first_are_those_of_the_counted_phases(made: Make) -> None:
    retries = {"retries": {"before": 40.0, "after": 52.0}}
    twice, silent = (
        [made(lambda draft, counted=counted: draft.phase.update(statistics=counted))] * times
        for counted, times in ((retries, 2), ({}, 1))
    )
    cases = [CaseRuns({}, dict(enumerate(runs))) for runs in (twice, silent)]
    assert [row.retries for row in study_rows(cases)] == [24, None]


def proxied(draft: Any, usable: frozenset[int] = frozenset({0})) -> PathCost:
    """What the way through a proxy costs, whose one server is the run's node 1."""
    draft.testbed = {
        "system": "proxy", "kind": "haproxy", "version": "haproxy 3", "build": "", "threads": 1,
        "nodes": [{"name": "node-1"}],
    }  # fmt: skip
    run = draft.run()
    ways = [CaseRuns({"through": way}, {0: run}, usable) for way in ("direct", "haproxy")]
    (cost,) = path_costs(ways, "through", "direct")
    return cost


def used_s(draft: Any, cost: PathCost) -> float:
    """A proxy's processor time in the whole run."""
    return cost.proxy_cpu.value * sum(total["count"] for total in draft.engine["totals"]) / 1e6


def test_a_proxy_that_died_used_no_more(healthy: Make) -> None:
    draft = healthy()
    watch(draft, None)
    own = [{**row, "node": "coordinator", "cpu_user_s": 0.0} for row in draft.resources]
    draft.resources = [*draft.resources[:5], *own]
    cost = proxied(draft)
    assert used_s(draft, cost) == pytest.approx(0.1 * 4, rel=0.05)
    assert "proxy_cpu" not in cost.missing


def test_a_figure_of_a_proxy_that_is_missing_says_why(healthy: Make) -> None:
    draft = healthy()
    watch(draft, None)
    whole = proxied(draft)
    assert used_s(draft, whole) == pytest.approx(0.1 * WINDOW_S, rel=0.05)
    assert whole.missing.keys() <= {"proxy_memory_bytes"}
    unusable = proxied(draft, frozenset())
    assert unusable.proxy_cpu is None
    assert unusable.missing["proxy_cpu"].startswith("no run through the proxy came to its end")
    assert unusable.missing["throughput_lost"].startswith("no block has a run of both ways")
    draft.resources = draft.resources[:1]
    short = proxied(draft)
    assert short.proxy_cpu is None
    assert "is too short for two samples of the proxy" in short.missing["proxy_cpu"]
