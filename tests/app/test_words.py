"""The command line of `kvmark app`: known flags are parsed, unknown ones rejected by name."""

import pytest
from applications import request

from kvmark.errors import SpecError
from kvmark.frontends.yugabyte_apps.flags import APPS, FLAGS

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


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("RedisKeyValue --num_thread_read 3",
         "there is no flag '--num_thread_read' — did you mean 'num_threads_read'?"),
        ("RedisKeyValue --num_reads", "--num_reads needs a value; write --num_reads VALUE"),
        ("RedisKeyValue --nouuid=yes", "--nouuid takes no value; leave out '=yes'"),
        ("RedisKeyValue --num_reads many", "--num_reads: 'many' is not a whole number"),
        ("RedisKeyValue --num_reads -2", "--num_reads: must be at least -1, not -2"),
        ("RedisKeyValue --num_writes 99999999999999999999",
         "--num_writes: must be at most 9223372036854775807, not 99999999999999999999"),
        ("RedisKeyValue --value_size 99999999999999",
         "--value_size: must be at most 536870912, not 99999999999999"),
        ("RedisKeyValue --prometheus 99999",
         "--prometheus: must be at most 65535, not 99999"),
        ("RedisKeyValue --read_rate nan", "--read_rate: 'nan' is not a number"),
        ("RedisKeyValue --num_reads 1 --num_reads 2",
         "--num_reads is given twice; leave one of them out"),
        ("RedisKeyValue RedisHashPipelined",
         "unexpected argument 'RedisHashPipelined'; name one application"),
        ("CassandraKeyValue --on-existing drop",
         "--on-existing: 'drop' is none of refuse, keep, remove"),
        ("RedisKeyvalu",
         "there is no application 'RedisKeyvalu' — did you mean 'RedisKeyValue'?"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_that_names_the_flag(line: str, sentence: str) -> None:
    with pytest.raises(SpecError) as error:
        request(line)
    assert str(error.value) == sentence


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
