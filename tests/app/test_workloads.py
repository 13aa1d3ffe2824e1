"""The command line of `kvmark app`, the original's defaults and each server's dialect."""

import uuid
from typing import Any

import pytest
from applications import SERVERS, plan, request, run, workload

from kvmark.errors import SpecError
from kvmark.frontends.yugabyte_apps.flags import APPS, FLAGS
from kvmark.frontends.yugabyte_apps.workload import removals, server_notes, server_of
from kvmark.secret import Secret
from tables import check, table

INDEX = "CassandraSecondaryIndex"
PAIRS = "CassandraTransactionalKeyValue"
PLANS = table(__file__, "plans.toml")


@pytest.mark.parametrize("case", PLANS.values(), ids=PLANS)
def test_a_command_line_has_its_plan(case: dict[str, Any]) -> None:
    check(plan(case["line"], case.get("server", "cassandra")), case["plan"])


@pytest.mark.parametrize(("line", "sentence"), table(__file__, "refusals.toml")["refused"])
def test_a_mistake_is_one_sentence_that_names_the_flag(line: str, sentence: str) -> None:
    with pytest.raises(SpecError) as error:
        workload(line)
    assert str(error.value) == sentence


def test_keys_have_a_uuid_as_prefix_unless_nouuid_is_passed() -> None:
    def prefix(flags: str) -> str:
        return str(plan(f"RedisKeyValue {flags}")["dataset"]["key"]["prefix"])

    given = str(uuid.uuid4())
    assert prefix(f"--uuid {given}") == f"{given}:"
    assert prefix("--nouuid") == "key:"
    assert prefix("") != prefix("")
    assert len(prefix("")) == 37


def test_the_number_of_metrics_follows_the_seed() -> None:
    def metrics(words: str) -> int:
        write, _ = plan(f"CassandraBatchTimeseries {words}")["statements"]
        (series,) = (one for one in write["arguments"] if one["name"] == "series")
        return int(series["generator"]["modulus"])

    assert 5_000 <= metrics("--seed 3") < 10_000
    assert metrics("--seed 3") == metrics("--seed 3") != metrics("--seed 4")


def test_a_login_is_no_option() -> None:
    system = run("CassandraKeyValue --username a --password b").system
    assert system.password == Secret("b")
    assert "b" not in system.options.values()


def test_a_server_s_kind_follows_from_its_version_and_system_tables() -> None:
    local = frozenset({"local", "peers_v2"})
    assert server_of("5.0.6", local, accord=None) == server_of("5.0.6", local, accord=True)
    assert not server_of("5.0.6", local, accord=None).has_transactions
    assert server_of("6.0-alpha1", local, accord=True).has_transactions
    assert not server_of("6.0-alpha1", local, accord=False).has_transactions
    yugabyte = server_of("3.9-SNAPSHOT", local | {"partitions"}, accord=None)
    assert (yugabyte.kind, yugabyte.has_transactions) == ("yugabyte", True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("CassandraKeyValue", ["drop TABLE keyvalue"]),
        ("CassandraKeyValue --truncate", ["empty TABLE keyvalue"]),
        ("CassandraKeyValue --keep_table", []),
        ("CassandraKeyValue --skip_ddl", []),
        # A view is dropped before its table.
        (f"{INDEX} --index view",
         ["drop MATERIALIZED VIEW secondaryindexbyvalue", "drop TABLE secondaryindex"]),
        (f"{INDEX} --index view --truncate", ["empty TABLE secondaryindex"]),
    ],
)  # fmt: skip
def test_flags_drop_keep_or_empty_the_table(line: str, expected: list[str]) -> None:
    removed = removals(workload(line).prepare, request(line))
    told = [f"{one.verb} {one.kind} {one.name}" for one in removed]
    assert [text.replace("ybdemo_keyspace.cassandra", "") for text in told] == expected


def test_cassandra_5_notes_that_pairs_are_not_isolated() -> None:
    (sentence,) = server_notes(request(PAIRS), SERVERS["cassandra"])
    assert "not isolated" in sentence
    assert sentence.startswith("Cassandra 5.0.3")
    assert server_notes(request(PAIRS), SERVERS["accord"]) == ()
    assert server_notes(request("RedisKeyValue"), SERVERS["cassandra"]) == ()


def test_yugabytedb_has_no_other_indexes() -> None:
    with pytest.raises(SpecError, match="YugabyteDB has no sai"):
        workload(f"{INDEX} --index sai", "yugabyte")


ORIGINAL = [
    "workload", "nodes", "num_threads_read", "num_threads_write", "num_threads", "num_unique_keys",
    "num_reads", "num_writes", "max_written_key", "value_size", "use_ascii_values", "batch_size",
    "read_batch_size", "read_back_delta_from_now", "pipeline_length", "sleep_time",
    "table_ttl_seconds", "run_time", "uuid", "nouuid", "read_only", "read_rate", "write_rate",
    "lock_step", "create_table_name", "drop_table_name", "keep_table", "truncate", "skip_ddl",
    "skip_workload", "local_reads", "with_local_dc", "username", "password", "ssl_cert", "ssl_key",
    "concurrent_clients", "cql_connect_timeout_ms", "cql_read_timeout_ms", "socket_timeout",
    "use_redis_cluster", "output_json_metrics", "sanity_check_at_end", "print_all_exceptions",
    "disable_yb_load_balancing_policy", "report_read_restarts", "non_transactional_index",
    "batch_write", "num_stores", "num_new_coupons_per_customer", "max_coupons_per_customer",
    "num_subkeys_per_key", "num_subkeys_per_write", "num_subkeys_per_read",
    "key_freq_zipf_exponent", "subkey_freq_zipf_exponent", "subkey_value_size_zipf_exponent",
    "subkey_value_max_size", "min_metrics_count", "max_metrics_count",
]  # fmt: skip
OWN = {
    "index", "system", "observe", "strict", "interval", "seed", "tag", "report", "runs", "json",
    "quiet", "commit", "repetitions", "resume", "pin", "prometheus", "fleet", "machines",
    "insecure-fleet", "on-existing", "stall-limit",
}  # fmt: skip


def test_the_flags_are_the_original_s_and_kvmark_s() -> None:
    assert set(FLAGS) == {*ORIGINAL, *OWN, "help"}


@pytest.mark.parametrize("name", ORIGINAL)
def test_a_flag_of_the_original_is_parsed_with_its_value(name: str) -> None:
    value = {"nothing": "", "text": "a"}.get(FLAGS[name].takes, "12")
    value = "RedisKeyValue" if name == "workload" else value
    assert request(f"RedisKeyValue --{name} {value}").has(name)


def test_workload_names_the_application_as_in_the_original() -> None:
    parsed = request("--workload CassandraKeyValue --num_threads_read 3 --run_time=7")
    assert parsed.app == APPS["CassandraKeyValue"]
    assert (parsed.whole("num_threads_read"), parsed.whole("run_time")) == (3, 7)


def test_flags_without_effect_are_reported_with_the_reason() -> None:
    parsed = request("RedisKeyValue --num_threads 8 --batch_size 5 --lock_step")
    assert parsed.unused_flags == (
        "--num_threads has no effect: these applications have readers and writers",
        "--lock_step has no effect: readers only request keys whose writes were acknowledged",
        "--batch_size has no effect: RedisKeyValue doesn't use it",
    )
    assert request("RedisKeyValue --num_reads 5").unused_flags == ()
