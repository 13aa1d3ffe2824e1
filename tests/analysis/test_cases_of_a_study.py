"""The figures of a study's cases: of which runs they are, and what they count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kvmark.analysis.study import CaseRuns, EffectAsked, effect, study_rows
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
    assert row.figures is not None
    assert wanted.figures is not None
    codes, known = (
        {reason.code for reason in one.verdict.reasons} for one in (row.figures, wanted.figures)
    )
    assert "interrupted" in codes - known


def test_a_case_of_which_no_run_came_beyond_its_load_has_no_figures(
    ended_in_its_load: Run,
) -> None:
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
    assert before.throughput is not None
    assert after.throughput is not None
    found = effect(EffectAsked("batch", {"batch": "1"}, {"batch": "10"}), cases, {})
    assert found.change is not None
    told = (after.throughput.value / before.throughput.value - 1) * 100
    assert found.change.value == pytest.approx(told, rel=0.01)
    assert told == pytest.approx(900, rel=0.01)


def lasting(healthy: Make, times: float, response_ns: int = 100_000) -> Run:
    """A healthy run whose operations took so many times as long, its reads just that long."""
    draft = healthy()
    draft.phase["end_ns"] = round(draft.phase["end_ns"] * times)
    read = draft.total("READ")
    read["response"]["histogram"] = encode(Counts.of([response_ns] * read["count"]))
    run: Run = draft.run()
    return run


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
        run: Run = draft.run()
        return run

    runs = [served(100_000), served(300_000)]
    alone, both = app_table(runs[:1]), app_table(runs)
    rows = {row.name: row.spread for row in both.rows}
    once = {row.name: row.spread for row in alone.rows}
    for name in ("Read throughput", "Read response time"):
        one, two = once[name], rows[name]
        assert one is not None
        assert two is not None
        assert two.n == 2 * one.n
    times = rows["Read response time"]
    assert times is not None
    assert (times.min, times.mean, times.max) == pytest.approx((0.1, 0.2, 0.3))
    (reads,) = both.times
    assert reads.response.count == 2 * alone.times[0].response.count
    assert (alone.runs, both.runs) == (1, 2)
    assert app_grid(both).title.endswith(" · 2 runs")
    assert app_grid(both).notes[0] == "Over the intervals of all 2 runs of the case."
