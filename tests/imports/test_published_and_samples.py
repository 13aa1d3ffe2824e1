"""Every published file and every tool's sample is imported, and its figures come back unchanged.

What is expected is read from the files a second time, in the plainest way that each allows.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from kvmark.analysis.summary.imported import imported_rows
from kvmark.frontends.cassandra_stress.output import relative_stderr
from kvmark.imports.recognition import ReadFile, read_file
from kvmark.records import Run
from kvmark.records.histograms import decode

DATA = Path(__file__).parent / "data"
FILES = sorted(path for path in DATA.glob("*/*") if path.is_file())
TABLES = sorted((DATA / "published").glob("*.csv"))
LOGS = sorted((DATA / "published").glob("*.log"))
FORMATS = {
    ".csv": "table",
    ".log": "cassandra-stress",
    "ycsb-a.txt": "ycsb-text",
    "db_bench.txt": "db_bench",
    "memtier.json": "memtier",
    "latte-report.json": "latte",
    "cql-stress-fixed.hlog": "hdr-log",
    "redis-benchmark.csv": "redis-benchmark",
}


def values(file: ReadFile) -> list[float]:
    return [figure.value for figure in file.reading.figures]


def leaves(value: Any) -> Iterator[float]:
    """The numbers of a JSON value."""
    if isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def test_no_published_file_and_no_sample_is_missing_or_changed() -> None:
    # As sha256sum wrote them when the files came here.
    sums = [line.split() for line in (DATA / "SHA256SUMS").read_text().splitlines()]
    ours = {str(path.relative_to(DATA)): sha256(path.read_bytes()).hexdigest() for path in FILES}
    assert ours == {name: digest for digest, name in sums}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_file_is_recognised_by_what_it_holds(
    path: Path, read: Callable[[bytes], ReadFile]
) -> None:
    expected = FORMATS.get(path.name) or FORMATS[path.suffix]
    assert read(path.read_bytes()).kind.code == expected


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_file_becomes_a_run_that_keeps_it_whole(
    path: Path, imported: Callable[[ReadFile], Run]
) -> None:
    file = read_file(path)
    run = imported(file)
    assert run.manifest.imported is not None
    assert run.manifest.imported.figures == file.reading.figures
    assert run.manifest.imported.origin.file == path.name
    assert (run.path / "imported.txt").read_bytes() == path.read_bytes()
    assert imported_rows(run.manifest.imported)


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name)
def test_every_number_of_a_table_comes_back_with_its_row(path: Path) -> None:
    reading = read_file(path).reading
    by_labels: dict[frozenset[tuple[str, str]], list[float]] = {}
    for figure in reading.figures:
        labels = dict(reading.cases[figure.case].labels)
        by_labels.setdefault(frozenset(labels.items()), []).append(figure.value)
    label_names = {name for case in reading.cases for name in case.labels}
    for row in csv.DictReader(path.read_text().splitlines()):
        found = by_labels[frozenset((n, row[n]) for n in label_names)]
        told = {name: cell for name, cell in row.items() if name not in label_names}
        for name, cell in told.items():
            if name in ("metric", "operation"):
                continue
            hours = re.fullmatch(r"(\d+):(\d+):(\d+)", cell)
            expected = (
                float(cell)
                if hours is None
                else 3600 * int(hours[1]) + 60 * int(hours[2]) + int(hours[3])
            )
            assert expected in found, (row, name)


def test_the_published_applications_keep_operation_quantity_and_statistic(
    figures: Callable[..., Any],
) -> None:
    reading = read_file(DATA / "published/yugabyte-1.0.7.csv").reading
    case = next(
        number for number, case in enumerate(reading.cases)
        if case.labels == {"workload": "CassandraKeyValue", "writers": "192", "readers": "16"}
    )  # fmt: skip
    found = figures(reading, case)
    assert found["READ", "throughput", "mean"].value == 19798.69
    assert found["WRITE", "service", "p99"].value == 2.58
    assert found["WRITE", "service", "p99"].unit == "ms"
    assert found[None, "Cluster node CPU, user", "median"].value == 64.40
    assert found[None, "Cluster node CPU, user", "median"].unit == "%"


def test_a_bare_number_of_the_scale_test_has_no_unit_and_is_no_runtime() -> None:
    reading = read_file(DATA / "published/hydra-cassandra-3.0.6.csv").reading
    bare = [figure for figure in reading.figures if figure.quantity == "operation_time"]
    clocks = [figure for figure in reading.figures if figure.quantity == "runtime"]
    assert {figure.unit for figure in bare} == {""}
    assert {figure.unit for figure in clocks} == {"s"}
    assert len(bare) + len(clocks) == len(reading.cases)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_every_line_and_every_result_of_a_cassandra_stress_log_comes_back(
    path: Path, imported: Callable[[ReadFile], Run], figures: Callable[..., Any]
) -> None:
    file = read_file(path)
    run = imported(file)
    lines = path.read_text().splitlines()
    head = next(line for line in lines if line.startswith("type "))
    header = [name.strip() for name in head.replace("type ", "type,").split(",")]
    rows = [line.split(",") for line in lines if line.startswith("total,")]
    assert run.written.height == len(rows) == run.intervals.height
    for row, written in zip(rows, run.written.iter_rows(named=True), strict=True):
        expected = {name: float(cell) for name, cell in list(zip(header, row, strict=True))[1:]}
        assert {name: float(written[name]) for name in expected} == expected
    assert sum(run.intervals["count"]) == int(rows[-1][1])
    results = lines[lines.index("Results:") :]
    told = {
        float(n.replace(",", ""))
        for line in results
        for n in re.findall(r": +([\d,.]*\d)(?!:)", line)
    }
    assert told <= {float(value) for value in values(file)} | {0.0}
    found = figures(file.reading)
    rate = float(results[1].split()[3].replace(",", ""))
    assert found[None, "throughput", "value"].value == rate
    assert found["WRITE", "throughput", "value"].value == rate


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_a_logs_own_rates_meet_its_stop_rule_where_the_log_did(
    path: Path, imported: Callable[[ReadFile], Run]
) -> None:
    written = imported(read_file(path)).written
    # The last line is what was left of an interval when the rule had ended the run.
    rates = [
        row["row/s"] / (1 - min(row["max"] / 1000, 0.9))
        for row in list(written.iter_rows(named=True))[:-1]
    ]
    theirs = written["stderr"][-2]
    assert relative_stderr(rates) == pytest.approx(theirs, rel=0.12)
    assert theirs < 0.02


def test_every_measurement_of_ycsb_comes_back(figures: Callable[..., Any]) -> None:
    path = DATA / "samples/ycsb-a.txt"
    file = read_file(path)
    told = [
        float(line.rpartition(", ")[2])
        for line in path.read_text().splitlines()
        if re.match(r"\[[^\]]+\], ", line)
    ]
    assert sorted(told) == sorted(values(file))
    found = figures(file.reading)
    assert found["READ", "service", "p95"].value == 24
    assert found["UPDATE", "service", "mean"].value == 36.53663366336634
    assert found[None, "throughput", "value"].value == 7575.757575757576
    assert (file.reading.tool, file.reading.version) == ("YCSB", "0.18.0-SNAPSHOT")
    assert (file.reading.system, file.reading.system_version) == ("RocksDB", "")
    status = [each for each in file.reading.intervals if each.operation == "UPDATE"]
    assert (status[0].count, status[0].times["service"]["p99.9"]) == (505, 1_471_000)


def test_every_column_of_redis_benchmark_comes_back(figures: Callable[..., Any]) -> None:
    path = DATA / "samples/redis-benchmark.csv"
    reading = read_file(path).reading
    for number, row in enumerate(csv.DictReader(path.read_text().splitlines())):
        assert reading.cases[number].labels == {"test": row["test"]}
        found = {key: figure.value for key, figure in figures(reading, number).items()}
        names = {"mean": "avg"}
        assert found == {(None, "throughput", "value"): float(row["rps"])} | {
            (None, "service", name): float(row[f"{names.get(name, name)}_latency_ms"])
            for name in ("mean", "min", "p50", "p95", "p99", "max")
        }


def test_every_figure_and_bucket_of_db_bench_comes_back(figures: Callable[..., Any]) -> None:
    path = DATA / "samples/db_bench.txt"
    reading = read_file(path).reading
    lines = path.read_bytes().decode().split("\n")
    benchmarks = [line for line in lines if " micros/op" in line]
    assert [case.labels["benchmark"] for case in reading.cases] == [
        line.split()[0] for line in benchmarks
    ]
    for case, line in enumerate(benchmarks):
        found = {figure.value for figure in figures(reading, case).values()}
        told = re.findall(r"(?<![\w.])\d+(?:\.\d+)?", line)
        assert {float(n) for n in told} <= found
        below = lines[lines.index(line) : lines.index(line) + 6]
        summary = [part for part in below if part.startswith(("Count:", "Min:", "Percentiles:"))]
        plain = [n for part in summary for n in re.findall(r": +(\d+(?:\.\d+)?)", part)]
        assert len(plain) == 11
        assert {float(n) for n in plain} <= found
    for case, histogram in enumerate(reading.histograms):
        assert (
            sum(histogram.count)
            == figures(reading, case)[None, "operations in the histogram", "value"].value
        )
    assert (reading.system, reading.system_version) == ("RocksDB", "7.8.3")


def test_every_number_of_memtiers_results_comes_back(
    imported: Callable[[ReadFile], Run], figures: Callable[..., Any]
) -> None:
    path = DATA / "samples/memtier.json"
    file = read_file(path)
    document = json.loads(path.read_text())["ALL STATS"]
    run = imported(file)
    found = figures(file.reading)
    for kind, part in document.items():
        if kind == "Runtime":
            continue
        series, percentiles = part.pop("Time-Serie"), part.pop("Percentile Latencies")
        operation = None if kind == "Totals" else kind
        mine = {figure.value for key, figure in found.items() if key[0] == operation}
        if part["Count"]:
            assert set(leaves(part)) | set(leaves(percentiles)) <= mine
            histogram = next(h for h in file.reading.histograms if h.operation == operation)
            assert sum(histogram.count) == part["Count"]
        else:
            assert not any(key[0] == operation and key[1] == "service" for key in found)
        rows = run.written.filter(pl_operation(operation)).to_dicts()
        assert [
            {k: v for k, v in row.items() if k in second and v is not None}
            for row, second in zip(rows, series.values(), strict=True)
        ] == [{k: v for k, v in second.items() if v is not None} for second in series.values()]


def pl_operation(operation: str | None) -> Any:
    import polars as pl

    column = pl.col("operation")
    return column.is_null() if operation is None else column == operation


def test_every_number_of_lattes_report_comes_back(figures: Callable[..., Any]) -> None:
    path = DATA / "samples/latte-report.json"
    file = read_file(path)
    document = json.loads(path.read_text())
    result = document["result"]
    log = result.pop("log")
    found = figures(file.reading)
    mine = (
        {figure.value for figure in found.values()}
        | {figure.error for figure in found.values()}
        | {figure.n for figure in found.values()}
    )
    # The percentiles' own numbers of samples are always 100.
    assert set(leaves(result)) <= mine | {100}
    assert found["write", "service", "p99.9"].value == pytest.approx(
        result["cycle_latency_by_fn"]["write"]["percentiles"][12]["value"]
    )
    whole = [each for each in file.reading.intervals if each.operation is None]
    assert [each.count for each in whole] == [sample["cycle_count"] for sample in log]
    assert [each.times["service"]["max"] for each in whole] == pytest.approx(
        [sample["cycle_latency"]["percentiles"][-1]["value"] * 1e6 for sample in log]
    )


def test_every_histogram_of_a_log_comes_back(imported: Callable[[ReadFile], Run]) -> None:
    path = DATA / "samples/cql-stress-fixed.hlog"
    file = read_file(path)
    lines = [line for line in path.read_text().splitlines() if line.startswith("Tag=")]
    assert len(file.reading.intervals) == len(lines)
    for line, interval in zip(lines, file.reading.intervals, strict=True):
        tag, start, length, largest, encoded = line.split(",")
        theirs = HdrHistogram.decode(encoded)
        assert interval.count == theirs.get_total_count()
        assert interval.start_ns == round(float(start) * 1e9)
        assert interval.end_ns - interval.start_ns == pytest.approx(float(length) * 1e9, abs=2)
        assert interval.written["Interval_Max"] == float(largest)
        (time,) = interval.times
        assert tag == f"Tag=WRITE-{ {'service': 'st', 'response': 'rt', 'wait': 'wt'}[time] }"
    for time, end in (("service", "-st"), ("response", "-rt"), ("wait", "-wt")):
        (histogram,) = (each for each in file.reading.histograms if each.time == time)
        counts = [decode(line.split(",")[4]) for line in lines if f"{end}," in line]
        assert sum(histogram.count) == sum(part.n for part in counts)
    run = imported(file)
    assert (run.path / "histograms.hlog").read_bytes() == path.read_bytes()
    assert set(run.intervals["operation"]) == {"WRITE", "TOTAL"}
    assert run.intervals.height == 40
