"""The applications have the original's defaults, and its flags change them."""

import json
import uuid

import pytest
from applications import part, plan, run, workload

from kvmark.errors import SpecError
from kvmark.frontends.yugabyte_apps.flags import APPS
from kvmark.frontends.yugabyte_apps.table import commands_per_operation
from kvmark.frontends.yugabyte_apps.workload import ENDLESS_NS
from kvmark.plan.compile import compile_run
from kvmark.secret import Secret

# Readers, writers, unique keys, reads and writes in all; None for no end.
DEFAULTS: dict[str, tuple[int, int, int | None, int | None, int | None]] = {
    "CassandraKeyValue": (24, 2, 2_000_000, 1_500_000, 2_000_000),
    "CassandraBatchKeyValue": (24, 2, 2_000_000, 1_500_000, 2_000_000),
    "CassandraBatchTimeseries": (2, 16, None, None, None),
    "CassandraPersonalization": (24, 2, 1_000_000, None, None),
    "CassandraSecondaryIndex": (24, 2, 1_000_000, None, None),
    "CassandraTransactionalKeyValue": (24, 2, 1_000_000, None, None),
    "RedisKeyValue": (32, 2, 1_000_000, None, None),
    "RedisPipelinedKeyValue": (32, 2, 1_000_000, None, None),
    "RedisHashPipelined": (32, 2, 1_000_000, None, None),
}


@pytest.mark.parametrize("name", APPS)
def test_the_defaults_are_the_originals(name: str) -> None:
    readers, writers, unique, reads, writes = DEFAULTS[name]
    made = plan(name)
    groups = {group["name"]: group for group in made["groups"]}
    assert (groups["readers"]["clients"], groups["writers"]["clients"]) == (readers, writers)
    assert made["dataset"]["full_at"] == unique
    assert made["dataset"]["count"] == 0, "the writers begin with nothing"
    (phase,) = made["phases"]
    ends = made["limits"]
    total = ends["writers"] and ends["writers"] * commands_per_operation(made).get("writers", 1)
    assert (ends["readers"], total) == (reads, writes)
    assert phase["duration_ns"] == (None if reads else ENDLESS_NS)
    assert groups["readers"]["check_values"] == "full"
    assert made["interval_ns"] == 5_000_000_000


def test_keys_have_a_uuid_as_prefix_unless_nouuid_is_passed() -> None:
    def prefix(flags: str) -> str:
        return str(part(plan(f"RedisKeyValue {flags}"), "dataset.key.prefix"))

    given = str(uuid.uuid4())
    assert prefix(f"--uuid {given}") == f"{given}:"
    assert prefix("--nouuid") == "key:"
    assert prefix("") != prefix("")
    assert len(prefix("")) == 37


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # Values are val: and a number, or have a size and a checksum.
        ("CassandraKeyValue",
         "statements.WRITE.arguments.value.generator.parts.0.literal=val:"
         " statements.WRITE.arguments.value.generator.parts.1.argument=null"),
        ("CassandraKeyValue --value_size 100 --use_ascii_values",
         "statements.WRITE.arguments.value.generator.generator=checked"
         " statements.WRITE.arguments.value.generator.ascii=true"
         " statements.WRITE.arguments.value.generator.length.size=100"),
        # Writers and readers have their own number, rate and end.
        ("RedisKeyValue --num_threads_read 7 --num_threads_write 3 --read_rate 500"
         " --num_writes 900 --num_reads -1",
         "groups.readers.clients=7 groups.writers.clients=3 limits.readers=null limits.writers=900"
         " groups.readers.arrival.process=constant groups.writers.arrival.process=closed"),
        # A number of rows ends after the batches that hold them.
        ("CassandraBatchKeyValue --batch_size 25 --num_writes 1010 --num_reads 10",
         "statements.WRITE.commands.size=25 limits.readers=10 limits.writers=41"),
        # Pipelines have a length and a pause.
        ("RedisPipelinedKeyValue --pipeline_length 480 --sleep_time 3",
         "statements.READ.commands.size=480 statements.WRITE.commands.size=480"
         " groups.0.arrival.think_time_ns=3000000 groups.1.arrival.think_time_ns=3000000"),
        # Without writers, keys are loaded first.
        ("CassandraKeyValue --num_threads_write 0",
         "phases.0.name=load phases.1.name=measure dataset.count=100000 groups.0.name=readers"
         " groups.1.name=load"),
        ("CassandraKeyValue --num_threads_write 0 --num_unique_keys 50", "dataset.count=50"),
        # Without writers, keys of an earlier run are read.
        ("CassandraKeyValue --read_only --nouuid --max_written_key 99",
         "dataset.count=100 phases.0.name=measure limits={\"readers\":1500000}"),
        # Writers cycle through metrics, and readers read the newest.
        ("CassandraBatchTimeseries --min_metrics_count 7 --max_metrics_count 7 --batch_size 50"
         " --read_batch_size 20 --read_back_delta_from_now 30",
         "statements.WRITE.arguments.series.generator.modulus=7 statements.WRITE.record=operation"
         " statements.WRITE.arguments.ts.generator.divisor=7"
         " statements.WRITE.arguments.ts.generator.factor=50"
         " statements.READ.checks.0.least=20 statements.READ.checks.0.most=20"
         " groups.readers.keys.distribution.law=newest groups.readers.keys.distribution.window=7"),
        # Coupons are divided among stores.
        ("CassandraPersonalization --num_stores 3 --num_new_coupons_per_customer 30",
         "statements.WRITE.commands.size=30 statements.READ.checks.0.least=10"),
        # A hash is inserted whole before its sub-keys are updated.
        ("RedisHashPipelined --num_subkeys_per_key 25 --num_subkeys_per_write 10"
         " --num_subkeys_per_read 4 --key_freq_zipf_exponent 0",
         "statements.INSERT.commands.size=3 statements.INSERT.record=operation"
         " statements.READ.items.size=4 groups.0.keys.distribution.law=uniform"
         " groups.1.keys.distribution.law=uniform"),
    ],
)  # fmt: skip
def test_flags_change_the_plan(line: str, expected: str) -> None:
    made = plan(line)
    for one in expected.split():
        path, _, value = one.partition("=")
        found = part(made, path)
        assert (found if isinstance(found, str) else json.dumps(found).replace(" ", "")) == value


