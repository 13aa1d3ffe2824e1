"""The command line of `kvmark app`: known flags are parsed, unknown ones rejected by name."""

import pytest
from applications import request

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
