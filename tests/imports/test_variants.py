"""Every variant of a tool's output that its versions and settings make."""

from __future__ import annotations

import json

import pytest

from imports.samples import Keep, Read, figures, path_of, sample
from kvmark.analysis.summary.metrics import case_throughput
from kvmark.records.histograms import encode
from kvmark.stats import Counts

STRESS_3 = path_of("cassandra-stress-3.11.log").read_text()
OVERALL = """\
[OVERALL], RunTime(ms), 1000
[OVERALL], Throughput(ops/sec), {operations}.0
"""
READS = """\
[READ], Operations, 6
[READ], AverageLatency(us), 2500.0
{more}[READ], MinLatency(us), 1000
[READ], MaxLatency(us), 5000
[READ], 95thPercentileLatency(us), 5000
[READ], 99thPercentileLatency(us), 5000
[READ], Return=OK, 6
"""


def ycsb(more: str = "", buckets: str = "", operations: int = 6) -> str:
    return OVERALL.format(operations=operations) + READS.format(more=more) + buckets


def test_ycsbs_hdrhistogram_buckets_become_a_histogram(read: Read) -> None:
    text = ycsb(buckets="[READ], 1000, 2.0\n[READ], 2500, 3.0\n[READ], 5000, 1.0\n")
    (histogram,) = read(text).histograms
    assert histogram.low_ns == (1_000_000, 2_500_000, 5_000_000)
    assert histogram.count == (2, 3, 1)


def test_ycsbs_histogram_has_buckets_of_a_millisecond_and_a_variance(read: Read) -> None:
    text = ycsb(
        more="[READ], LatencyVariance(us), 7.5\n",
        buckets="[READ], 0, 0\n[READ], 1, 5\n[READ], 2, 1\n[READ], >3, 0\n",
    )
    reading = read(text)
    (histogram,) = reading.histograms
    assert histogram.low_ns == (1_000_000, 2_000_000)
    assert histogram.high_ns == (1_999_999, 2_999_999)
    assert figures(reading)["READ", "service variance", "value"].value == 7.5


def test_a_ycsb_histogram_with_operations_beyond_its_end_is_left_out(
    read: Read,
) -> None:
    text = ycsb(buckets="[READ], 0, 2\n[READ], 1, 3\n[READ], >2, 1\n")
    reading = read(text)
    assert not reading.histograms
    assert "1 operations of READ lie beyond" in reading.notes[0]


def test_ycsbs_timeseries_becomes_intervals(read: Read, imported: Keep) -> None:
    file = read(ycsb(buckets="[READ], 0, 2500.5\n[READ], 1000, NaN\n[READ], 2000, 1200.25\n"))
    first, second, third = file.intervals
    assert first.times == {"service": {"mean": 2_500_500.0}}
    assert (second.times, second.count) == ({}, None)
    assert (third.start_ns, third.end_ns) == (2_000_000_000, 3_000_000_000)
    run = imported(file)
    assert run.written["mean us"].to_list() == [2500.5, None, 1200.25]


def test_ycsbs_read_modify_writes_are_counted_once(read: Read) -> None:
    parts = READS.format(more="")
    text = ycsb() + parts.replace("[READ]", "[UPDATE]")
    text += parts.replace("[READ]", "[READ-MODIFY-WRITE]")
    assert read(text).figures


@pytest.mark.parametrize("array", [True, False])
def test_ycsbs_json_has_the_figures_of_its_text(read: Read, *, array: bool) -> None:
    text = ycsb()
    rows = [line.split(", ") for line in text.splitlines()]
    objects = [
        {"metric": metric[1:-1], "measurement": name, "value": json.loads(value)}
        for metric, name, value in rows
    ]
    parts = [json.dumps(each, indent=1) for each in objects]
    document = json.dumps(objects, indent=2) if array else "\n".join(parts)
    file = read(document)
    assert file.kind.code == "ycsb-json"
    assert file.figures == read(text).figures


def test_each_thread_count_of_cassandra_stress_is_a_case_and_its_summary_is_not(read: Read) -> None:
    second = STRESS_3.replace("with 4 threads", "with 8 threads")
    table = STRESS_3.splitlines()[3:7]
    summary = "\n".join(["           id, " + table[0], *("4 threadCount, " + t for t in table[1:])])
    reading = read(f"{STRESS_3}Sleeping for 15s\n{second}{summary}\nEND\n")
    assert [case.labels["threads"] for case in reading.cases] == ["4", "8"]
    assert len(reading.intervals) == 12


