"""The sample applications and their flags: one table, from which words are read and help is made.

The applications, their flags and their defaults are those of yb-sample-apps' `CmdLineOpts`; the
flags with a dash in the name, and those without any, are kvmark's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Takes = Literal["nothing", "whole", "number", "text", "duration", "limit", "secret", "system"]


@dataclass(frozen=True, slots=True)
class App:
    """One sample application."""

    name: str
    store: Literal["cql", "redis"]
    description: str
    #: Whether one operation of the table is a command of a batch or pipeline, not all of it.
    counts_commands: bool = False
    #: The table of its rows, where there are tables.
    table: str | None = None

    @property
    def port(self) -> int:
        """The port of a node that isn't given one."""
        return 9042 if self.store == "cql" else 6379


APPS: Final[Mapping[str, App]] = MappingProxyType(
    {
        app.name: app
        for app in (
            App(
                "CassandraKeyValue",
                "cql",
                "Rows of a key and a value, written and looked up.",
                table="cassandrakeyvalue",
            ),
            App(
                "CassandraBatchKeyValue",
                "cql",
                "The same, written in batches.",
                counts_commands=True,
                table="cassandrakeyvalue",
            ),
            App(
                "CassandraBatchTimeseries",
                "cql",
                "Points of metrics in batches, and the newest of a metric.",
                counts_commands=True,
                table="batch_ts_metrics_raw",
            ),
            App(
                "CassandraPersonalization",
                "cql",
                "Coupons of customers, written many at once and read as a whole.",
                table="coupon_recommendation",
            ),
            App(
                "CassandraSecondaryIndex",
                "cql",
                "Rows that are found by their value.",
                counts_commands=True,
                table="cassandrasecondaryindex",
            ),
            App(
                "CassandraTransactionalKeyValue",
                "cql",
                "Two rows written as one, whose numbers must add up.",
                table="cassandratransactionalkeyvalue",
            ),
            App("RedisKeyValue", "redis", "SET and GET."),
            App(
                "RedisPipelinedKeyValue",
                "redis",
                "SET and GET in pipelines.",
                counts_commands=True,
            ),
            App(
                "RedisHashPipelined",
                "redis",
                "HMSET and HMGET of sub-keys, in pipelines.",
                counts_commands=True,
            ),
        )
    }
)
"""Every application, by name."""

