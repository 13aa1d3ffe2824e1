"""A figure over time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from kvmark.analysis.compare.history import histories
from kvmark.analysis.compare.selection import newest
from kvmark.analysis.verdict.cases import sequence_rows
from kvmark.records import Records, Run
from kvmark.report.views.comparison import history_sentence
from kvmark.spec.metric import THROUGHPUT

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)


def run_at(healthy: Callable[[], Any], minute: int, speed: float = 1.0, **changes: Any) -> Run:
    """A run of that minute whose operations took their usual time ÷ speed."""
    draft = healthy()
    draft.records = Records(draft.records.root, now=lambda: BEGAN + timedelta(minutes=minute))
    draft.phase["end_ns"] = int(draft.phase["end_ns"] / speed)
    for row in draft.engine["totals"]:
        factor = changes.get(row["operation"], 1.0)
        row["service"]["mean"] = row["service"]["mean"] * factor / speed
    draft.engine["system"]["system"] = changes.get("store", "RocksDB")
    draft.plan["name"] = changes.get("workload", draft.plan["name"])
    draft.plan["dataset"]["count"] = changes.get("records", 1000)
    run: Run = draft.run()
    return run


def scatter(seed: int, count: int) -> list[float]:
    values: list[float] = np.random.default_rng(seed).lognormal(0, 0.02, count).tolist()
    return values


def test_a_planted_shift_is_found_at_its_run(healthy: Callable[[], Any]) -> None:
    runs = [
        run_at(healthy, minute, speed * (0.8 if minute >= 7 else 1.0))
        for minute, speed in enumerate(scatter(1, 14))
    ]
    (history,) = histories(reversed(runs), THROUGHPUT)
    assert [point.run for point in history.points] == [run.id for run in runs]
    (move,) = history.moves
    assert move.index == 7
    assert move.change == pytest.approx(-0.2, abs=0.03)
    assert not move.better


def test_each_case_has_a_history_of_its_own(healthy: Callable[[], Any]) -> None:
    runs = [run_at(healthy, 0), run_at(healthy, 1, records=5000)]
    assert [len(one.points) for one in histories(runs, THROUGHPUT)] == [1, 1]


def test_the_newest_run_of_each_case_stands_for_it(healthy: Callable[[], Any]) -> None:
    runs = [run_at(healthy, 0), run_at(healthy, 1), run_at(healthy, 2, records=5000)]
    assert [run.id for run in newest(runs)] == [run.id for run in runs[1:]]


def test_too_few_runs_say_that_they_are(healthy: Callable[[], Any]) -> None:
    runs = [
        run_at(healthy, minute, speed * (0.5 if minute >= 4 else 1.0))
        for minute, speed in enumerate(scatter(1, 8))
    ]
    (history,) = histories(runs, THROUGHPUT)
    assert (history.moves, history.could_be_seen) == ((), None)
    assert history_sentence(history) == (
        "Over 8 runs no change of the level of throughput can be seen: that takes 10 of them."
    )


def test_a_level_history_says_what_change_would_have_been_seen(
    healthy: Callable[[], Any],
) -> None:
    runs = [run_at(healthy, minute, speed) for minute, speed in enumerate(scatter(4, 12))]
    (history,) = histories(runs, THROUGHPUT)
    assert history.moves == ()
    assert history.could_be_seen == pytest.approx(0.07, abs=0.04)
    assert history_sentence(history).endswith(
        "% half-way would have been seen in 8 of 10 such histories."
    )


def changed(healthy: Callable[[], Any], minute: int, change: Callable[[Any], None]) -> Run:
    draft = healthy()
    draft.records = Records(draft.records.root, now=lambda: BEGAN + timedelta(minutes=minute))
    change(draft)
    run: Run = draft.run()
    return run


def test_a_history_says_where_its_servers_changed(healthy: Callable[[], Any]) -> None:
    def of_heap(heap: int) -> Callable[[Any], None]:
        def change(draft: Any) -> None:
            node = {"name": "node-1", "role": "peer", "cores": []}
            draft.testbed = {"observed": True, "system": "cassandra", "nodes": [node],
                             "heap_bytes": heap * 2**30}  # fmt: skip

        return change

    heaps = [1, 1, 8, 8]
    runs = [changed(healthy, minute, of_heap(heap)) for minute, heap in enumerate(heaps)]
    (history,) = histories(runs, THROUGHPUT)
    assert [change.index for change in history.environments] == [2]
    assert history_sentence(history).endswith(
        f" From {runs[2].id} on, the servers differ: servers.heap 1024 MiB against 8192 MiB."
    )


def more_clients(draft: Any) -> None:
    draft.plan["groups"][0]["clients"] = 16


def another_folder(draft: Any) -> None:
    draft.plan["name"] = "mine/a"


def another_rate(draft: Any) -> None:
    draft.plan["groups"][0]["arrival"] = {
        "process": "poisson", "rates": [{"at_ns": 0, "rate": 10_000.0}],
    }  # fmt: skip


@pytest.mark.parametrize("change", [more_clients, another_folder, another_rate])
def test_runs_that_differ_in_clients_folder_or_rate_are_not_put_together(
    healthy: Callable[[], Any], change: Callable[[Any], None]
) -> None:
    alike = [run_at(healthy, minute) for minute in range(2)]
    runs = [*alike, changed(healthy, 5, change)]
    assert [len(one.points) for one in histories(runs, THROUGHPUT)] == [2, 1]
    assert [len(row.figures.runs) for row in sequence_rows(runs)] in ([2, 1], [1, 2])
    assert len(newest(runs)) == 2
