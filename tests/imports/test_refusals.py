"""What can't be imported is refused with one sentence that names file and line."""

from __future__ import annotations

import gzip
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from imports.samples import HERE, Read, path_of
from kvmark.errors import ImportFileError
from kvmark.imports import reading
from kvmark.imports.recognition import read_file

YCSB = """\
[OVERALL], RunTime(ms), 1000
[OVERALL], Throughput(ops/sec), 10.0
[READ], Operations, 10
[READ], AverageLatency(us), 8.5
[READ], MaxLatency(us), 20
[READ], Return=OK, 10
"""


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        (gzip.compress(YCSB.encode()), None, "compressed with gzip"),
        (YCSB.encode("utf-16"), 1, "UTF-16"),
        (b"\x7fELF\x02\x01\x01\x00\x00", 1, "bytes that no text has"),
        (YCSB.encode() + b"[UPDATE], Return=\xe9, 1\n", 7, "byte 0xe9 isn't UTF-8"),
        (b"[" * 100_000 + b"{", 1, "known kind"),
        (b'{"a":' * 100_000, 1, "the JSON can't be read"),
    ],
)
def test_what_holds_no_results_is_refused(
    read: Read, content: bytes, line: int | None, says: str
) -> None:
    with pytest.raises(ImportFileError, match=r"^[^\n]*/results:[^\n]*$") as refusal:
        read(content)
    assert says in refusal.value.message
    assert refusal.value.line == line


def test_a_missing_a_special_and_a_huge_file_are_refused_unread(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path, Path("/dev/zero")):
        with pytest.raises(ImportFileError, match="name a file of results"):
            read_file(path)
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ImportFileError, match="1048576 MiB and at most 64 MiB"):
        read_file(huge)


def test_a_table_with_more_figures_than_anyone_reads_is_refused(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_FIGURES", 50)
    rows = [f"{number},1.5" for number in range(51)]
    with pytest.raises(ImportFileError, match=r"/results:.*more than 50 figures"):
        read("\n".join(["clients,p99_ms", *rows, ""]))


TABLE: Mapping[str, Any] = tomllib.loads((HERE / "refusals.toml").read_text())
BASES: Mapping[str, str] = {
    "nothing": "",
    "ycsb": YCSB,
    "table": "store,throughput_ops_s\nRedis,1200.5\n",
    **{
        name: path_of(file).read_bytes().decode()
        for name, file in (
            ("stress", "cassandra-stress-direct.log"), ("redis", "redis-benchmark.csv"),
            ("db_bench", "db_bench.txt"), ("hlog", "cql-stress-fixed.hlog"),
            ("memtier", "memtier.json"), ("latte", "latte-report.json"),
        )
    },
}  # fmt: skip


def edited(text: str, edit: str, *words: Any) -> str:
    """The text after one change."""
    lines, first = text.splitlines(keepends=True), words[0]
    match edit:
        case "replace":
            assert first in text
            return text.replace(first, words[1], 1)
        case "cut":
            return text[:first]
        case "lines":
            return "".join(lines[:first])
        case "swap":
            lines[first : first + 2] = reversed(lines[first : first + 2])
            return "".join(lines)
        case "again":
            return text + lines[first]
    return text + (BASES[first] if edit == "then" else first)


@pytest.mark.parametrize(
    ("base", "edits", "sentence"), [(base, edits, one) for base, *edits, one in TABLE["refusals"]]
)
def test_what_is_not_whole_damaged_or_mixed_is_refused(
    read: Read, tmp_path: Path, base: str, edits: list[Any], sentence: str
) -> None:
    text = BASES[base]
    for edit in edits:
        text = edited(text, *edit)
    with pytest.raises(ImportFileError) as refusal:
        read(text)
    assert str(refusal.value) == f"{tmp_path}/{sentence}"


def test_two_lines_of_ycsb_may_be_all_of_an_empty_run(read: Read) -> None:
    text = "".join(YCSB.splitlines(keepends=True)[:2])
    assert not [figure for figure in read(text).reading.figures if figure.operation]
