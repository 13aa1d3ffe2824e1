"""The table of the sequence and the published figures beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvmark.analysis.verdict.cases import published_sequence, sequence_rows
from kvmark.records import Case, by_case

Draft = Any
Make = Callable[[], Draft]


def test_the_published_table_is_whole_and_consistent() -> None:
    figures = published_sequence()
    assert len(figures) == 7 * 2 * 4
    assert {store for _, store, _ in figures} == {"Redis", "RocksDB"}
    row = figures["A", "RocksDB", 1000]
    assert (row.runtime_ms, row.throughput) == (587.0, 1703.58)
    for one in figures.values():
        assert one.throughput == pytest.approx(one.records / one.runtime_ms * 1000, rel=0.001)


def test_repetitions_are_one_row_with_the_published_figures_beside_it(healthy: Make) -> None:
    (row,) = sequence_rows(healthy().run() for _ in range(3))
    assert row.case == Case("A", "RocksDB", 1000)
    assert len(row.figures.runs) == 3
    assert row.published is not None
    assert row.published.runtime_ms == 587.0


def test_rows_follow_the_order_of_the_published_sequence(healthy: Make) -> None:
    runs = []
    for name in ("e", "reload", "mine", "delete", "d", "f", "c", "b", "a", "load"):
        draft = healthy()
        draft.plan["name"] = f"ycsb/{name}"
        runs.append(draft.run())
    workloads = [row.case.workload for row in sequence_rows(runs)]
    assert workloads == ["load", "A", "B", "C", "F", "D", "delete", "reload", "E", "mine"]


def test_a_load_has_the_records_that_it_inserts(healthy: Make) -> None:
    draft = healthy()
    draft.plan["dataset"]["count"] = 0
    draft.plan["phases"][0]["groups"][0]["operations"] = 6000
    (case,) = by_case([draft.run()])
    assert case.records == 6000


def test_target_rates_are_cases_of_their_own_without_published_figures(
    healthy: Make, healthy_open: Make
) -> None:
    slow, fast = sequence_rows([healthy().run(), healthy_open().run()])
    assert (slow.case.target_rate, slow.published) == (10_000.0, None)
    assert fast.case.target_rate is None
    assert fast.published is not None
