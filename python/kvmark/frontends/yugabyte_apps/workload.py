"""An application's file with everything in it that the words ask for."""

from __future__ import annotations

import copy
import math
import random
import uuid
from typing import Any, Final

from kvmark.errors import SpecError
from kvmark.frontends.yugabyte_apps.flags import VALUES
from kvmark.frontends.yugabyte_apps.servers import Server
from kvmark.frontends.yugabyte_apps.tables import say_tables
from kvmark.frontends.yugabyte_apps.words import Asked
from kvmark.spec.suggest import shown
from kvmark.spec.workload import WorkloadSpec
from kvmark.spec.yaml_file import read_document

PURE_READ_KEYS: Final = 100_000
"""Keys that are written first where nobody writes."""
_UNSIZED: Final = 0
_SMALLEST_ZIPFIAN: Final = 10
"""Bytes of the shortest value where sizes differ: room for a checksum."""
_DEFAULT_MAX: Final = 64 * 1024
_METRICS: Final = (5_000, 10_000)

Content = dict[str, Any]


def workload_of(asked: Asked, text: str, server: Server) -> WorkloadSpec:
    """The workload of an application whose file is given, with the flags in it.

    Raises:
        SpecError: flags contradict each other, or their values aren't possible.
    """
    app = asked.app
    if app is None:
        raise SpecError("app needs the name of an application")
    _check(asked)
    document = read_document(text, f"{app.name}.yaml")
    content = _copied(document.value)
    for change in (_keys, _values, _pipelines, _own, _groups, _present):
        change(content, asked)
    return document.check_part(say_tables(content, asked, server), WorkloadSpec)


def _copied(value: object) -> Content:
    if not isinstance(value, dict):
        raise SpecError("an application's file is a mapping")
    return copy.deepcopy(value)


def counted_commands(asked: Asked, workload: WorkloadSpec) -> dict[str, int]:
    """Operations of the published table that one request of each side is."""
    sides = {"readers": "Read", "writers": "Write"}
    content = workload.model_dump(mode="json")
    counted = {}
    for group in workload.groups:
        (statement,) = group.mix.weights()
        name = "WRITE" if statement == "INSERT" else statement
        size = content["statements"][name]["commands"].get("size", 1)
        several = asked.app is not None and asked.app.counts_commands
        counted[sides[group.name]] = int(size) if several else 1
    return counted


def _check(asked: Asked) -> None:
    if asked.has("read_only") and not (asked.has("uuid") or asked.has("nouuid")):
        raise SpecError("--read_only reads keys of an earlier run: give its --uuid, or --nouuid")
    if asked.has("password") and not asked.has("username"):
        raise SpecError("--password needs --username")
    if asked.has("create_table_name") and asked.has("drop_table_name"):
        raise SpecError("--create_table_name and --drop_table_name can't both be given")
    if asked.has("uuid") and asked.has("nouuid"):
        raise SpecError("--uuid and --nouuid can't both be given")
    if asked.has("skip_workload") and not asked.has("drop_table_name"):
        raise SpecError("--skip_workload only drops a table: give --drop_table_name")


def _keys(content: Content, asked: Asked) -> None:
    """How many keys there are, and what they begin with."""
    dataset = content["dataset"]
    unique = asked.whole("num_unique_keys")
    if unique is not None:
        dataset["records"] = unique
    if asked.has("nouuid"):
        return
    given = asked.text("uuid")
    try:
        prefix = uuid.uuid4() if given is None else uuid.UUID(given)
    except ValueError:
        raise SpecError(f"--uuid: {shown(given or '')} is not a UUID") from None
    dataset["key"] = {**dataset["key"], "prefix": f"{prefix}:"}


