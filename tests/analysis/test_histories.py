"""A figure over time, and the table of a sequence beside the published figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from kvmark.analysis.compare.history import histories
from kvmark.analysis.compare.selection import newest
from kvmark.analysis.verdict.cases import published_sequence, sequence_rows
from kvmark.records import Records, Run
from kvmark.report.views.comparison import history_sentence
from kvmark.spec.metric import THROUGHPUT

Make = Callable[[], Any]

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)


def at(minute: int) -> Callable[[Any], None]:
    """Lets a run begin in that minute."""

    def change(draft: Any) -> None:
        draft.records = Records(draft.records.root, now=lambda: BEGAN + timedelta(minutes=minute))

    return change


def scattered(made: Make, seed: int, count: int, shift: float = 1.0, since: int = 0) -> list[Run]:
    """A run a minute, with speeds that scatter by 2 % and shift at a run."""
    speeds = np.random.default_rng(seed).lognormal(0, 0.02, count)
    speeds[since:] *= shift
    return [made(at(minute), speed) for minute, speed in enumerate(speeds)]


def test_a_planted_shift_is_found_at_its_run(made: Make) -> None:
    runs = scattered(made, 1, 14, shift=0.8, since=7)
    (history,) = histories(reversed(runs), THROUGHPUT)
    assert [point.run for point in history.points] == [run.id for run in runs]
    (move,) = history.moves
    assert move.index == 7
    assert move.change == pytest.approx(-0.2, abs=0.03)
    assert not move.better


def test_a_level_history_says_what_change_would_have_been_seen(made: Make) -> None:
    (history,) = histories(scattered(made, 4, 12), THROUGHPUT)
    assert history.moves == ()
    assert history.could_be_seen == pytest.approx(0.07, abs=0.04)
    assert history_sentence(history).endswith(
        "% half-way would have been seen in 8 of 10 such histories."
    )


def test_a_history_says_where_its_servers_changed(made: Make) -> None:
    node = {"name": "node-1", "role": "peer", "cores": []}

    def of_heap(heap: int) -> Callable[[Any], None]:
        testbed = {"observed": True, "system": "cassandra", "nodes": [node],
                   "heap_bytes": heap * 2**30}  # fmt: skip
        return lambda draft: draft.testbed.update(testbed)

    runs = [made(at(minute), of_heap(heap)) for minute, heap in enumerate([1, 1, 8, 8])]
    (history,) = histories(runs, THROUGHPUT)
    assert [change.index for change in history.environments] == [2]
    assert history_sentence(history).endswith(
        f" From {runs[2].id} on, the servers differ: servers.heap 1024 MiB against 8192 MiB."
    )


POISSON = {"process": "poisson", "rates": [{"at_ns": 0, "rate": 10_000.0}]}


@pytest.mark.parametrize(
    "change",
    [
        lambda draft: draft.plan["dataset"].update(count=5000),
        lambda draft: draft.plan["groups"][0].update(clients=16),
        lambda draft: draft.plan.update(name="mine/a"),
        lambda draft: draft.plan["groups"][0].update(arrival=POISSON),
    ],
)
def test_runs_of_different_plans_differ_in_case(made: Make, change: Callable[[Any], None]) -> None:
    runs = [made(at(0)), made(at(1)), made(at(5), change)]
    assert [len(one.points) for one in histories(runs, THROUGHPUT)] == [2, 1]
    assert [len(row.figures.runs) for row in sequence_rows(runs)] in ([2, 1], [1, 2])
    assert [run.id for run in newest(runs)] == [run.id for run in runs[1:]]


@pytest.mark.parametrize(
    ("before", "after", "studies"),
    [
        # A shorter pass isn't filled up from the one before.
        (range(10), range(5), None),
        (range(3), range(2), None),
        # A study may make a repetition again after others.
        (range(3), (0, 2, 1), ("one", "two")),
    ],
)
def test_the_newest_pass_of_a_case_stands_for_it(
    made: Make, before: Iterable[int], after: Iterable[int], studies: tuple[str, str] | None
) -> None:
    """Runs of one command, a minute apart, each with its number."""

    def of_pass(repetitions: Iterable[int], minute: int, study: str | None) -> list[Run]:
        places = {
            repetition: {"study": {"id": study, "repetition": repetition}}
            if study
            else {"sequence": {"repetition": repetition, "workload": "A", "records": 1000}}
            for repetition in repetitions
        }
        return [
            made(at(minute + number), lambda draft, place=place: draft.spec.update(place))
            for number, place in enumerate(places.values())
        ]

    old = of_pass(before, 0, studies and studies[0])
    new = of_pass(after, 100, studies and studies[1])
    assert [run.id for run in newest([*old, *new])] == [run.id for run in new]


def test_the_published_table_is_whole_and_consistent() -> None:
    figures = published_sequence()
    assert len(figures) == 7 * 2 * 4
    assert {store for _, store, _ in figures} == {"Redis", "RocksDB"}
    row = figures["A", "RocksDB", 1000]
    assert (row.runtime_ms, row.throughput) == (587.0, 1703.58)
    for one in figures.values():
        assert one.throughput == pytest.approx(one.records / one.runtime_ms * 1000, rel=0.001)


def test_rows_follow_the_order_of_the_published_sequence(made: Make) -> None:
    names = ("e", "reload", "mine", "delete", "d", "f", "c", "b", "a", "load")
    runs = [made(lambda draft, name=name: draft.plan.update(name=f"ycsb/{name}")) for name in names]
    workloads = [row.case.workload for row in sequence_rows(runs)]
    assert workloads == ["load", "A", "B", "C", "F", "D", "delete", "reload", "E", "mine"]


def test_target_rates_have_no_published_figures(healthy: Make, healthy_open: Make) -> None:
    slow, fast = sequence_rows([healthy().run(), healthy_open().run()])
    assert (slow.case.target_rate, slow.published) == (10_000.0, None)
    assert fast.case.target_rate is None
    assert fast.published is not None
