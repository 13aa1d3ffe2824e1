"""The figures of a study's cases: of which runs they are, and what servers and drivers counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kvmark.analysis.path_costs import PathCost, path_costs
from kvmark.analysis.study import CaseRuns, EffectAsked, effect, study_rows
from kvmark.analysis.summary.sums import disk_bytes_per_operation
from kvmark.frontends.cassandra_stress.output import CountingRules, stress_results
from kvmark.frontends.yugabyte_apps.table import app_grid, app_table, by_operation, case_runs
from kvmark.records import Run
from kvmark.records.histograms import encode
from kvmark.stats import Counts

Make = Callable[[], Any]


def test_a_run_that_failed_in_its_load_gives_a_reason_and_no_figure(
    healthy: Make, ended_in_its_load: Run
) -> None:
    whole = CaseRuns({}, {0: healthy().run(), 1: healthy().run()}, frozenset({0, 1}))
    (wanted,) = study_rows([whole])
    (row,) = study_rows([replace(whole, runs={**whole.runs, 2: ended_in_its_load})])
    assert (row.throughput, row.completed) == (wanted.throughput, wanted.completed)
    codes, known = (
        {reason.code for reason in one.verdict.reasons} for one in (row.figures, wanted.figures)
    )
    assert "interrupted" in codes - known


def test_a_case_of_which_no_run_came_beyond_its_load_has_no_figures(ended_in_its_load: Run) -> None:
    (row,) = study_rows([CaseRuns({}, {0: ended_in_its_load}, failures=("it took too long",))])
    assert row.figures is None
    assert row.throughput is None


def test_an_effect_counts_commands_as_the_table_does(healthy: Make) -> None:
    def case(batch: str, commands: int) -> CaseRuns:
        runs = {number: healthy().run() for number in range(2)}
        counted = {"clients": commands}
        return CaseRuns({"batch": batch}, runs, frozenset(runs), commands=counted)

    cases = [case("1", 1), case("10", 10)]
    before, after = study_rows(cases)
    found = effect(EffectAsked("batch", {"batch": "1"}, {"batch": "10"}), cases, {})
    told = (after.throughput.value / before.throughput.value - 1) * 100
    assert found.change.value == pytest.approx(told, rel=0.01)
    assert told == pytest.approx(900, rel=0.01)


def lasting(healthy: Make, times: float, response_ns: int = 100_000) -> Run:
    """A healthy run whose operations took so many times as long, its reads just that long."""
    draft = healthy()
    draft.phase["end_ns"] = round(draft.phase["end_ns"] * times)
    read = draft.total("READ")
    read["response"]["histogram"] = encode(Counts.of([response_ns] * read["count"]))
    return draft.run()


def test_figures_of_a_case_s_operations_merge_its_usable_runs(healthy: Make) -> None:
    slow, quick = lasting(healthy, 5, 400_000), lasting(healthy, 1, 200_000)
    runs = {0: slow, 1: quick, 2: lasting(healthy, 1, 100_000)}
    rows = study_rows([CaseRuns({"workload": "a"}, runs, frozenset({1, 2}))])

    def reads(*usable: Run) -> Any:
        found: Any = SimpleNamespace(runs=tuple(runs.values()), usable={run.id for run in usable})
        operations = by_operation(case_runs(rows[0], found))
        return next(one for one in operations if one.operation == "READ")

    both = reads(quick, runs[2])
    assert both.runs == 2
    assert both.throughput == pytest.approx(quick.manifest.rate, rel=0.01)
    # Half of all reads took 100 µs and half 200 µs: no mean of the runs' quantiles.
    assert both.response_us_mean == pytest.approx(150, rel=0.01)
    assert both.response_us_p99 == pytest.approx(200, rel=0.01)
    # If none is usable, all of them.
    assert (reads().runs, reads().response_us_p99) == (3, pytest.approx(400, rel=0.01))


def test_a_case_s_application_table_is_over_all_its_runs(healthy: Make) -> None:
    def served(response_ns: int) -> Run:
        draft = healthy()
        draft.plan["groups"][0]["name"] = "readers"
        for row in (*draft.engine["totals"], *draft.intervals):
            row["group"] = "readers"
            if row.get("outcome") == "ok":
                row["response_ns_mean"] = float(response_ns)
        read = draft.total("READ")
        read["response"]["histogram"] = encode(Counts.of([response_ns] * read["count"]))
        return draft.run()

    runs = [served(100_000), served(300_000)]
    alone, both = app_table(runs[:1]), app_table(runs)
    rows = {row.name: row.spread for row in both.rows}
    once = {row.name: row.spread for row in alone.rows}
    for name in ("Read throughput", "Read response time"):
        one, two = once[name], rows[name]
        assert two.n == 2 * one.n
    times = rows["Read response time"]
    assert (times.min, times.mean, times.max) == pytest.approx((0.1, 0.2, 0.3))
    (reads,) = both.times
    assert reads.response.count == 2 * alone.times[0].response.count
    assert (alone.runs, both.runs) == (1, 2)
    assert app_grid(both).title.endswith(" · 2 runs")
    assert app_grid(both).notes[0] == "Over the intervals of all 2 runs of the case."


WINDOW_S = 20


def watch(draft: Any, *bytes_per_s: int | None) -> None:
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


def test_the_nodes_reads_are_added_up_and_divided_among_the_operations(healthy: Make) -> None:
    draft = healthy()
    watch(draft, 3_000_000, 1_000_000)
    run = draft.run()
    operations = sum(total.count for total in run.totals(0))
    assert disk_bytes_per_operation([run]) == pytest.approx(4_000_000 * WINDOW_S / operations)
    (row,) = study_rows([CaseRuns({}, {0: run})])
    assert row.disk_bytes == disk_bytes_per_operation([run])


def test_a_node_that_died_reads_no_more(healthy: Make) -> None:
    draft = healthy()
    watch(draft, 1_000_000, 1_000_000)
    died_ns = draft.engine["started_wall_ns"] + 4_000_000_000
    draft.resources = [
        row for row in draft.resources if row["node"] == "node-1" or row["at_wall_ns"] <= died_ns
    ]
    run = draft.run()
    operations = sum(total.count for total in run.totals(0))
    read = disk_bytes_per_operation([run])
    assert read * operations == pytest.approx((WINDOW_S + 4) * 1_000_000, rel=0.05)


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


def test_samples_that_miss_the_ends_of_a_phase_stand_for_all_of_it(healthy: Make) -> None:
    draft = healthy()
    watch(draft, 4_000_000)
    whole = disk_bytes_per_operation([draft.run()])
    draft.resources = draft.resources[5:15]
    assert disk_bytes_per_operation([draft.run()]) == pytest.approx(whole)


@pytest.mark.parametrize(
    ("bytes_per_s", "samples"),
    [
        ((), 0),
        ((None,), 21),
        # One sample of a node gives no increase; the others' reads aren't those of all.
        ((1_000,), 1),
        ((3_000_000, None), 42),
    ],
)
def test_what_nobody_counted_is_not_called_nothing(
    healthy: Make, bytes_per_s: tuple[int | None, ...], samples: int
) -> None:
    draft = healthy()
    watch(draft, *bytes_per_s)
    draft.resources = draft.resources[:samples]
    assert disk_bytes_per_operation([draft.run()]) is None


def test_attempts_beyond_the_first_are_those_of_the_counted_phases(healthy: Make) -> None:
    draft = healthy()
    draft.phase["statistics"] = {"retries": {"before": 40.0, "after": 52.0}}
    twice = CaseRuns({}, {0: draft.run(), 1: draft.run()})
    silent = CaseRuns({}, {0: healthy().run()})
    assert [row.retries for row in study_rows([twice, silent])] == [24, None]


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
    draft = healthy()
    watch(draft, None)
    draft.resources = draft.resources[:1]
    short = proxied(draft)
    assert short.proxy_cpu is None
    assert "is too short for two samples of the proxy" in short.missing["proxy_cpu"]