def test_means_have_their_errors_and_numbers_of_observations() -> None:
    means, console = (
        figures(sample(name)) for name in ("db_bench-means.txt", "yb-console-json.log")
    )
    throughput = means[None, "throughput", "value"]
    assert (throughput.error, throughput.n) == (1200, 5)
    assert console["READ", "service", "mean"].n == 1420882


def test_intervals_of_cassandra_stress_have_the_operations_since_the_last(read: Read) -> None:
    reading = sample("cassandra-stress-2.1.log")
    assert [each.count for each in reading.intervals] == [400, 600]
    assert [each.written["adj row/s"] for each in reading.intervals] == [405, 606]
    assert reading.cases[0].labels["threads"] == "4"
    counts = {(each.operation, each.count) for each in read(STRESS_3 + "END\n").intervals}
    assert counts == {
        ("READ", 200), ("WRITE", 100), (None, 300), ("READ", 1200), ("WRITE", 500), (None, 1700),
    }  # fmt: skip


def test_the_console_log_of_the_sample_applications_gives_intervals() -> None:
    reading = sample("yb-console.log")
    assert reading.cases[0].labels == {
        "workload": "CassandraKeyValue", "readers": "24", "writers": "2",
    }  # fmt: skip
    reads = [each for each in reading.intervals if each.operation == "READ"]
    # What the first line counted before its own five seconds isn't told.
    assert [each.count for each in reads] == [None, 861875]
    assert reads[0].start_ns == 3_840_000_000
    assert reads[1].times == {"service": {"mean": 860_000.0}}
    idle = next(each for each in reading.intervals if each.operation == "WRITE")
    assert idle.times == {}


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_a_table_may_be_separated_otherwise(read: Read, delimiter: str) -> None:
    text = "system,clients,throughput_ops_s,p99_ms\nRedis,8,1200.5,0.75\n"
    (rate, p99) = read(text.replace(",", delimiter)).figures
    assert (rate.value, p99.value, p99.statistic) == (1200.5, 0.75, "p99")


def test_the_results_of_several_memtier_runs_are_cases(read: Read) -> None:
    part = {
        "Count": 10,
        "Ops/sec": 5.0,
        "Average Latency": 1.5,
        "Percentile Latencies": {"p99.00": 2.0},
    }
    names = ("BEST RUN RESULTS", "WORST RUN RESULTS", "AGGREGATED AVERAGE RESULTS (3 runs)")
    document = {"configuration": {"clients": 8}, **{name: {"Totals": part} for name in names}}
    reading = read(json.dumps(document))
    assert [case.labels["result"] for case in reading.cases] == list(names)


def test_ycsbs_histogram_logs_are_in_microseconds(read: Read) -> None:
    lines = path_of("cql-stress-fixed.hlog").read_text().splitlines()
    rows = [line.partition(",")[2] for line in lines if line.startswith("Tag=WRITE-st")]
    plain = read("\n".join(rows) + "\n")
    theirs = read("\n".join(["#[Logging for: Intended-READ]", *rows]) + "\n")
    assert {each.operation for each in plain.intervals} == {None}
    assert {each.operation for each in theirs.intervals} == {"READ"}
    ours, micro = plain.histograms[0], theirs.histograms[0]
    assert micro.time == "response"
    assert micro.low_ns == tuple(low * 1000 for low in ours.low_ns)


def test_a_throughput_without_intervals_has_no_error_and_one_with_them_has(
    read: Read, imported: Keep
) -> None:
    alone = case_throughput([imported(read(ycsb()))])
    assert (alone.value, alone.low) == (6.0, None)
    long = case_throughput([imported(sample("cassandra-stress-direct.log"))])
    assert long.value == 15072
    assert long.error is not None
    # Its rate rises for the first fifth.
    assert 3000 < long.error < 6000


def test_the_generators_own_lag_in_a_log_of_kvmark_is_no_operation(read: Read) -> None:
    text = "#[Histogram log format version 1.3]\n"
    for tag in ("READ-st", "generator-lag", "load:generator-lag"):
        text += f"Tag={tag},0.0,1.0,0.1,{encode(Counts.of([1000, 2000]))}\n"
    reading = read(text)
    assert [(each.operation, each.time) for each in reading.histograms] == [("READ", "service")]
    assert len(reading.intervals) == 1
