"""What a node's log and its exporter's page are read as. No server is needed."""

from pathlib import Path

import pytest

from kvmark.testbed.cassandra.describe import counted, fingerprint
from kvmark.testbed.cassandra.health import ServerLogLine, reason_in, refused_setting
from kvmark.testbed.system import Counted

STARTS = "INFO  [main] 2026-01-01 00:00:00,000 CassandraDaemon.java:629 - Hostname: here:9042\n"
REFUSED = (
    "Exception (org.apache.cassandra.exceptions.ConfigurationException) encountered during"
    " startup: "
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def test_a_failed_start_is_told_before_the_lines_of_its_trace(log: Path) -> None:
    log.write_text(f"one\n{REFUSED}concurrent_reads must be at least 2, but was 1\n\tat here\n")
    assert reason_in(log) == ServerLogLine(2, "concurrent_reads must be at least 2, but was 1")
    assert refused_setting(log) == "concurrent_reads must be at least 2, but was 1"


def test_a_port_that_was_taken_is_told_and_not_that_something_was_fatal(log: Path) -> None:
    told = "/127.0.0.1:7000 is in use by another process.  Change listen_address:storage_port"
    error = "ERROR [main] 2026-01-01 00:00:00,000 Here.java:1 - Fatal configuration error\n"
    exception = f"org.apache.cassandra.exceptions.ConfigurationException: {told}\n\tat here\n"
    log.write_text(f"{STARTS}{error}{exception}INFO  [a] 2026-01-01 00:00:00,000 B.java:1 - bye\n")
    assert reason_in(log) == ServerLogLine(3, told)


def test_an_error_before_the_last_start_is_no_reason(log: Path) -> None:
    error = "ERROR [main] 2026-01-01 00:00:00,000 Here.java:1 - no luck\n"
    log.write_text(error + STARTS + "INFO  fine\n")
    assert reason_in(log) == ServerLogLine(3, "INFO  fine")
    log.write_text(STARTS + error + "INFO  fine\n")
    assert reason_in(log) == ServerLogLine(2, "no luck")


def test_memory_that_ran_out_is_the_reason_whatever_follows(log: Path) -> None:
    told = "Terminating due to java.lang.OutOfMemoryError: Java heap space"
    log.write_text(f"{STARTS}{told}\nERROR [a] 2026-01-01 00:00:00,000 Here.java:1 - late\n")
    assert reason_in(log) == ServerLogLine(2, told)


def test_a_log_that_says_nothing_gives_no_reason(log: Path) -> None:
    assert reason_in(log) is None
    log.write_text("\n\n")
    assert reason_in(log) is None
    assert refused_setting(log) is None


def test_lines_are_counted_from_the_beginning_of_a_very_long_log(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvmark.testbed.cassandra.health._READ_BYTES", 60)
    log.write_text("a line of some twenty\n" * 9 + "Error: the end\n")
    assert reason_in(log) == ServerLogLine(10, "the end")


def test_a_value_of_the_wrong_type_is_told_with_the_name_of_its_setting(log: Path) -> None:
    log.write_text(
        f"{REFUSED}Invalid yaml: file:/cassandra.yaml\n"
        "Caused by: x.ConstructorException: Cannot create property=memtable for JavaBean=a\n"
        "Caused by: x.ConstructorException: Cannot create property=configurations for JavaBean=b\n"
        'Caused by: java.lang.NumberFormatException: For input string: "many"\n'
    )
    assert refused_setting(log) == 'memtable.configurations: For input string: "many"'


def test_counters_are_added_up_over_collectors_clients_and_peers() -> None:
    page = """\
# TYPE jvm_gc_collection_seconds summary
jvm_gc_collection_seconds_count{gc="G1 Old Generation"} 1
jvm_gc_collection_seconds_sum{gc="G1 Old Generation"} 0.5
jvm_gc_collection_seconds_count{gc="G1 Young Generation"} 12
jvm_gc_collection_seconds_sum{gc="G1 Young Generation"} 0.25
cassandra_client_bytes{direction="Received"} 1000.0
cassandra_client_bytes{direction="Sent"} 1.0E7
cassandra_internode_sent_bytes{kind="SmallMessageCompletedBytes",peer="127.0.0.2_7000"} 30.0
cassandra_internode_sent_bytes{kind="LargeMessageCompletedBytes",peer="127.0.0.3_7000"} 4.0
cassandra_internode_received_bytes{peer="127.0.0.2_7000"} 7.0
"""
    assert counted(page) == Counted(10_000_034, 1007, 13, 0.75)


def test_what_the_exporter_does_not_show_is_not_known() -> None:
    assert counted("") == Counted(None, None, None, None)


def test_the_fingerprint_leaves_places_out_and_takes_the_heap_in() -> None:
    here = {"concurrent_reads": "32", "listen_address": "127.0.0.1", "cluster_name": "a"}
    there = {**here, "listen_address": "127.0.0.2", "cluster_name": "b"}
    other = {**here, "concurrent_reads": "64"}
    assert fingerprint(here, 1) == fingerprint(there, 1)
    assert fingerprint(here, 1) != fingerprint(other, 1)
    assert fingerprint(here, 1) != fingerprint(here, 2)


def test_the_largest_batch_and_a_bound_on_memory_are_part_of_the_fingerprint() -> None:
    default = {"batch_size_fail_threshold": "50KiB"}
    plain = fingerprint(default, 2**29)
    assert fingerprint({"batch_size_fail_threshold": "64MiB"}, 2**29) != plain
    assert fingerprint(default, 2**29, 2**30) != plain
    assert fingerprint(default, 2**29, None) == plain
