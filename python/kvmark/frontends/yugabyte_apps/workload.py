"""The workload, the system and the run of an application, from its flags and its server."""

# ruff: noqa: S608 - names of tables are identifiers: `_table_name` rejects others.

from __future__ import annotations

import math
import os
import random
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from kvmark import catalog
from kvmark.errors import SpecError
from kvmark.frontends.yugabyte_apps.flags import FLAGS, App, AppRequest
from kvmark.secret import Secret
from kvmark.spec.owned_tables import TableRemoval, marked
from kvmark.spec.quantity import count, listed
from kvmark.spec.run import RunSpec
from kvmark.spec.suggest import refuse_credentials, shown
from kvmark.spec.url import PASSWORD_VARIABLE, SystemUrl
from kvmark.spec.workload import WorkloadSpec
from kvmark.spec.yaml_file import Document

ENDLESS_NS: Final = 365 * 86_400 * 10**9
"""Duration of a run without an end: a year, unless it is interrupted."""
_INTERVAL_NS: Final = 5 * 10**9
"""The status line of the original comes every five seconds."""
_CONNECTIONS: Final = 4
_STORES_NO_VALUES: Final = ("null", "sim")
_PURE_READ_KEYS: Final = 100_000
"""Keys that are loaded before a run without writers."""
_SMALLEST_ZIPFIAN: Final = 10
"""Bytes of the shortest value if sizes differ: room for a checksum."""
_DEFAULT_MAX: Final = 64 * 1024
_METRICS: Final = (5_000, 10_000)

KEYSPACE: Final = "ybdemo_keyspace"
PAIRS: Final = "CassandraTransactionalKeyValue"
INDEXED: Final = "CassandraSecondaryIndex"
_TABLE: Final = "CREATE TABLE"
_EXPIRY: Final = r" WITH default_time_to_live = \d+"
_ACCORD_SINCE: Final = 6
_YUGABYTE_TABLE: Final = "partitions"
"""A table of the keyspace `system` that only YugabyteDB has."""

Content = dict[str, Any]


def workload_of(request: AppRequest, server: Server) -> WorkloadSpec:
    """The application's workload with its flags applied.

    Raises:
        SpecError: flags contradict each other, or a value is impossible.
    """
    _check(request)
    app = request.app
    text = catalog.text(f"apps/{app.name}")
    if app.table:
        text = text.replace(app.table, _table_name(request))
    document = Document(text, f"{app.name}.yaml")
    content: Any = document.value
    _set_keys(content, request)
    _set_values(content, request)
    _set_batches(content, request)
    if app.name in _OWN_FLAGS:
        _OWN_FLAGS[app.name](content, request)
    _set_groups(content, request)
    _set_present_keys(content, request)
    if app.store == "cql":
        _adapt_tables(content, request, server)
    return document.check_part(content, WorkloadSpec)


def _check(request: AppRequest) -> None:
    if request.has("read_only") and not (request.has("uuid") or request.has("nouuid")):
        raise SpecError("--read_only reads keys of an earlier run: give its --uuid, or --nouuid")
    if request.has("password") and not request.has("username"):
        raise SpecError("--password needs --username")
    for one, other in (("create_table_name", "drop_table_name"), ("uuid", "nouuid")):
        if request.has(one) and request.has(other):
            raise SpecError(f"--{one} and --{other} can't both be given")
    if request.has("skip_workload") and not request.has("drop_table_name"):
        raise SpecError("--skip_workload only drops a table: give --drop_table_name")


def _set_keys(content: Content, request: AppRequest) -> None:
    dataset = content["dataset"]
    dataset["records"] = request.whole("num_unique_keys") or dataset["records"]
    if request.has("nouuid"):
        return
    text = request.text("uuid")
    try:
        prefix = uuid.uuid4() if text is None else uuid.UUID(text)
    except ValueError:
        raise SpecError(f"--uuid: {shown(text or '')} is not a UUID") from None
    dataset["key"] = {**dataset["key"], "prefix": f"{prefix}:"}


def _set_values(content: Content, request: AppRequest) -> None:
    """Values of a given size have a checksum; others are `val:N`."""
    size = request.whole("value_size")
    if not size or request.app.name not in FLAGS["value_size"].apps:
        return
    arguments = content["arguments"]
    for name in {"value", "next_value"} & arguments.keys():
        label = arguments[f"{name}_label"] = arguments[name]
        arguments[name] = {
            "generator": "checked",
            "prefix": f"{name}_label",
            "length": _value_length(request, size),
            "ascii": request.has("use_ascii_values"),
            **({"each": label["each"]} if "each" in label else {}),
        }


