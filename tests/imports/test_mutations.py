"""Damaged files end in figures or in a sentence: never in a traceback, never in a hang.

Every sample is cut anywhere, its lines swapped and doubled, its numbers and bytes changed.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from imports.samples import HERE, Read
from kvmark.analysis.summary.imported import imported_rows
from kvmark.errors import ImportFileError
from kvmark.imports.reading import decode_bounded
from kvmark.imports.recognition import read_file
from kvmark.imports.source import Source
from kvmark.imports.writing import imported_record, intervals_table, written_table
from kvmark.stats import Counts

FILES = sorted([*HERE.glob("data/*/*"), *HERE.glob("variants/*")])
LARGEST = 20_000
CAREFUL = settings(
    max_examples=25,
    suppress_health_check=list(HealthCheck),
)


def shortened(path: Path) -> bytes:
    """As much of a file as is still whole: few lines of a log, few samples of a report."""
    content = path.read_bytes()
    if len(content) <= LARGEST:
        return content
    if path.suffix == ".json":
        document = json.loads(content)
        del document["result"]["log"][1:]
        return json.dumps(document, indent=1).encode()
    lines = content.splitlines(keepends=True)
    return b"".join(lines[:12] if path.suffix == ".hlog" else lines[:150])


SAMPLES = {path.name: shortened(path) for path in FILES}


def kept(content: bytes, folder: Path) -> str:
    """What becomes of a file that is read and kept: nothing, or the sentence that refuses it."""
    path = folder / "mutated"
    path.write_bytes(content)
    try:
        reading = read_file(path)
    except ImportFileError as problem:
        assert str(problem).isprintable()
        return str(problem)
    assert all(0 <= each.start_ns <= each.end_ns for each in reading.intervals)
    assert all(math.isfinite(figure.value) for figure in reading.figures)
    intervals_table(reading)
    written_table(reading)
    imported_rows(imported_record(reading))
    return ""


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_cut_within_its_lines_is_never_taken_for_whole(name: str, tmp_path: Path) -> None:
    content = next(path for path in FILES if path.name == name).read_bytes()
    for end in range(1, len(content) - 1, max(1, len(content) // 40)):
        cut = content[:end]
        assert cut.endswith(b"\n") or not cut.strip() or kept(cut, tmp_path), end


def nodes(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The places of all values in a JSON document, but for its root."""
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in parts:
        yield (*place, key)
        if isinstance(part, dict | list):
            yield from nodes(part, (*place, key))


@pytest.mark.parametrize("name", [name for name in SAMPLES if name.endswith(".json")])
@settings(CAREFUL, max_examples=60)
@given(data=st.data())
def test_values_of_another_kind_end_in_figures_or_a_sentence(
    name: str, data: st.DataObject, tmp_path: Path
) -> None:
    document = json.loads(SAMPLES[name])
    places = list(nodes(document))
    *parents, last = data.draw(st.sampled_from(places))
    holder = document
    for key in parents:
        holder = holder[key]
    holder[last] = data.draw(
        st.sampled_from([None, True, "x", -1, 2**70, 0.5, [], {}, [1], {"a": 1}])
    )
    kept(json.dumps(document).encode(), tmp_path)


@CAREFUL
@given(content=st.binary(max_size=400))
def test_any_bytes_end_in_a_sentence(content: bytes, tmp_path: Path) -> None:
    kept(content, tmp_path)


def decoded(inner: bytes) -> Counts:
    """The counts of a histogram that is packed as HdrHistogram does."""
    packed = zlib.compress(inner)
    whole = struct.pack(">ii", 0x1C849304, len(packed)) + packed
    return decode_bounded(Source("log", b"", ""), 1, base64.b64encode(whole).decode(), 1)


@settings(CAREFUL, max_examples=100)
@given(
    payload=st.binary(max_size=60),
    header=st.tuples(
        *[st.integers(-(2**31), 2**31 - 1)] * 4, *[st.integers(-(2**63), 2**63 - 1)] * 2
    ),
    honest=st.booleans(),
)
def test_any_histogram_ends_in_counts_or_a_sentence(
    *, payload: bytes, header: tuple[int, ...], honest: bool
) -> None:
    cookie, _, offset, digits, lowest, highest = header
    if honest:
        cookie, offset, digits = 0x1C849303, 0, 1 + digits % 5
        lowest, highest = 1, 2 + abs(highest) % 2**40
    inner = struct.pack(">iiiiqqd", cookie, len(payload), offset, digits, lowest, highest, 1.0)
    try:
        counts = decoded(inner + payload)
    except ImportFileError:
        return
    assert (counts.count > 0).all()
    assert (counts.low >= 0).all()
    assert (counts.low <= counts.high).all()


