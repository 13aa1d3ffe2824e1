"""What servers and drivers counted while a run went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvmark.analysis.path_costs import PathCost, path_costs
from kvmark.analysis.study import CaseRuns, study_rows
from kvmark.analysis.summary.sums import disk_bytes_per_operation
from kvmark.frontends.cassandra_stress.output import CountingRules, stress_results

Make = Callable[[], Any]

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
    assert read is not None
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
    assert garbage is not None
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
    assert cost.proxy_cpu is not None
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
