"""From recorded runs to the answers, pages and texts of a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvmark.records import Header, Records, Run
from kvmark.records.histograms import encode
from kvmark.report.format import html
from kvmark.report.views.gather import run_answer, run_answers, sequence_answer
from kvmark.report.views.pages import run_page, runs_page, sequence_page
from kvmark.report.views.run import run_text
from kvmark.report.views.sequence import sequence_text
from kvmark.stats import Counts
from runs_on_disk import close

SECOND = 1_000_000_000
OPERATIONS = 10_000


def engine_record(window_ns: int) -> dict[str, Any]:
    values = [10_000 + 10 * n for n in range(OPERATIONS)]
    counts = Counts.of(values)
    named = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}
    time = {
        "min": values[0], "mean": 60_000.0, "max": values[-1], "stddev": 29_000.0,
        "histogram": encode(counts), **{name: counts.quantile(q) for name, q in named.items()},
    }  # fmt: skip
    total = {
        "phase": 0, "group": "clients", "operation": "READ", "part": False, "outcome": "ok",
        "count": OPERATIONS, "in_window": OPERATIONS, "rows": OPERATIONS,
        "service": time, "response": time, "wait": time,
    }  # fmt: skip
    group = {"group": "clients", "issued": OPERATIONS, "completed": OPERATIONS, "ok": OPERATIONS}
    phase = {
        "index": 0, "name": "measure", "start_ns": 0, "end_ns": window_ns,
        "stopped_by": "operations", "groups": [group],
    }  # fmt: skip
    return {
        "started_wall_ns": 1_772_359_200 * SECOND,
        "system": {"system": "RocksDB", "version": "10.4.2", "configuration": {"wal": "on"}},
        "capabilities": {"execution": "blocking", "embedded": True},
        "clock": {"source": "tsc", "stamp_ns": 11.0, "resolution_ns": 1},
        "phases": [phase],
        "totals": [total],
    }


def plan(workload: str, records: int, rate: float | None = None) -> dict[str, Any]:
    arrival: dict[str, Any] = {"process": "closed", "think_time_ns": 0}
    if rate is not None:
        arrival = {"process": "uniform", "rates": [{"at_ns": 0, "rate": rate}]}
    group = {
        "name": "clients", "clients": 1, "arrival": arrival,
        "mix": [{"kind": "read", "weight": 1.0}],
    }  # fmt: skip
    return {
        "name": f"ycsb/{workload}",
        "seeds": {"schedule": 1, "keys": 2, "values": 3, "mix": 4},
        "dataset": {"count": records, "fields": {"count": 10, "length": {"size": 100}}},
        "groups": [group],
        "phases": [{"name": "measure", "groups": [{"group": 0, "operations": OPERATIONS}]}],
    }


def recorded(
    records: Records, workload: str, size: int, window_ns: int = SECOND, rate: float | None = None
) -> Run:
    folder = records.new(f"ycsb-{workload}")
    host = {"cores": 4, "disks": [{"name": "a"}]}
    folder.begin(
        Header(
            command=("kvmark", "ycsb"),
            plan=plan(workload, size, rate),
            host=host,
            versions={"kvmark": "0.1.0"},
        )
    )
    rows = [
        {
            "phase": 0, "phase_name": "measure", "drain": False, "group": "clients", "start_ns": 0,
            "end_ns": window_ns, "part": False, "operation": operation, "outcome": outcome,
            "count": OPERATIONS, "response_ns_p99": 109_000,
        }
        for operation, outcome in (("TOTAL", "any"), ("READ", "ok"))
    ]  # fmt: skip
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder.path / "intervals.jsonl").write_text(lines)
    return close(folder, engine_record(window_ns))


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """Workloads A and C at two sizes, twice each."""
    records = Records(tmp_path / "runs")
    return [
        recorded(records, workload, size, SECOND + repetition * SECOND // 10)
        for workload in ("a", "c")
        for size in (1_000, 10_000)
        for repetition in range(2)
    ]


def test_a_sequence_has_a_row_per_case_and_curves_at_its_largest_size(runs: list[Run]) -> None:
    answer = sequence_answer(runs)
    assert answer.title == "YCSB on RocksDB"
    assert answer.question == (
        "A and C with 1,000 and 10,000 records; closed model, 1 client; each case 2 times."
    )
    cases = [(row.case.workload, row.case.records) for row in answer.rows]
    assert cases == [("A", 1_000), ("A", 10_000), ("C", 1_000), ("C", 10_000)]
    curves = [(curve.panel, curve.time) for curve in answer.curves]
    assert curves == [(name, time) for name in "AC" for time in ("response", "service")]
    assert "10.4.2" in html(sequence_page(answer))
    assert "17,953" in sequence_text(answer, 120).plain


def test_a_sequence_names_its_runs_and_keeps_a_plan_per_case(runs: list[Run]) -> None:
    documents = sequence_answer(runs).provenance.documents
    assert sum(title.startswith("Plan of") for title in documents) == 4
    ids = documents["Runs of each case"]
    assert isinstance(ids, dict)
    assert sorted(run for of_case in ids.values() for run in of_case) == sorted(r.id for r in runs)


def test_a_sequence_at_targets_draws_response_time_against_throughput(tmp_path: Path) -> None:
    records = Records(tmp_path / "runs")
    offered = [recorded(records, "a", 1_000, rate=rate) for rate in (1_000.0, 2_000.0, None)]
    figure = sequence_page(sequence_answer(offered)).figures[0]
    assert figure.name == "throughput-latency"
    assert figure.data["series"].unique().sort().to_list() == ["RocksDB p50", "RocksDB p99"]
    assert len(figure.data) == 6
    assert "<svg" in figure.svg()


def test_a_run_has_its_request_its_total_rows_and_a_curve_per_time(runs: list[Run]) -> None:
    answer = run_answer(runs[0], page_runs=1)
    assert answer.intervals["operation"].unique().to_list() == ["TOTAL"]
    curves = [(curve.panel, curve.time) for curve in answer.curves]
    assert curves == [("READ", "response"), ("READ", "service")]
    assert {fact.label: fact.text for fact in answer.request} == {
        "Workload": "ycsb/a, 1,000 records of 10 fields of 100 bytes",
        "Load": "closed model, 1 client",
        "Phases": "measure 10,000 operations",
    }
    assert runs[0].id in html(run_page(answer))


def test_a_text_of_a_run_has_charts_of_the_terminal_s_width(runs: list[Run]) -> None:
    answer = run_answer(runs[0], text_width=120)
    assert answer.curves == ()
    text = run_text(answer, 120).plain
    assert "10,000 ops/s" in text
    assert "Response time\n" in text


def test_many_runs_keep_what_their_page_shows(runs: list[Run]) -> None:
    one, eight, nine, many = (run_answers(runs[:1], count)[0] for count in (1, 8, 9, 51))
    assert [bool(answer.response_quantiles) for answer in (one, eight, nine)] == [False, True, True]
    # The frames of a course that isn't read have no columns.
    assert [answer.course.spread.width > 0 for answer in (one, eight, nine)] == [True, True, False]
    assert nine.intervals.is_empty()
    assert nine.curves
    assert not many.curves
    assert [part.name for part in runs_page(run_answers(runs[:2], 2)).parts] == [
        "side-by-side", "run-1", "run-2"
    ]  # fmt: skip


def test_no_run_makes_no_sequence() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        sequence_answer([])