def test_a_histogram_that_unpacks_to_gigabytes_is_refused_unopened() -> None:
    with pytest.raises(ImportFileError, match="it isn't whole"):
        decoded(b"\0" * (20 << 20))


def test_lines_of_a_megabyte_take_no_longer_than_others(read: Read) -> None:
    # Patterns that backtrack would need hours for these.
    head = b"type total ops, op/s, stderr\n"
    starts = [
        head + b"Results:\nOp", b"total ops, op/s", b"[READ], ", b"[" * 10, b"|", b"Running ",
        b"Read: ", b"-db a.", b"type total ops,",
    ]  # fmt: skip
    fills = [b"a", b".", b",", b" ", b"1", b": ", b"(", b"READ: 1 ", b"[A: Count=1, "]
    for start in starts:
        for fill in fills:
            with pytest.raises(ImportFileError):
                read(start + fill * (100_000 // len(fill)) + b"\n")


# Many more, by a seed: `KVMARK_MUTATIONS=10000 pytest -k every_mutation` for a long search.

CASES = int(os.environ.get("KVMARK_MUTATIONS", "30"))
ODD_NUMBERS = (
    "0", "-1", "-0", "inf", "-inf", "Infinity", "∞", "NaN", "nan", "1e999", "-1e999", "1e308",
    "1e40", "1e18", "1E-400", "18446744073709551616", "9223372036854775808", "9" * 30, "9" * 400,
    "9" * 5000, "0.0000001", "1,234", "1.234,5", "0x10", "١٢", "²", "", "null", "--5",
)  # fmt: skip
STRAY_LINES = (
    "WARN  [cluster1-nio-worker-1] 2026-11-21 03:27:16,849 RequestHandler.java:303 - Query, a, b",
    "OpenJDK 64-Bit Server VM warning: Option UseConcMarkSweepGC was deprecated",
    "\tat org.apache.cassandra.stress.Stress.main(Stress.java:62)",
    "ann@host:~$ ls", "\x1b[32mgreen\x1b[0m", "\x1b]0;title\x07", "\x1b[2J", "50 %\r100 %",
    "\N{ZERO WIDTH NO-BREAK SPACE}", "", ",", "{}", "[]", "Results:", "#", "total", "-" * 20,
)  # fmt: skip
NUMBER = re.compile(rb"\d+(?:\.\d+)?")


def changed_number(chance: Random, content: bytes) -> bytes:
    if not (found := list(NUMBER.finditer(content))):
        return content
    at = chance.choice(found)
    return content[: at.start()] + chance.choice(ODD_NUMBERS).encode() + content[at.end() :]


def changed_lines(chance: Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(5):
        case 0:
            lines[first], lines[second] = lines[second], lines[first]
        case 1:
            lines.insert(first, lines[second])
        case 2:
            del lines[first]
        case 3:
            lines.insert(first, chance.choice(STRAY_LINES).encode() + b"\n")
        case _:
            lines[first] = lines[first][: chance.randrange(len(lines[first]) + 1)] + b"\n"
    return b"".join(lines)


def changed_bytes(chance: Random, content: bytes) -> bytes:
    at = chance.randrange(len(content) + 1)
    match chance.randrange(4):
        case 0:
            return content[:at]
        case 1:
            return content[:at] + chance.randbytes(chance.randrange(1, 4)) + content[at:]
        case 2:
            return content[:at] + chance.choice(STRAY_LINES).encode() + content[at:]
        case _:
            return content.replace(b"\n", chance.choice([b"\r\n", b"\r\r\n", b"\r"]))


@pytest.mark.parametrize("name", SAMPLES)
def test_every_mutation_ends_in_a_run_or_a_sentence(name: str, tmp_path: Path) -> None:
    assert kept(SAMPLES[name], tmp_path) == ""
    changes = (changed_number, changed_number, changed_lines, changed_bytes)
    for case in range(CASES):
        chance, content = Random(f"{name} {case}"), SAMPLES[name]
        for _ in range(chance.choice((1, 1, 2, 3))):
            content = chance.choice(changes)(chance, content)
        try:
            kept(content, tmp_path)
        except Exception as problem:
            raise AssertionError(f"case {case} of {name} ended in {problem!r}") from problem
