"""Every published file and every tool's sample is imported, and its figures come back unchanged.

What is expected is read from the files a second time, in the plainest way that each allows.
"""

from __future__ import annotations

import csv
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from imports.samples import DATA, HERE, Keep, Read, figures, sample
from kvmark.analysis.summary.imported import imported_rows
from kvmark.frontends.cassandra_stress.output import relative_stderr
from kvmark.imports.recognition import read_file
from kvmark.records.histograms import decode

SPOTS: Mapping[str, Any] = tomllib.loads((HERE / "figures.toml").read_text())
FILES = sorted(path for path in DATA.glob("*/*") if path.is_file())
TABLES = sorted((DATA / "published").glob("*.csv"))
LOGS = sorted((DATA / "published").glob("*.log"))
FORMATS = {
    ".csv": "table", ".log": "cassandra-stress", "ycsb-a.txt": "ycsb-text",
    "db_bench.txt": "db_bench", "memtier.json": "memtier", "latte-report.json": "latte",
    "cql-stress-fixed.hlog": "hdr-log", "redis-benchmark.csv": "redis-benchmark",
}  # fmt: skip


def leaves(value: Any) -> Iterator[float]:
    """The numbers of a JSON value."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from leaves(part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def test_no_published_file_and_no_sample_is_missing_or_changed() -> None:
    # As sha256sum wrote them when the files came here.
    sums = [line.split() for line in (DATA / "SHA256SUMS").read_text().splitlines()]
    ours = {str(path.relative_to(DATA)): sha256(path.read_bytes()).hexdigest() for path in FILES}
    assert ours == {name: digest for digest, name in sums}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_file_is_recognised_by_what_it_holds_and_becomes_a_run_that_keeps_it_whole(
    path: Path, read: Read, imported: Keep
) -> None:
    expected = FORMATS.get(path.name) or FORMATS[path.suffix]
    assert read(path.read_bytes()).kind.code == expected
    file = read_file(path)
    run = imported(file)
    assert run.manifest.imported is not None
    assert run.manifest.imported.figures == file.figures
    assert run.manifest.imported.origin.file == path.name
    assert (run.path / "imported.txt").read_bytes() == path.read_bytes()
    assert imported_rows(run.manifest.imported)


def written_numbers(path: Path) -> set[float]:
    """The results in a file, in the plainest way that it allows."""
    text = path.read_bytes().decode()
    if path.suffix == ".json":
        document = json.loads(text)
        if "result" in document:
            # Samples are intervals, and the percentiles' own numbers of samples are always 100.
            return set(leaves({**document["result"], "log": []})) - {100}
        parts = [part for kind, part in document["ALL STATS"].items() if kind != "Runtime"]
        # Where nothing was done no time is a result.
        return {
            number for part in parts for number in leaves(part if part["Count"] else part["Count"])
        } | {number for part in parts for number in leaves(part["Time-Serie"])}
    patterns = {
        ".log": r"^(?:total,|[A-Z][\w .]+: )(.*)",
        "ycsb-a.txt": r"^\[[^\]]+\], .*, (.*)",
        "redis-benchmark.csv": r'^"[A-Z][^"]*",(.*)',
        "db_bench.txt": r"^(?:\w+ +: .* micros/op|Count:|Min:|Percentiles:).*",
    }
    if path.suffix == ".log":
        text = text[text.index("\ntotal,") :]
    lines = re.findall(patterns.get(path.name) or patterns[path.suffix], text, re.MULTILINE)
    found = re.findall(r"(?<![\w.:])\d[\d,]*(?:\.\d+)?(?![\d:])", "\n".join(lines))
    return {float(number.replace(",", "")) for number in found}


@pytest.mark.parametrize("path", [*LOGS, *DATA.glob("samples/*[!g]")], ids=lambda path: path.name)
def test_every_number_of_a_file_comes_back(path: Path) -> None:
    reading = read_file(path)
    kept = {one for each in reading.figures for one in (each.value, each.error, each.n)}
    kept |= {one for each in reading.intervals for one in each.written.values()}
    numbers = written_numbers(path)
    assert len(numbers) > 10
    assert numbers <= kept


@pytest.mark.parametrize("name", SPOTS)
def test_a_figure_has_its_operation_quantity_statistic_and_unit(name: str) -> None:
    reading = sample(name)
    workload = {"workload": "CassandraKeyValue", "writers": "192", "readers": "16"}
    case = next((at for at, case in enumerate(reading.cases) if case.labels == workload), 0)
    found = {
        " ".join(filter(None, key)): [figure.value, figure.unit]
        for key, figure in figures(reading, case).items()
    }
    assert {key: found.get(key, []) for key in SPOTS[name]} == SPOTS[name]


def test_tools_and_systems_are_known_by_their_output() -> None:
    names = ("ycsb-a.txt", "db_bench.txt", "leveldb.txt")
    ycsb, db_bench, leveldb = (sample(name) for name in names)
    assert (ycsb.tool, ycsb.version) == ("YCSB", "0.18.0-SNAPSHOT")
    assert (ycsb.system, ycsb.system_version) == ("RocksDB", "")
    assert (db_bench.system, db_bench.system_version) == ("RocksDB", "7.8.3")
    assert (leveldb.system, leveldb.system_version) == ("LevelDB", "1.23")
    assert [case.labels["benchmark"] for case in db_bench.cases][:2] == ["fillseq", "fillrandom"]
    status = [each for each in ycsb.intervals if each.operation == "UPDATE"]
    assert (status[0].count, status[0].times["service"]["p99.9"]) == (505, 1_471_000)


@pytest.mark.parametrize("name", ["db_bench.txt", "memtier.json", "latte-report.json"])
def test_a_histogram_has_as_many_operations_as_its_case(name: str) -> None:
    reading = sample(name)
    for one in reading.histograms:
        found = figures(reading, one.case)
        count = found.get((None, "operations in the histogram", "value"))
        count = count or found.get((one.operation, "operations", "value"))
        assert count is None or sum(one.count) == count.value


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name)
def test_every_number_of_a_table_comes_back_with_its_row(path: Path) -> None:
    reading = read_file(path)
    by_labels: dict[frozenset[tuple[str, str]], list[float]] = {}
    for figure in reading.figures:
        labels = frozenset(reading.cases[figure.case].labels.items())
        by_labels.setdefault(labels, []).append(figure.value)
    label_names = {name for case in reading.cases for name in case.labels}
    for row in csv.DictReader(path.read_text().splitlines()):
        found = by_labels[frozenset((name, row[name]) for name in label_names)]
        for name in row.keys() - label_names - {"metric", "operation"}:
            parts = reversed(row[name].split(":"))  # Hours, minutes and seconds.
            expected = sum(float(part) * 60**place for place, part in enumerate(parts))
            assert expected in found, (row, name)


def test_a_bare_number_of_the_scale_test_has_no_unit_and_is_no_runtime() -> None:
    reading = sample("hydra-cassandra-3.0.6.csv")
    bare = [figure for figure in reading.figures if figure.quantity == "operation_time"]
    clocks = [figure for figure in reading.figures if figure.quantity == "runtime"]
    assert {figure.unit for figure in bare} == {""}
    assert {figure.unit for figure in clocks} == {"s"}
    assert len(bare) + len(clocks) == len(reading.cases)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_every_row_of_a_cassandra_stress_log_is_an_interval(path: Path, imported: Keep) -> None:
    run = imported(read_file(path))
    rows = [line.split(",") for line in path.read_text().splitlines() if line.startswith("total,")]
    assert run.written.height == len(rows) == run.intervals.height
    for row, written in zip(rows, run.written.iter_rows(), strict=True):
        assert list(written[-len(row) + 1 :]) == [float(cell) for cell in row[1:]]
    assert sum(run.intervals["count"]) == int(rows[-1][1])


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_a_logs_own_rates_meet_its_stop_rule_where_the_log_did(path: Path, imported: Keep) -> None:
    written = imported(read_file(path)).written
    # The last line is what was left of an interval when the rule had ended the run.
    rates = [
        row["row/s"] / (1 - min(row["max"] / 1000, 0.9))
        for row in list(written.iter_rows(named=True))[:-1]
    ]
    theirs = written["stderr"][-2]
    assert relative_stderr(rates) == pytest.approx(theirs, rel=0.12)
    assert theirs < 0.02


def test_every_second_and_sample_is_an_interval(imported: Keep) -> None:
    file = sample("memtier.json")
    parts = json.loads(file.source.data)["ALL STATS"]
    seconds = [
        row for kind in parts if kind != "Runtime" for row in parts[kind]["Time-Serie"].values()
    ]
    written = imported(file).written.drop("case", "operation").to_dicts()
    told = [{name: value for name, value in row.items() if value is not None} for row in written]
    assert sorted(map(str, told)) == sorted(map(str, seconds))
    file = sample("latte-report.json")
    log = json.loads(file.source.data)["result"]["log"]
    whole = [each for each in file.intervals if each.operation is None]
    assert [each.count for each in whole] == [sample["cycle_count"] for sample in log]
    assert [each.times["service"]["max"] for each in whole] == pytest.approx(
        [sample["cycle_latency"]["percentiles"][-1]["value"] * 1e6 for sample in log]
    )


def test_every_histogram_of_a_log_comes_back(imported: Keep) -> None:
    path = DATA / "samples/cql-stress-fixed.hlog"
    file = read_file(path)
    lines = [line for line in path.read_text().splitlines() if line.startswith("Tag=")]
    assert len(file.intervals) == len(lines)
    for line, interval in zip(lines, file.intervals, strict=True):
        tag, start, length, largest, encoded = line.split(",")
        theirs = HdrHistogram.decode(encoded)
        assert interval.count == theirs.get_total_count()
        assert interval.start_ns == round(float(start) * 1e9)
        assert interval.end_ns - interval.start_ns == pytest.approx(float(length) * 1e9, abs=2)
        assert interval.written["Interval_Max"] == float(largest)
        (time,) = interval.times
        assert tag == f"Tag=WRITE-{ {'service': 'st', 'response': 'rt', 'wait': 'wt'}[time] }"
    for time, end in (("service", "-st"), ("response", "-rt"), ("wait", "-wt")):
        (histogram,) = (each for each in file.histograms if each.time == time)
        counts = [decode(line.split(",")[4]) for line in lines if f"{end}," in line]
        assert sum(histogram.count) == sum(part.n for part in counts)
    run = imported(file)
    assert (run.path / "histograms.hlog").read_bytes() == path.read_bytes()
    assert set(run.intervals["operation"]) == {"WRITE", "TOTAL"}
    assert run.intervals.height == 40
