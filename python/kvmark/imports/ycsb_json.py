"""YCSB's JSON exporters: an array of measurements, or one object after another."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from kvmark.imports.numbers import json_number
from kvmark.imports.reading import Collector, Format, Reading
from kvmark.imports.source import Source
from kvmark.imports.ycsb import TOOL, Measurement, collect

__all__ = ["YCSB_JSON"]

_BEGINS: Final = re.compile(r'\s*\[?\s*\{\s*"metric"\s*:')
_SPACE: Final = re.compile(r"\s*")
_KEYS: Final = frozenset({"metric", "measurement", "value"})


def _begins(source: Source) -> int | None:
    return 1 if _BEGINS.match(source.json_text) else None


def _read(source: Source) -> Reading:
    found = Collector(source, TOOL)
    measurements = [_measurement(source, line, each) for line, each in _objects(source)]
    if not measurements:
        raise source.error(1, "it holds no measurement")
    collect(found, measurements)
    found.pass_over()
    return found.done()


def _measurement(source: Source, line: int | None, each: Any) -> Measurement:
    if not isinstance(each, dict) or set(each) != _KEYS:
        raise source.error(line, "a measurement needs metric, measurement and value")
    metric, name = each["metric"], each["measurement"]
    if not isinstance(metric, str) or not isinstance(name, str):
        raise source.error(line, "metric and measurement must be texts")
    value = each["value"]
    if isinstance(value, str) and value.lower() in {"nan", "infinity", "-infinity"}:
        value = None
    return Measurement(line, metric, name, json_number(source, f"{metric} {name}", value))


def _objects(source: Source) -> list[tuple[int | None, Any]]:
    """The objects, with their lines where they stand one after another."""
    if source.json_text.lstrip().startswith("["):
        document = source.document
        return [(None, each) for each in document] if isinstance(document, list) else []
    decoder, text = json.JSONDecoder(), source.json_text
    end_of_text = len(text.rstrip())
    at, line = 0, 1
    found: list[tuple[int | None, Any]] = []
    while at < end_of_text:
        space = _SPACE.match(text, at)
        start = at if space is None else space.end()
        line += text.count("\n", at, start)
        try:
            each, at = decoder.raw_decode(text, start)
        except (RecursionError, ValueError) as problem:
            message = "a measurement can't be read: the file may be cut off or damaged"
            raise source.error(line, message) from problem
        found.append((line, each))
        line += text.count("\n", start, at)
    return found


YCSB_JSON: Final = Format("ycsb-json", "YCSB JSON", _begins, _read)
