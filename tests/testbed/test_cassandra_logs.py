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
ERROR = "ERROR [main] 2026-01-01 00:00:00,000 Here.java:1 - no luck\n"
PORT = "/127.0.0.1:7000 is in use by another process.  Change listen_address:storage_port"
MEMORY = "Terminating due to java.lang.OutOfMemoryError: Java heap space"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", None),
        ("\n\n", None),
        # A failed start comes before the lines of its trace.
        (f"one\n{REFUSED}reads must be at least 2\n\tat h\n", (2, "reads must be at least 2")),
        # A taken port is the reason of a fatal error.
        (f"{STARTS}{ERROR}org.apache.cassandra.exceptions.ConfigurationException: {PORT}\n"
         "\tat here\nINFO  [a] 2026-01-01 00:00:00,000 B.java:1 - bye\n", (3, PORT)),
        # An error before the last start is none.
        (f"{ERROR}{STARTS}INFO  fine\n", (3, "INFO  fine")),
        (f"{STARTS}{ERROR}INFO  fine\n", (2, "no luck")),
        # Exhausted memory causes later errors.
        (f"{STARTS}{MEMORY}\n{ERROR}", (2, MEMORY)),
    ],
)  # fmt: skip
def test_the_reason_why_a_node_ended_is_found_in_its_log(
    server_log: Path, text: str, reason: tuple[int, str] | None
) -> None:
    server_log.write_text(text)
    assert reason_in(server_log) == reason


def test_lines_are_counted_from_the_beginning_of_a_very_long_log(
    server_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reason_in(server_log) is None
    monkeypatch.setattr("kvmark.testbed.cassandra.server._MOST_LOG_BYTES", 60)
    server_log.write_text("a line of some twenty\n" * 9 + "Error: the end\n")
    assert reason_in(server_log) == (10, "the end")


def test_a_refused_setting_or_a_value_of_the_wrong_type_is_reported(server_log: Path) -> None:
    assert refusal(server_log) is None
    server_log.write_text(f"one\n{REFUSED}reads must be at least 2\n\tat here\n")
    assert refusal(server_log) == "Cassandra refused a setting: reads must be at least 2"
    server_log.write_text(
        f"{REFUSED}Invalid yaml: file:/cassandra.yaml\n"
        "Caused by: x.ConstructorException: Cannot create property=memtable for JavaBean=a\n"
        "Caused by: x.ConstructorException: Cannot create property=configurations for JavaBean=b\n"
        'Caused by: java.lang.NumberFormatException: For input string: "many"\n'
    )
    setting = 'memtable.configurations: For input string: "many"'
    assert refusal(server_log) == f"Cassandra refused a setting: {setting}"


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
