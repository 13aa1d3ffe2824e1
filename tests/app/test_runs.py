"""Applications as a user runs them: on a real Redis server, and on systems that hold nothing."""

from typing import Any

import pytest
from command_line import Kvmark

from kvmark.testbed.console import Console
from kvmark.testbed.state import Testbed

SHORT = ("--num_threads_read", "3", "--num_threads_write", "2", "--num_writes", "400")
SHORT = (*SHORT, "--num_reads", "600", "--interval", "100ms", "--json", "--quiet")
ROWS = [
    "Read throughput", "Read response time", "Read service time",
    "Write throughput", "Write response time", "Write service time",
    "Load tester CPU, user", "Load tester CPU, system",
    "Cluster node CPU, user", "Cluster node CPU, system",
]  # fmt: skip


def table(kvmark: Kvmark, *words: object, exits: int = 0) -> Any:
    return kvmark("app", *words, exits=exits).json["table"]


def count(kvmark: Kvmark, run: str, group: str) -> int:
    totals = kvmark.manifest(run)["engine"]["totals"]
    return sum(one["count"] for one in totals if one["group"] == group)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("RedisKeyValue", ()),
        ("RedisKeyValue", ("--value_size", "100")),
        ("RedisPipelinedKeyValue", ("--pipeline_length", "8")),
        ("RedisHashPipelined", ("--pipeline_length", "2", "--value_size", "40")),
    ],
)
def test_an_application_reads_back_what_it_wrote(
    kvmark: Kvmark, server: Testbed, name: str, more: tuple[str, ...]
) -> None:
    words = (name, "--system", server.url, "--num_unique_keys", "50", *SHORT, *more)
    found = kvmark("app", *words).json
    answer = found["table"]
    assert [row["name"] for row in answer["rows"]] == ROWS
    assert (answer["mismatches"], answer["misses"]) == (0, 0)
    assert (answer["writers"], answer["readers"]) == (2, 3)
    length = answer["commands"]["Read"]
    assert count(kvmark, found["run"], "readers") * length >= 600


def test_a_wrong_value_is_counted_and_ends_with_exit_code_1(
    kvmark: Kvmark, server: Testbed
) -> None:
    words = ("RedisKeyValue", "--system", server.url, "--nouuid", "--num_unique_keys", "40", *SHORT)
    assert table(kvmark, *words)["mismatches"] == 0
    Console("redis", {"address": server.nodes[0].address}).ask("SET", "key:7", "val:8")
    answer = kvmark("app", *words, "--read_only", exits=1)
    assert "returned wrong values" in answer.err
    assert answer.json["table"]["mismatches"] > 0


def test_without_writers_keys_are_written_first(kvmark: Kvmark, server: Testbed) -> None:
    words = ("RedisKeyValue", "--system", server.url, "--num_unique_keys", "70", "--json", "-q")
    words = (*words, "--num_threads_write", "0", "--num_threads_read", "2", "--num_reads", "300")
    answer = table(kvmark, *words)
    assert (answer["writers"], answer["misses"], answer["mismatches"]) == (0, 0, 0)
    write = next(row for row in answer["rows"] if row["name"] == "Write throughput")
    assert write["spread"]["mean"] == 0


def test_cpu_time_of_other_servers_is_reported_as_unknown(kvmark: Kvmark) -> None:
    answer = table(kvmark, "CassandraKeyValue", "--system", "null:", *SHORT)
    assert "is unknown" in answer["unknown"][0]
    node = next(row for row in answer["rows"] if row["name"] == "Cluster node CPU, user")
    assert node["spread"] is None
    text = kvmark("app", "CassandraKeyValue", "--system", "null:", *SHORT[:-2], "-q").out
    assert "--observe http://HOST:9100/metrics" in text
    assert "Verdict" in text


def test_an_application_runs_as_a_workload_too(kvmark: Kvmark) -> None:
    words = ("apps/RedisKeyValue", "--system", "sim:", "--records", "100", "--operations", "200")
    refused = kvmark("run", *words, "-q", exits=1)
    assert "mismatch" in refused.out


def test_help_lists_applications_flags_and_the_file_to_copy(kvmark: Kvmark) -> None:
    every = kvmark("app", "--help").out
    assert "RedisHashPipelined" in every
    assert "--non_transactional_index" in every
    one = kvmark("app", "RedisKeyValue", "--help").out
    assert "--use_redis_cluster" in one
    assert "--batch_write" not in one
    assert "name: apps/RedisKeyValue" in one