_VALUE: Final = 512 * 2**20
"""Bytes of the largest value that Redis takes; Cassandra takes less."""
CQL: Final = frozenset(name for name, app in APPS.items() if app.store == "cql")
REDIS: Final = frozenset(APPS) - CQL
ALL: Final = frozenset(APPS)
VALUES: Final = frozenset(
    {
        "CassandraKeyValue",
        "CassandraBatchKeyValue",
        "RedisKeyValue",
        "RedisPipelinedKeyValue",
        "RedisHashPipelined",
    }
)
KEYED: Final = ALL - {"CassandraBatchTimeseries"}
PIPELINES: Final = frozenset({"RedisPipelinedKeyValue", "RedisHashPipelined"})
_TIMESERIES: Final = frozenset({"CassandraBatchTimeseries"})
_COUPONS: Final = frozenset({"CassandraPersonalization"})
_INDEX: Final = frozenset({"CassandraSecondaryIndex"})
_HASHES: Final = frozenset({"RedisHashPipelined"})
_EXPIRING: Final = frozenset(
    {"CassandraKeyValue", "CassandraBatchKeyValue", "CassandraBatchTimeseries"}
)
_LOCAL: Final = frozenset(
    {"CassandraKeyValue", "CassandraBatchKeyValue", "CassandraTransactionalKeyValue"}
)
_BATCHES: Final = frozenset(
    {"CassandraBatchKeyValue", "CassandraBatchTimeseries", "CassandraSecondaryIndex"}
)


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag: what it takes, which applications have a use for it, and what it does."""

    name: str
    takes: Takes
    help: str
    apps: frozenset[str] = ALL
    #: Smallest number.
    least: int = 0
    #: Largest number.
    most: int = 2**63 - 1
    #: Why it changes nothing here; None for those that do.
    idle: str | None = None


def _idle(name: str, reason: str, takes: Takes = "nothing") -> Flag:
    return Flag(name, takes, "Accepted; " + reason + ".", idle=reason)


FLAGS: Final[Mapping[str, Flag]] = MappingProxyType(
    {
        flag.name: flag
        for flag in (
            Flag("workload", "text", "The application, where it isn't the first word."),
            Flag("nodes", "text", "The servers: host:port,host:port."),
            Flag("num_threads_read", "whole", "Readers."),
            Flag("num_threads_write", "whole", "Writers."),
            _idle("num_threads", "these applications have readers and writers", "whole"),
            Flag("num_unique_keys", "whole", "Keys; then writers update.", KEYED, 1),
            Flag("num_reads", "whole", "Reads in all; -1 for no end.", least=-1),
            Flag("num_writes", "whole", "Writes in all; -1 for no end.", least=-1),
            Flag("max_written_key", "whole", "Keys up to this one are there already.", KEYED, -1),
            Flag("value_size", "whole", "Bytes of a value; 0 for val:N.", VALUES, most=_VALUE),
            Flag("use_ascii_values", "nothing", "Values of printable characters.", VALUES),
            Flag("batch_size", "whole", "Rows written in one batch.", _BATCHES, 1),
            Flag("read_batch_size", "whole", "Points that a read wants.", _TIMESERIES, 1),
            Flag("read_back_delta_from_now", "whole", "How far back to read.", _TIMESERIES, 3),
            Flag("min_metrics_count", "whole", "Fewest metrics.", _TIMESERIES, 1),
            Flag("max_metrics_count", "whole", "Most metrics.", _TIMESERIES, 1),
            Flag("pipeline_length", "whole", "Commands sent at once.", PIPELINES, 1),
            Flag("sleep_time", "whole", "Milliseconds between pipelines.", PIPELINES),
            Flag("table_ttl_seconds", "whole", "Rows expire; -1 for never.", _EXPIRING, -1),
            Flag("run_time", "whole", "Seconds to run; without it until the counts.", least=-1),
            Flag("uuid", "text", "What keys begin with; else a new one.", KEYED),
            Flag("nouuid", "nothing", "Keys are key:0, key:1, ….", KEYED),
            Flag("read_only", "nothing", "No writers; needs --uuid or --nouuid.", KEYED),
            Flag("read_rate", "number", "Reads a second, in the open model."),
            Flag("write_rate", "number", "Writes a second, in the open model."),
            _idle("lock_step", "readers only ask for keys that were acknowledged"),
            Flag("create_table_name", "text", "The table to make and use.", CQL),
            Flag("drop_table_name", "text", "The table to drop, make and use.", CQL),
            Flag("keep_table", "nothing", "Don't drop the table first.", CQL),
            Flag("on-existing", "text", "A table that isn't kvmark's: refuse, keep, remove.", CQL),
            Flag("truncate", "nothing", "Empty the table instead of dropping it.", CQL),
            Flag("skip_ddl", "nothing", "Send no CREATE, DROP or TRUNCATE.", CQL),
            Flag("skip_workload", "nothing", "Only drop --drop_table_name.", CQL),
            Flag("local_reads", "nothing", "Read at consistency ONE.", _LOCAL),
            Flag("with_local_dc", "text", "Datacenter to prefer.", CQL),
            Flag("username", "text", "User."),
            Flag("password", "secret", "Password; needs --username. Others may see it typed."),
            Flag("ssl_cert", "text", "TLS, with this certificate of the servers' authority."),
            Flag("ssl_key", "text", "The client's key, whose certificate is --ssl_cert."),
            Flag("concurrent_clients", "whole", "Connections to each node; else 4.", CQL, 1),
            Flag("cql_connect_timeout_ms", "whole", "Limit on connecting.", CQL, 1),
            Flag("cql_read_timeout_ms", "whole", "Limit on service time.", CQL, 1),
            Flag("socket_timeout", "whole", "Limit on service time, ms.", REDIS, 1),
            Flag("use_redis_cluster", "nothing", "Follow a Redis Cluster's slots.", REDIS),
            Flag("output_json_metrics", "nothing", "The same as --json."),
            Flag("sanity_check_at_end", "nothing", "The same as --strict."),
            _idle("print_all_exceptions", "failures are counted by kind, and the last is shown"),
            _idle("disable_yb_load_balancing_policy", "there is one policy, by token"),
            _idle("report_read_restarts", "servers' read restarts aren't asked for"),
            Flag("non_transactional_index", "nothing", "YugabyteDB: a weaker index.", _INDEX),
            Flag("batch_write", "nothing", "Write rows in batches.", _INDEX),
            Flag("num_stores", "whole", "Stores.", _COUPONS, 1),
            Flag("num_new_coupons_per_customer", "whole", "Coupons in a write.", _COUPONS, 1),
            Flag("max_coupons_per_customer", "whole", "Coupons there are.", _COUPONS, 1),
            Flag("num_subkeys_per_key", "whole", "Sub-keys of a hash.", _HASHES, 1),
            Flag("num_subkeys_per_write", "whole", "Sub-keys in HMSET.", _HASHES, 1),
            Flag("num_subkeys_per_read", "whole", "Sub-keys in HMGET.", _HASHES, 1),
            Flag("key_freq_zipf_exponent", "number", "0 for uniform keys.", _HASHES),
            Flag("subkey_freq_zipf_exponent", "number", "0 for uniform sub-keys.", _HASHES),
            Flag("subkey_value_size_zipf_exponent", "number", "0 for one size.", _HASHES),
            Flag("subkey_value_max_size", "whole", "Longest value then.", _HASHES, 10, _VALUE),
            Flag("index", "text", "secondary, sai, view or table.", _INDEX),
            Flag("system", "system", "A URL or up:NAME in place of --nodes."),
            Flag("observe", "text", "Node exporter of a server, http://host:9100/metrics."),
            Flag("strict", "nothing", "Exit 1 unless the run is VALID."),
            Flag(
                "interval", "duration", "Length of a recorded interval; 5s when not said.", ALL, 1
            ),
            Flag("stall-limit", "limit", "Longest time without any answer, or off; else 30s."),
            Flag("seed", "whole", "Fixes every source of chance."),
            Flag("tag", "text", "A word to find the run by."),
            Flag("commit", "text", "The version of what is measured, kept with the run."),
            Flag("repetitions", "whole", "How often the application is run.", ALL, 1),
            Flag("resume", "nothing", "Go on with repetitions that were interrupted."),
            Flag("pin", "text", "Cores for the load, such as 0,1."),
            Flag(
                "prometheus",
                "whole",
                "Serve metrics at this port while it measures.",
                ALL,
                1,
                65_535,
            ),
            Flag("fleet", "text", "Share the load among the nodes of this Ray cluster."),
            Flag("machines", "whole", "How many agents to wait for.", ALL, 1),
            Flag("insecure-fleet", "nothing", "Take a fleet that asks for no token."),
            Flag("report", "text", "Write a report, .html or .md."),
            Flag("runs", "text", "The folder where runs are kept; else KVMARK_RUNS or runs."),
            Flag("json", "nothing", "One JSON document on standard output."),
            Flag("quiet", "nothing", "Nothing on standard error but what went wrong."),
            Flag("help", "nothing", "Show this."),
        )
    }
)
"""Every flag, by name, in the order of the help."""


def flags_of(app: str) -> tuple[Flag, ...]:
    """The flags that an application has a use for."""
    return tuple(flag for flag in FLAGS.values() if app in flag.apps and flag.idle is None)