def test_an_insert_names_the_statement_that_replaces_it() -> None:
    made = plan("RedisHashPipelined")
    assert made["statements"][part(made, "statements.INSERT.when_full")]["name"] == "WRITE"


def test_the_length_of_a_read_is_in_its_text() -> None:
    made = plan("CassandraBatchTimeseries --read_batch_size 20")
    assert "LIMIT 20" in part(made, "statements.READ.texts.0")


def test_the_number_of_metrics_follows_the_seed() -> None:
    def metrics(words: str) -> int:
        made = plan(f"CassandraBatchTimeseries {words}")
        return int(part(made, "statements.WRITE.arguments.series.generator.modulus"))

    assert 5_000 <= metrics("--seed 3") < 10_000
    assert metrics("--seed 3") == metrics("--seed 3") != metrics("--seed 4")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("CassandraKeyValue --read_only",
         "--read_only reads keys of an earlier run: give its --uuid, or --nouuid"),
        ("RedisKeyValue --password x", "--password needs --username"),
        ("RedisKeyValue --uuid 5", "--uuid: '5' is not a UUID"),
        ("RedisKeyValue --num_threads_read 0 --num_threads_write 0",
         "there are neither readers nor writers; give --num_threads_read or _write"),
        ("RedisHashPipelined --num_subkeys_per_read 200",
         "--num_subkeys_per_read must not be above --num_subkeys_per_key, which is 100"),
        ("CassandraKeyValue --create_table_name a-b",
         "'a-b' can't name a table: use letters, digits and _"),
    ],
)  # fmt: skip
def test_contradicting_flags_are_rejected(words: str, sentence: str) -> None:
    with pytest.raises(SpecError) as error:
        workload(words)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("CassandraKeyValue --local_reads --with_local_dc dc2",
         {"consistency": "QUORUM", "read_consistency": "ONE", "datacenter": "dc2"}),
        ("RedisKeyValue --use_redis_cluster", {"cluster": "true"}),
    ],
)  # fmt: skip
def test_flags_set_options_of_the_driver(line: str, options: dict[str, str]) -> None:
    assert options.items() <= run(line).system.options.items()


def test_flags_set_login_and_timeout() -> None:
    made = run("CassandraKeyValue --cql_read_timeout_ms 250 --username a --password b")
    assert made.timeout_ns == 250_000_000
    assert made.system.password == Secret("b")
    assert "b" not in made.system.options.values()


@pytest.mark.parametrize(
    ("connections", "pinned", "workers", "each"),
    [(8, "0", 1, 8), (8, "0,1", 2, 4), (5, "0,1", 2, 3), (1, "0,1", 1, 1), (4, "0,1,2", 3, 2)],
)
def test_connections_are_divided_among_the_workers_and_rounded_up(
    connections: int, pinned: str, workers: int, each: int
) -> None:
    made = run(f"CassandraKeyValue --concurrent_clients {connections} --pin {pinned}")
    assert compile_run(made, 2).workers == workers
    assert made.system.options["connections_per_node"] == str(each)