def _value_length(request: AppRequest, size: int) -> Any:
    """One length, or doubling lengths with the mean `size`, of which short ones are most likely."""
    exponent = request.get("subkey_value_size_zipf_exponent", float) or 0.0
    if exponent <= 0:
        return size
    longest = request.whole("subkey_value_max_size") or _DEFAULT_MAX
    steps = longest.bit_length() - _SMALLEST_ZIPFIAN.bit_length() + 1
    weights = [0] * 2 ** (steps - 1)
    for step in range(steps):
        weights[2**step - 1] = max(1, round(10**6 * (step + 1) ** -exponent))
    mean = sum(place * weight for place, weight in enumerate(weights, 1)) / sum(weights)
    block = max(_SMALLEST_ZIPFIAN, round(size / mean))
    while block * len(weights) > longest and len(weights) > 1:
        weights = weights[: len(weights) // 2]
    return {"distribution": "histogram", "block_size": block, "weights": weights}


def _set_batches(content: Content, request: AppRequest) -> None:
    statements = content["statements"]
    length, batch = request.whole("pipeline_length"), request.whole("batch_size")
    if length is not None:
        for name in ("WRITE", "READ"):
            statements[name]["commands"] = length
    if request.app.name == "CassandraBatchKeyValue" and batch is not None:
        statements["WRITE"]["commands"] = batch
    if request.app.name == "CassandraSecondaryIndex" and request.has("batch_write"):
        # The load inserts its records one by one.
        statements["LOAD"] = dict(statements["WRITE"])
        content["load"] = "LOAD"
        statements["WRITE"] |= {"commands": batch or 1, "options": {"batch": "logged"}}


def _set_timeseries(content: Content, request: AppRequest) -> None:
    least = request.whole("min_metrics_count") or _METRICS[0]
    most = request.whole("max_metrics_count") or max(least, _METRICS[1])
    if least > most:
        raise SpecError("--min_metrics_count must not be above --max_metrics_count")
    seed = request.whole("seed") or 1
    metrics = least if least == most else random.Random(seed).randrange(least, most)  # noqa: S311
    batch = request.whole("batch_size") or 500
    limit = request.whole("read_batch_size") or 100
    back = request.whole("read_back_delta_from_now") or 180
    arguments, statements = content["arguments"], content["statements"]
    arguments["series"]["modulo"] = metrics
    for name in ("ts", "from", "to"):
        arguments[name] |= {"divide": metrics, "times": batch}
    arguments["to"]["start"] = batch + 2
    arguments["from"]["start"] = batch + 2 - back
    statements["WRITE"]["commands"] = batch
    read = statements["READ"]
    read["run"] = read["run"].replace("LIMIT 100", f"LIMIT {limit}")
    # No points lie before a metric's first batch.
    read["check"][0] = {"least": min(limit, batch, back - 2), "most": limit}
    content["groups"][1]["keys"]["window"] = metrics


def _set_coupons(content: Content, request: AppRequest) -> None:
    stores = request.whole("num_stores") or 1
    new = request.whole("num_new_coupons_per_customer") or 150
    most = request.whole("max_coupons_per_customer") or max(3000, new)
    if new > most:
        raise SpecError(
            "--num_new_coupons_per_customer must not be above --max_coupons_per_customer"
        )
    if new < stores:
        raise SpecError("--num_new_coupons_per_customer must not be below --num_stores")
    each = new // stores
    arguments, statements = content["arguments"], content["statements"]
    arguments["store"]["divide"] = each
    arguments["code"] |= {"modulo": each, "times": most // new}
    arguments["some_store"]["count"] = stores
    statements["WRITE"]["commands"] = each * stores
    statements["READ"]["check"][0] = {"rows": each}


def _set_hashes(content: Content, request: AppRequest) -> None:
    subkeys = request.whole("num_subkeys_per_key") or 100
    write = request.whole("num_subkeys_per_write") or 10
    read = request.whole("num_subkeys_per_read") or 10
    for name, number in (("num_subkeys_per_write", write), ("num_subkeys_per_read", read)):
        if number > subkeys:
            raise SpecError(f"--{name} must not be above --num_subkeys_per_key, which is {subkeys}")
    arguments, statements = content["arguments"], content["statements"]
    # The last command starts over with the first sub-keys if the division leaves a remainder.
    arguments["next"]["modulo"] = subkeys
    law = _zipfian(request.get("subkey_freq_zipf_exponent", float))
    arguments["number"] |= {"count": subkeys, "law": law}
    statements["INSERT"] |= {"commands": math.ceil(subkeys / write), "items": write}
    statements["WRITE"]["items"] = write
    statements["READ"]["items"] = read
    for group in content["groups"]:
        group["keys"] = _zipfian(request.get("key_freq_zipf_exponent", float))


def _zipfian(exponent: float | None) -> Any:
    theta = 1.0 if exponent is None else exponent
    if theta <= 0:
        return "uniform"
    return {"distribution": "zipfian", "theta": theta, "scrambled": False}


_OWN_FLAGS: Final = {
    "CassandraBatchTimeseries": _set_timeseries,
    "CassandraPersonalization": _set_coupons,
    "RedisHashPipelined": _set_hashes,
}
"""Applies the flags that only one application has."""


def _set_groups(content: Content, request: AppRequest) -> None:
    """Number, rate, total and pause of writers and readers."""
    groups = []
    for group, kind in zip(content["groups"], ("write", "read"), strict=True):
        clients = request.whole(f"num_threads_{kind}")
        if clients == 0 or (kind == "write" and request.has("read_only")):
            continue
        changed = {**group, "clients": group["clients"] if clients is None else clients}
        per_request = _operations_per_request(content, group, request)
        total = request.whole(f"num_{kind}s")
        if total is not None:
            changed.pop("operations", None)
            if total >= 0:
                changed["operations"] = max(1, math.ceil(total / per_request))
        elif "operations" in group and kind == "write" and request.has("batch_size"):
            changed["operations"] = math.ceil(2_000_000 / per_request)
        rate, sleep_ms = request.get(f"{kind}_rate", float), request.whole("sleep_time")
        if rate:
            changed["rate"] = rate / per_request
        elif sleep_ms:
            changed["think_time"] = f"{sleep_ms}ms"
        groups.append(changed)
    if not groups:
        raise SpecError("there are neither readers nor writers; give --num_threads_read or _write")
    content["groups"] = groups


def _operations_per_request(content: Content, group: Content, request: AppRequest) -> int:
    """Operations of the published table in one operation of the engine."""
    if not request.app.counts_commands:
        return 1
    (name,) = (name for name, weight in group["mix"].items() if weight)
    statement = content["statements"]["WRITE" if name == "INSERT" else name]
    commands = statement.get("commands", 1)
    return int(commands.get("size", 1) if isinstance(commands, dict) else commands)


def _set_present_keys(content: Content, request: AppRequest) -> None:
    """Keys that exist before the run: none, those of an earlier run, or a hundred thousand."""
    dataset = content["dataset"]
    written = request.whole("max_written_key")
    if written is not None:
        dataset["present"] = written + 1
    elif request.has("read_only"):
        dataset["present"] = dataset["records"]
    elif all(group["name"] != "writers" for group in content["groups"]):
        dataset["loaded"] = True
        unique = request.whole("num_unique_keys")
        dataset["records"] = min(_PURE_READ_KEYS, unique or _PURE_READ_KEYS)
        if request.app.name == "CassandraBatchTimeseries":
            batch = int(content["statements"]["WRITE"]["commands"])
            dataset["records"] = math.ceil(_PURE_READ_KEYS / batch)


@dataclass(frozen=True, slots=True)
class Server:
    """A kind of server, as far as tables and transactions depend on it."""

    kind: Literal["cassandra", "yugabyte", "redis"]
    version: str = ""
    #: Whether it has transactions over several rows.
    has_transactions: bool = False


def server_of(version: str, system_tables: frozenset[str], *, accord: bool | None) -> Server:
    """The kind of a CQL server from its release version and the tables of its keyspace `system`.

    `accord` is True if its transactions are enabled, None if that couldn't be read.
    """
    if _YUGABYTE_TABLE in system_tables:
        return Server("yugabyte", version, has_transactions=True)
    major = re.match(r"\d+", version)
    has_accord = major is not None and int(major[0]) >= _ACCORD_SINCE
    return Server("cassandra", version, has_transactions=has_accord and accord is not False)


def _adapt_tables(content: Content, request: AppRequest, server: Server) -> None:
    """Creates tables as requested, and uses the server's dialect."""
    prepare, statements = content["prepare"], content["statements"]
    if request.app.name == PAIRS and server.has_transactions:
        prepare = _add_transactions(prepare, statements, server)
        content["description"] = "Pairs of numbers with a known sum, written in one transaction."
    if request.app.name == INDEXED:
        table = f"{KEYSPACE}.{_table_name(request)}"
        prepare = _add_index(prepare, statements, table, request, server)
    seconds = request.whole("table_ttl_seconds")
    if seconds is not None:
        expiry = f" WITH default_time_to_live = {seconds}" if seconds > 0 else ""
        prepare = [
            re.sub(_EXPIRY, "", text) + expiry if text.startswith(_TABLE) else text
            for text in prepare
        ]
    if request.has("skip_ddl"):
        prepare = []
    content["prepare"] = [marked(text) if _created(text) else text for text in prepare]


def removals(prepare: Sequence[str], request: AppRequest) -> tuple[TableRemoval, ...]:
    """The tables and views to drop or empty before these statements create them."""
    keeps = any(map(request.has, ("keep_table", "read_only", "max_written_key")))
    drops = not request.has("truncate")
    if drops and keeps:
        return ()
    created = [found for text in prepare if (found := _created(text))]
    # A view is dropped before its table. Only the application's own table is emptied.
    chosen = reversed(created) if drops else created[:1]
    return tuple(TableRemoval(name, drops, kind) for kind, name in chosen)


def server_notes(request: AppRequest, server: Server) -> tuple[str, ...]:
    """Notes for readers of the figures on how the server executes the application."""
    if request.app.name != PAIRS or server.has_transactions:
        return ()
    sentence = (
        f"{f'Cassandra {server.version}'.strip()} has no transactions over several rows: pairs are"
        " written in logged batches, which are atomic but not isolated. A reader may see half a"
        " pair."
    )
    return (sentence,)


def _table_name(request: AppRequest) -> str:
    name = request.text("create_table_name") or request.text("drop_table_name") or request.app.table
    if not re.fullmatch(r"[A-Za-z]\w{0,47}", name):
        raise SpecError(f"{shown(name)} can't name a table: use letters, digits and _")
    return name.lower()


def _with(text: str, option: str) -> str:
    return f"{text} {'AND' if ' WITH ' in text else 'WITH'} {option}"


def _created(text: str) -> tuple[Literal["TABLE", "MATERIALIZED VIEW"], str] | None:
    found = re.match(r"CREATE (TABLE|MATERIALIZED VIEW) IF NOT EXISTS\s+(\S+)", text)
    return found and ("TABLE" if found[1] == "TABLE" else "MATERIALIZED VIEW", found[2])


def _add_transactions(prepare: list[str], statements: Content, server: Server) -> list[str]:
    """Writes pairs in the server's transactions."""
    end, option = "COMMIT TRANSACTION", "transactional_mode = 'full'"
    if server.kind == "yugabyte":
        end, option = "END TRANSACTION", "transactions = {'enabled': true}"
    write, read = statements["WRITE"], statements["READ"]
    write["run"] = f"BEGIN TRANSACTION {'; '.join(write['run'])}; {end};"
    write.pop("options", None)
    if server.kind == "cassandra":
        # Accord reads the rows of a plain SELECT one by one: only a transaction sees them together.
        read["run"] = f"BEGIN TRANSACTION {read['run']}; {end};"
    return [_with(text, option) if text.startswith(_TABLE) else text for text in prepare]


def _add_index(
    prepare: list[str], statements: Content, table: str, request: AppRequest, server: Server
) -> list[str]:
    """Looks rows up by an index, a view or a second table."""
    kind = request.text("index") or "secondary"
    keyspace, create, index = prepare
    if server.kind == "yugabyte":
        if kind != "secondary":
            raise SpecError(f"--index: YugabyteDB has no {kind}; leave the flag out")
        if request.has("non_transactional_index"):
            weak = "transactions = {'enabled': false, 'consistency_level': 'user_enforced'}"
            return [keyspace, create, _with(index, weak)]
        return [keyspace, _with(create, "transactions = {'enabled': true}"), index]
    by_value = f"{table}byvalue"
    if kind in ("view", "table"):
        read = statements["READ"]
        read["run"] = read["run"].replace(f"{table} ", f"{by_value} ")
    if kind == "table":
        # A logged batch writes both tables or none.
        write = statements["WRITE"]
        second = f"INSERT INTO {by_value} (k, v) VALUES ({{key}}, {{value}})"
        write |= {"run": [write["run"], second], "options": {"batch": "logged"}}
    creates_second = {
        "secondary": index,
        "sai": f"{index} USING 'sai'",
        "view": f"CREATE MATERIALIZED VIEW IF NOT EXISTS {by_value} AS SELECT k, v FROM {table}"
        " WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)",
        "table": f"{_TABLE} IF NOT EXISTS {by_value} (k varchar, v varchar, PRIMARY KEY (v, k))",
    }
    return [keyspace, create, creates_second[kind]]


def nodes_url(request: AppRequest) -> SystemUrl:
    """The system that --nodes names.

    Raises:
        SpecError: it wasn't passed, or a node isn't host or host:port.
    """
    app, nodes = request.app, request.text("nodes")
    if nodes is None:
        raise SpecError(
            f"{app.name} needs servers: give --nodes 127.0.0.1:{app.port}, or --system URL"
        )
    address = ",".join(_node_address(node.strip(), app) for node in nodes.split(","))
    return SystemUrl(app.store, {"address": address}, f"{app.store}://{address}")


def _node_address(node: str, app: App) -> str:
    refuse_credentials("--nodes", node, "--username and --password, or a URL behind --system")
    host, colon, port = node.rpartition(":")
    if not colon:
        host, port = node, str(app.port)
    if not host or not (re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 65_536):
        raise SpecError(f"--nodes: {shown(node)} is not host:port, such as 127.0.0.1:{app.port}")
    return f"{host}:{port}"


def with_flag_options(url: SystemUrl, request: AppRequest) -> SystemUrl:
    """The system with the driver options that flags set; those of the URL win."""
    if url.driver not in ("cql", "redis"):
        return url
    values = {
        "username": request.text("username"),
        "datacenter": request.text("with_local_dc"),
        "cluster": "true" if request.has("use_redis_cluster") else None,
    }
    if request.app.store == "cql":
        # The original's consistency, and its connections divided among the workers.
        connect_ms = request.whole("cql_connect_timeout_ms")
        values |= {
            "consistency": "QUORUM",
            "connections_per_node": str(math.ceil(_connections(request) / _workers(request))),
            "read_consistency": "ONE" if request.has("local_reads") else None,
            "connect_timeout_ms": None if connect_ms is None else str(connect_ms),
        }
    options = _tls_options(request)
    options |= {name: value for name, value in values.items() if value is not None}
    password = request.get("password", Secret)
    if password is not None:
        options["password_env"] = PASSWORD_VARIABLE
    return SystemUrl(url.driver, {**options, **url.options}, url.text, url.password or password)


def _tls_options(request: AppRequest) -> dict[str, str]:
    certificate, key = request.text("ssl_cert"), request.text("ssl_key")
    if key is not None and certificate is None:
        raise SpecError("--ssl_key needs --ssl_cert")
    if certificate is None:
        return {}
    files = {"ca_file": certificate} if key is None else {"cert_file": certificate, "key_file": key}
    return {"tls": "true", **files}


def run_of(request: AppRequest, workload: WorkloadSpec, system: SystemUrl) -> RunSpec:
    """The application's run. It ends after --run_time, or when its groups have ended."""
    optional: dict[str, Any] = {}
    limit_ms = request.whole("cql_read_timeout_ms") or request.whole("socket_timeout")
    if limit_ms is not None:
        optional["timeout_ns"] = limit_ms * 10**6
    if system.driver in _STORES_NO_VALUES:
        groups = [group.model_copy(update={"check_values": "none"}) for group in workload.groups]
        workload = workload.model_copy(update={"groups": tuple(groups)})
    if system.driver == "cql":
        optional["workers"] = _workers(request)
    seconds = max(request.whole("run_time") or 0, 0)
    ends = all(group.operations is not None for group in workload.groups)
    return RunSpec(
        workload=workload,
        system=system,
        duration_ns=seconds * 10**9 or (None if ends else ENDLESS_NS),
        interval_ns=request.whole("interval") or _INTERVAL_NS,
        load="always" if workload.dataset.loaded else "never",
        settle=False,
        pin=_cores(request),
        seed=request.whole("seed") or 1,
        **optional,
    )


def _cores(request: AppRequest) -> tuple[int, ...]:
    text = request.text("pin")
    return () if text is None else listed(text, count)


def _connections(request: AppRequest) -> int:
    return request.whole("concurrent_clients") or _CONNECTIONS


def _workers(request: AppRequest) -> int:
    """A worker per core, and at most one per connection, since each has its own connections."""
    return min(len(_cores(request) or os.sched_getaffinity(0)), _connections(request))
