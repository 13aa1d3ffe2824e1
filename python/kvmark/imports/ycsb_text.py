"""YCSB's text: status lines while it goes, then `[METRIC], Measurement, value`."""

from __future__ import annotations

import re
from typing import Final

from kvmark.imports.numbers import NUMBER, number
from kvmark.imports.reading import NS, Collector, Format, Interval, Reading
from kvmark.imports.source import Source, shown
from kvmark.imports.ycsb import TOOL, Measurement, collect, time_of

__all__ = ["YCSB_TEXT"]

_BEGINS: Final = re.compile(r"\[OVERALL\], RunTime\(ms\), ")
_MEASUREMENT: Final = re.compile(r"\[([^\[\]]+)\], ([^,]+), ?(.*)")
_STATUS: Final = re.compile(
    rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d:\d{{3}} (\d{{1,9}}) sec: (\d{{1,15}}) operations;"
    rf"(?: ({NUMBER}) current ops/sec;)?"
)
_SUMMARY: Final = re.compile(r"\[([\w-]+): Count=(\d{1,15}), ([^\]]*)\]")
_FIELD: Final = re.compile(rf"(Max|Min|Avg|\d+(?:\.\d+)?)=({NUMBER})")
_FIELDS: Final = {"Max": "max", "Min": "min", "Avg": "mean"}
_VERSION: Final = re.compile(r"YCSB Client (\S+)")
_COMMAND: Final = "Command line: "
_BINDING: Final = re.compile(r"-db (?:\w+\.)*?(\w+)\.(\w+)(?:\s|$)")
_LONGEST: Final = 10_000
# What else may fall between the results: a logger's line in whatever form, but none of YCSB's own.
_BESIDE: Final = re.compile(r"[^\[].*\b(?:TRACE|DEBUG|INFO|WARN|ERROR)\b.*|DBWrapper: .*")


def _begins(source: Source) -> int | None:
    for line, text in enumerate(source.lines, 1):
        if _BEGINS.match(text):
            return line
        if line == 1 and text.startswith(_COMMAND) and "-db " in text:
            return 1
        if text.startswith("YCSB Client "):
            return line
    return None


def _read(source: Source) -> Reading:
    source.ends()
    found = Collector(source, TOOL)
    measurements: list[Measurement] = []
    before = (0, 0)
    for line, text in found.lines():
        measured = _MEASUREMENT.fullmatch(text)
        status = _STATUS.match(text)
        if measured:
            value = number(source, line, measured[3])
            measurements.append(Measurement(line, measured[1], measured[2], value))
        elif status:
            now = (int(status[1]), int(status[2]))
            _add_status(found, line, text, before, now)
            before = now
        elif not measurements:
            _take_header(found, text)
        elif _BESIDE.fullmatch(text):
            found.passed_over += 1
        elif text.strip():
            message = f"{shown(text)} stands between YCSB's results: the file is mixed or damaged"
            raise source.error(line, message)
    if not measurements:
        raise source.error(len(source.lines), "it ends before YCSB's results: it may be cut off")
    collect(found, measurements)
    return found.done()


def _take_header(found: Collector, text: str) -> None:
    if text.startswith(_COMMAND):
        command = text.removeprefix(_COMMAND).strip()[:_LONGEST]
        found.said["command line"] = command
        binding = _BINDING.search(command)
        if binding:
            # The class is named after its package: site.ycsb.db.rocksdb.RocksDBClient.
            found.system = binding[2].removesuffix("Client") or binding[1]
    version = _VERSION.match(text)
    if version:
        found.version = version[1]


def _add_status(
    found: Collector, line: int, text: str, before: tuple[int, int], now: tuple[int, int]
) -> None:
    """The operations of a status line; both instants are a second and the operations until then.

    Seconds are whole: an interval whose line came within the same second has no known length.
    """
    if now < before:
        raise found.source.error(line, "its seconds run backwards: lines are mixed up")
    start_ns, end_ns = before[0] * NS["s"], now[0] * NS["s"]
    if now[1] > before[1]:
        count = now[1] - before[1]
        found.interval(line, Interval(0, None, start_ns, end_ns, count, written={"Count": count}))
    for summary in _SUMMARY.finditer(text):
        operation, time = time_of(summary[1])
        count = int(summary[2])
        values = {
            _FIELDS.get(name, f"p{name}"): number(found.source, line, v)
            for name, v in _FIELD.findall(summary[3])
        }
        known = {name: value * NS["us"] for name, value in values.items() if value is not None}
        times = known if count else {}
        found.interval(
            line,
            Interval(
                0,
                operation,
                start_ns,
                end_ns,
                count,
                times={time: times} if times else {},
                written={"Count": count, **values},
            ),
        )


YCSB_TEXT: Final = Format("ycsb-text", "YCSB text", _begins, _read)