def _values(content: Content, asked: Asked) -> None:
    """Values of a size, which then carry a checksum; without a size they are `val:N`."""
    size = asked.whole("value_size") or _UNSIZED
    if size == _UNSIZED or asked.app is None or asked.app.name not in VALUES:
        return
    arguments = content["arguments"]
    for name in ("value", "next_value"):
        if name in arguments:
            one = arguments[name]
            arguments[f"{name}_label"] = one
            arguments[name] = {
                "generator": "checked",
                "prefix": f"{name}_label",
                "length": _length(asked, size),
                "ascii": asked.has("use_ascii_values"),
                **({"each": one["each"]} if "each" in one else {}),
            }


def _length(asked: Asked, size: int) -> Any:
    """One length, or lengths that double, the shortest the most likely, with the mean `size`."""
    exponent = asked.number("subkey_value_size_zipf_exponent") or 0.0
    if exponent <= 0:
        return size
    longest = asked.whole("subkey_value_max_size") or _DEFAULT_MAX
    steps = longest.bit_length() - _SMALLEST_ZIPFIAN.bit_length() + 1
    weights = [0] * 2 ** (steps - 1)
    for step in range(steps):
        weights[2**step - 1] = max(1, round(10**6 * (step + 1) ** -exponent))
    total = sum(weights)
    mean = sum((place + 1) * weight for place, weight in enumerate(weights)) / total
    block = max(_SMALLEST_ZIPFIAN, round(size / mean))
    while block * len(weights) > longest and len(weights) > 1:
        weights = weights[: len(weights) // 2]
    return {"distribution": "histogram", "block_size": block, "weights": weights}


def _pipelines(content: Content, asked: Asked) -> None:
    """Batches and pipelines: how many commands an operation sends."""
    statements = content["statements"]
    length = asked.whole("pipeline_length")
    if length is not None:
        for name in ("WRITE", "READ"):
            statements[name]["commands"] = length
    batch = asked.whole("batch_size")
    name = "" if asked.app is None else asked.app.name
    if name == "CassandraBatchKeyValue" and batch is not None:
        statements["WRITE"]["commands"] = batch
    if name == "CassandraSecondaryIndex" and asked.has("batch_write"):
        # The records that are there first are inserted one by one.
        statements["LOAD"] = dict(statements["WRITE"])
        content["load"] = "LOAD"
        statements["WRITE"] |= {"commands": batch or 1, "options": {"batch": "logged"}}


def _own(content: Content, asked: Asked) -> None:
    """What only one of the applications has."""
    name = "" if asked.app is None else asked.app.name
    if name == "CassandraBatchTimeseries":
        _timeseries(content, asked)
    elif name == "CassandraPersonalization":
        _coupons(content, asked)
    elif name == "RedisHashPipelined":
        _hashes(content, asked)


def _timeseries(content: Content, asked: Asked) -> None:
    least = asked.whole("min_metrics_count") or _METRICS[0]
    most = asked.whole("max_metrics_count") or max(least, _METRICS[1])
    if least > most:
        raise SpecError("--min_metrics_count must not be above --max_metrics_count")
    seed = asked.whole("seed") or 1
    metrics = least if least == most else random.Random(seed).randrange(least, most)  # noqa: S311
    batch = asked.whole("batch_size") or 500
    limit = asked.whole("read_batch_size") or 100
    back = asked.whole("read_back_delta_from_now") or 180
    arguments, statements = content["arguments"], content["statements"]
    arguments["series"]["modulo"] = metrics
    for one in ("ts", "from", "to"):
        arguments[one] |= {"divide": metrics, "times": batch}
    end = batch + 2
    arguments["to"]["start"] = end
    arguments["from"]["start"] = end - back
    statements["WRITE"]["commands"] = batch
    read = statements["READ"]
    read["run"] = read["run"].replace("LIMIT 100", f"LIMIT {limit}")
    # Of a metric's first batch there is nothing before it.
    sure = min(limit, batch, back - 2)
    read["check"][0] = {"least": sure, "most": limit}
    content["groups"][1]["keys"]["window"] = metrics


def _coupons(content: Content, asked: Asked) -> None:
    stores = asked.whole("num_stores") or 1
    new = asked.whole("num_new_coupons_per_customer") or 150
    most = asked.whole("max_coupons_per_customer") or max(3000, new)
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


def _hashes(content: Content, asked: Asked) -> None:
    subkeys = asked.whole("num_subkeys_per_key") or 100
    write = asked.whole("num_subkeys_per_write") or 10
    read = asked.whole("num_subkeys_per_read") or 10
    for name, each in (("num_subkeys_per_write", write), ("num_subkeys_per_read", read)):
        if each > subkeys:
            raise SpecError(f"--{name} must not be above --num_subkeys_per_key, which is {subkeys}")
    arguments, statements = content["arguments"], content["statements"]
    commands = math.ceil(subkeys / write)
    # The last command begins again with the first sub-keys where the division leaves a rest.
    arguments["next"]["modulo"] = subkeys
    arguments["number"] |= {
        "count": subkeys,
        "law": _law(asked.number("subkey_freq_zipf_exponent")),
    }
    statements["INSERT"] |= {"commands": commands, "items": write}
    statements["WRITE"]["items"] = write
    statements["READ"]["items"] = read
    for group in content["groups"]:
        group["keys"] = _law(asked.number("key_freq_zipf_exponent"))


def _law(exponent: float | None) -> Any:
    theta = 1.0 if exponent is None else exponent
    if theta <= 0:
        return "uniform"
    return {"distribution": "zipfian", "theta": theta, "scrambled": False}


def _groups(content: Content, asked: Asked) -> None:
    """Writers and readers: how many, how fast, how much, with what pause."""
    kept = []
    for group, kind, does in zip(
        content["groups"], ("write", "read"), ("writes", "reads"), strict=True
    ):
        clients = asked.whole(f"num_threads_{kind}")
        if clients == 0 or (kind == "write" and asked.has("read_only")):
            continue
        changed = {**group, "clients": group["clients"] if clients is None else clients}
        total = asked.whole(f"num_{does}")
        if total is not None:
            changed.pop("operations", None)
            if total >= 0:
                changed["operations"] = max(1, math.ceil(total / _commands(content, group, asked)))
        elif "operations" in group and kind == "write" and asked.has("batch_size"):
            changed["operations"] = math.ceil(2_000_000 / _commands(content, group, asked))
        rate = asked.number(f"{kind}_rate")
        if rate:
            changed["rate"] = rate / _commands(content, group, asked)
        elif asked.whole("sleep_time"):
            changed["think_time"] = f"{asked.whole('sleep_time')}ms"
        kept.append(changed)
    if not kept:
        raise SpecError("there are neither readers nor writers; give --num_threads_read or _write")
    content["groups"] = kept


def _commands(content: Content, group: Content, asked: Asked) -> int:
    """Operations of the table that one operation of the engine is."""
    if asked.app is None or not asked.app.counts_commands:
        return 1
    (statement,) = group["mix"]
    counted = "WRITE" if statement == "INSERT" else statement
    return int(content["statements"][counted].get("commands", 1))


def _present(content: Content, asked: Asked) -> None:
    """Which keys are there before the run: none, those of an earlier one, or a hundred thousand."""
    dataset = content["dataset"]
    written = asked.whole("max_written_key")
    writes = any(group["name"] == "writers" for group in content["groups"])
    if asked.has("read_only"):
        # An earlier run wrote them: they are taken to be there.
        dataset["present"] = dataset["records"] if written is None else written + 1
    elif written is not None:
        dataset["present"] = written + 1
    elif not writes:
        dataset["loaded"] = True
        unique = asked.whole("num_unique_keys")
        dataset["records"] = min(PURE_READ_KEYS, unique or PURE_READ_KEYS)
        if asked.app is not None and asked.app.name == "CassandraBatchTimeseries":
            batch = int(content["statements"]["WRITE"]["commands"])
            dataset["records"] = math.ceil(PURE_READ_KEYS / batch)
