"""The applications have the original's defaults, and its flags change them."""

import uuid

import pytest
from applications import (
    generators,
    operation_limits,
    plan,
    request,
    run,
    statement,
    workload,
)

from kvmark.errors import SpecError
from kvmark.frontends.yugabyte_apps.flags import APPS
from kvmark.frontends.yugabyte_apps.workload import ENDLESS_NS, operations_per_request
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
    groups = {group.name: group for group in made.groups}
    assert (groups["readers"].clients, groups["writers"].clients) == (readers, writers)
    assert made.dataset.full_at == unique
    assert made.dataset.count == 0, "the writers begin with nothing"
    (phase,) = made.phases
    commands = operations_per_request(request(name), workload(name))
    ends = operation_limits(made)
    total = ends["writers"] and ends["writers"] * commands["Write"]
    assert (ends["readers"], total) == (reads, writes)
    assert phase.duration_ns == (None if reads else ENDLESS_NS)
    assert groups["readers"].check_values == "full"
    assert made.interval_ns == 5_000_000_000


def test_keys_have_a_uuid_as_prefix_unless_nouuid_is_passed() -> None:
    given = str(uuid.uuid4())
    assert plan(f"RedisKeyValue --uuid {given}").dataset.key.prefix == f"{given}:"
    assert plan("RedisKeyValue --nouuid").dataset.key.prefix == "key:"
    one, other = (plan("RedisKeyValue").dataset.key.prefix for _ in range(2))
    assert one != other
    assert len(one) == 37


def test_values_are_val_and_number_and_have_a_checksum_if_a_size_is_given() -> None:
    plain = generators(plan("CassandraKeyValue"), "WRITE")["value"]
    assert plain["generator"] == "format"
    assert [part["literal"] for part in plain["parts"]] == ["val:", ""]
    line = "CassandraKeyValue --value_size 100 --use_ascii_values"
    sized = generators(plan(line), "WRITE")["value"]
    assert sized["generator"] == "checked"
    assert sized["ascii"] is True
    assert sized["length"] == {"law": "constant", "size": 100}


def test_writers_and_readers_have_their_own_number_rate_and_end() -> None:
    words = "RedisKeyValue --num_threads_read 7 --num_threads_write 3 --read_rate 500"
    made = plan(f"{words} --num_writes 900 --num_reads -1")
    readers, writers = sorted(made.groups, key=lambda group: group.name)
    assert (readers.clients, writers.clients) == (7, 3)
    assert readers.arrival.process == "constant"
    assert writers.arrival.process == "closed"
    assert operation_limits(made) == {"readers": None, "writers": 900}


def test_a_number_of_rows_ends_after_the_batches_that_hold_them() -> None:
    made = plan("CassandraBatchKeyValue --batch_size 25 --num_writes 1010 --num_reads 10")
    assert statement(made, "WRITE").commands["size"] == 25
    assert operation_limits(made) == {"readers": 10, "writers": 41}


def test_pipelines_have_a_length_and_a_pause() -> None:
    made = plan("RedisPipelinedKeyValue --pipeline_length 480 --sleep_time 3")
    for name in ("READ", "WRITE"):
        assert statement(made, name).commands["size"] == 480
    assert all(group.arrival.model_dump()["think_time_ns"] == 3_000_000 for group in made.groups)


def test_without_writers_a_hundred_thousand_keys_are_loaded_first() -> None:
    made = plan("CassandraKeyValue --num_threads_write 0")
    assert [phase.name for phase in made.phases] == ["load", "measure"]
    assert made.dataset.count == 100_000
    assert [group.name for group in made.groups] == ["readers", "load"]
    few = plan("CassandraKeyValue --num_threads_write 0 --num_unique_keys 50")
    assert few.dataset.count == 50


def test_read_only_reads_keys_of_an_earlier_run() -> None:
    made = plan("CassandraKeyValue --read_only --nouuid --max_written_key 99")
    assert [group.name for group in made.groups] == ["readers"]
    assert (made.dataset.count, len(made.phases)) == (100, 1)
    assert not any("DROP" in text for text in made.prepare)


def test_writers_cycle_through_metrics_and_readers_read_the_newest() -> None:
    words = "CassandraBatchTimeseries --min_metrics_count 7 --max_metrics_count 7"
    made = plan(f"{words} --batch_size 50 --read_batch_size 20 --read_back_delta_from_now 30")
    write, read = statement(made, "WRITE"), statement(made, "READ")
    arguments = generators(made, "WRITE")
    assert write.record == "operation"
    assert arguments["series"]["modulus"] == 7
    assert (arguments["ts"]["divisor"], arguments["ts"]["factor"]) == (7, 50)
    assert "LIMIT 20" in read.texts[0]
    assert read.checks[0] == {"check": "rows", "least": 20, "most": 20}
    readers = next(group for group in made.groups if group.name == "readers")
    assert readers.keys.distribution == {"law": "newest", "window": 7}


def test_the_number_of_metrics_follows_the_seed() -> None:
    def metrics(words: str) -> int:
        made = plan(f"CassandraBatchTimeseries {words}")
        return int(generators(made, "WRITE")["series"]["modulus"])

    assert 5_000 <= metrics("--seed 3") < 10_000
    assert metrics("--seed 3") == metrics("--seed 3") != metrics("--seed 4")


def test_coupons_are_divided_among_stores() -> None:
    made = plan("CassandraPersonalization --num_stores 3 --num_new_coupons_per_customer 30")
    assert statement(made, "WRITE").commands["size"] == 30
    assert statement(made, "READ").checks[0]["least"] == 10


def test_a_hash_is_inserted_whole_before_sub_keys_are_updated() -> None:
    words = "RedisHashPipelined --num_subkeys_per_key 25 --num_subkeys_per_write 10"
    made = plan(f"{words} --num_subkeys_per_read 4 --key_freq_zipf_exponent 0")
    insert, read = statement(made, "INSERT"), statement(made, "READ")
    assert insert.commands["size"] == 3
    assert insert.record == "operation"
    assert insert.when_full == [one.name for one in made.statements].index("WRITE")
    assert read.items["size"] == 4
    assert all(group.keys.distribution == {"law": "uniform"} for group in made.groups)


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


def test_flags_set_consistency_datacenter_login_and_timeouts() -> None:
    options = run("CassandraKeyValue --local_reads --with_local_dc dc2").system.options
    assert options["consistency"] == "QUORUM"
    assert options["read_consistency"] == "ONE"
    assert options["datacenter"] == "dc2"
    made = run("CassandraKeyValue --cql_read_timeout_ms 250 --username a --password b")
    assert made.timeout_ns == 250_000_000
    assert made.system.password == Secret("b")
    assert "b" not in made.system.options.values()
    assert run("RedisKeyValue --use_redis_cluster").system.options["cluster"] == "true"


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
