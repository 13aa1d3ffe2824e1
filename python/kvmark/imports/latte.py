"""latte's JSON report: the whole run, and a sample per interval with the same parts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from kvmark.imports.reading import NAMES, NS, Collector, Format, Interval, decode_bounded
from kvmark.imports.source import Source, json_number

_REQUEST: Final = "request"
_SETTINGS: Final = ("workload", "rate", "threads", "concurrency", "cluster_name", "cass_version")


def _begins(source: Source) -> int | None:
    document = source.document
    if not isinstance(document, dict) or not {"conf", "percentiles", "result"} <= set(document):
        return None
    return 1


def _read(found: Collector) -> None:
    source, document = found.source, found.source.document
    conf, result = document["conf"], document["result"]
    if not isinstance(conf, dict) or not isinstance(result, dict):
        raise source.error(None, "conf and result must be objects: unsupported version")
    statistics = _statistics(source, document["percentiles"])
    found.said |= {key: str(conf[key]) for key in _SETTINGS if conf.get(key) is not None}
    _take_start(found, result)
    found.case()
    for key, (quantity, unit) in NAMES["latte"].items():
        found.add(None, quantity, json_number(source, key, result.get(key)), unit)
    for key, (quantity, unit) in NAMES["latte_means"].items():
        if isinstance(result.get(key), dict):
            _add_mean(found, key, result[key], quantity, unit)
    for operation, part in _timed(result):
        _add_times(found, statistics, operation, part)
    log = result.get("log", [])
    for row in log if isinstance(log, list) else ():
        _add_interval(found, statistics, row)


def _take_start(found: Collector, result: Mapping[str, Any]) -> None:
    try:
        started = datetime.fromisoformat(str(result.get("start_time")))
    except ValueError:
        return
    if started.tzinfo is not None:
        found.started_wall_ns = int(started.timestamp() * NS["s"])


def _statistics(source: Source, percentiles: Any) -> list[str]:
    """The names of the percentiles that every list in the report has; 0 and 100 are extremes."""
    if not isinstance(percentiles, list) or len(percentiles) > 1000:
        raise source.error(None, "percentiles must be a list")
    numbers = [json_number(source, "a percentile", each) for each in percentiles]
    if any(each is None or not 0 <= each <= 100 for each in numbers):
        raise source.error(None, "percentiles must lie between 0 and 100")
    names = [f"p{each:g}" for each in numbers]
    return [{"p0": "min", "p100": "max"}.get(name, name) for name in names]


def _timed(part: Mapping[str, Any]) -> list[tuple[str | None, Any]]:
    """The operations of a result or a sample that have times; none is all of them together."""
    by_function = part.get("cycle_latency_by_fn")
    functions = by_function.items() if isinstance(by_function, dict) else ()
    return [(None, part.get("cycle_latency")), *functions, (_REQUEST, part.get("request_latency"))]


def _add_mean(
    found: Collector, key: str, mean: Mapping[str, Any], quantity: str, unit: str, **of: Any
) -> None:
    """Adds a value with its error; `of` are its statistic and its operation."""
    value, error, n = (
        json_number(found.source, key, mean.get(part)) for part in ("value", "std_err", "n")
    )
    # Percentiles have a number of samples that is always 100: only the mean's says something.
    known = n if of.get("statistic") in {None, "mean"} else None
    found.add(None, quantity, value, unit, error=error, n=known, **of)


def _add_times(found: Collector, statistics: list[str], operation: str | None, part: Any) -> None:
    if not isinstance(part, dict):
        return
    for name, mean in _means(found.source, statistics, part).items():
        _add_mean(found, name, mean, "service", "ms", statistic=name, operation=operation)
    encoded = part.get("histogram")
    if isinstance(encoded, str):
        counts = decode_bounded(found.source, None, encoded, NS["ns"])
        found.histogram(counts, "service", operation=operation)


def _means(
    source: Source, statistics: list[str], part: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    percentiles = part.get("percentiles")
    if not isinstance(percentiles, list) or len(percentiles) != len(statistics):
        raise source.error(None, "a list of percentiles isn't as long as their names")
    named = {"mean": part.get("mean"), **dict(zip(statistics, percentiles, strict=True))}
    if not all(isinstance(each, dict) for each in named.values()):
        raise source.error(None, "a time needs value, std_err and n")
    return {name: each for name, each in named.items() if isinstance(each, dict)}


def _add_interval(found: Collector, statistics: list[str], row: Any) -> None:
    source = found.source
    if not isinstance(row, dict):
        raise source.error(None, "a sample of the log is no object")
    start_s = json_number(source, "time_s", row.get("time_s"))
    length_s = json_number(source, "duration_s", row.get("duration_s"))
    if start_s is None or length_s is None or not 0 <= start_s < 1e9 or not 0 <= length_s < 1e9:
        raise source.error(None, "a sample of the log has no time or no duration")
    count = json_number(source, "cycle_count", row.get("cycle_count"))
    plain = {
        name: value for name, value in row.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }  # fmt: skip
    start_ns, end_ns = (round(at_s * NS["s"]) for at_s in (start_s, start_s + length_s))
    for operation, part in _timed(row):
        if not isinstance(part, dict) or operation == _REQUEST:
            continue
        means = _means(source, statistics, part)
        values = {
            name: json_number(source, name, each.get("value")) for name, each in means.items()
        }
        times = {name: value * NS["ms"] for name, value in values.items() if value is not None}
        is_whole = operation is None
        own_count = int(count) if is_whole and count is not None else None
        written: dict[str, float | None] = {**(plain if is_whole else {}), **values}
        interval = Interval(0, operation, start_ns, end_ns, own_count, {"service": times}, written)
        found.interval(None, interval)


LATTE: Final = Format("latte", "a latte report", "latte", _begins, _read, is_json=True)
