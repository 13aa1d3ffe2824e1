"""The log and the exporter's page of a Cassandra node. No server is needed."""

from pathlib import Path

import pytest

from kvmark.testbed.cassandra.server import counted, fingerprint, reason_in, refusal
from kvmark.testbed.system import Counted

STARTS = "INFO  [main] 2026-01-01 00:00:00,000 CassandraDaemon.java:629 - Hostname: here:9042\n"
REFUSED = (
    "Exception (org.apache.cassandra.exceptions.ConfigurationException) encountered during"
    " startup: "
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def test_a_failed_start_is_reported_before_the_lines_of_its_trace(log: Path) -> None:
    log.write_text(f"one\n{REFUSED}concurrent_reads must be at least 2, but was 1\n\tat here\n")
    assert reason_in(log) == (2, "concurrent_reads must be at least 2, but was 1")
    sentence = "Cassandra refused a setting: concurrent_reads must be at least 2, but was 1"
    assert refusal(log) == sentence


def test_a_taken_port_is_reported_instead_of_a_fatal_error(log: Path) -> None:
    reason = "/127.0.0.1:7000 is in use by another process.  Change listen_address:storage_port"
    error = "ERROR [main] 2026-01-01 00:00:00,000 Here.java:1 - Fatal configuration error\n"
    exception = f"org.apache.cassandra.exceptions.ConfigurationException: {reason}\n\tat here\n"
    log.write_text(f"{STARTS}{error}{exception}INFO  [a] 2026-01-01 00:00:00,000 B.java:1 - bye\n")
    assert reason_in(log) == (3, reason)


def test_an_error_before_the_last_start_is_no_reason(log: Path) -> None:
    error = "ERROR [main] 2026-01-01 00:00:00,000 Here.java:1 - no luck\n"
    log.write_text(error + STARTS + "INFO  fine\n")
    assert reason_in(log) == (3, "INFO  fine")
    log.write_text(STARTS + error + "INFO  fine\n")
    assert reason_in(log) == (2, "no luck")


def test_exhausted_memory_is_the_reason_despite_later_errors(log: Path) -> None:
    reason = "Terminating due to java.lang.OutOfMemoryError: Java heap space"
    log.write_text(f"{STARTS}{reason}\nERROR [a] 2026-01-01 00:00:00,000 Here.java:1 - late\n")
    assert reason_in(log) == (2, reason)


def test_an_empty_log_has_no_reason(log: Path) -> None:
    assert reason_in(log) is None
    log.write_text("\n\n")
    assert reason_in(log) is None
    assert refusal(log) is None


def test_lines_are_counted_from_the_beginning_of_a_very_long_log(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvmark.testbed.cassandra.server._MOST_LOG_BYTES", 60)
    log.write_text("a line of some twenty\n" * 9 + "Error: the end\n")
    assert reason_in(log) == (10, "the end")


def test_a_value_of_the_wrong_type_is_reported_with_its_setting(log: Path) -> None:
    log.write_text(
        f"{REFUSED}Invalid yaml: file:/cassandra.yaml\n"
        "Caused by: x.ConstructorException: Cannot create property=memtable for JavaBean=a\n"
        "Caused by: x.ConstructorException: Cannot create property=configurations for JavaBean=b\n"
        'Caused by: java.lang.NumberFormatException: For input string: "many"\n'
    )
    setting = 'memtable.configurations: For input string: "many"'
    assert refusal(log) == f"Cassandra refused a setting: {setting}"


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
    assert counted("") == Counted(None, None, None, None)


def test_the_fingerprint_includes_settings_heap_and_bound_but_no_places() -> None:
    here = {"concurrent_reads": "32", "listen_address": "127.0.0.1", "cluster_name": "a"}
    there = {**here, "listen_address": "127.0.0.2", "cluster_name": "b"}
    plain = fingerprint(here, 1)
    assert fingerprint(there, 1) == fingerprint(here, 1, None) == plain
    others = (({**here, "concurrent_reads": "64"}, 1), (here, 2), (here, 1, 2**30))
    assert plain not in {fingerprint(*other) for other in others}
