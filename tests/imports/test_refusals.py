"""What can't be imported is refused with one sentence that names file and line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kvmark.errors import ImportFileError
from kvmark.imports import reading
from kvmark.imports.recognition import ReadFile, read_file
from kvmark.imports.source import read_source

Read = Callable[[str | bytes], ReadFile]

YCSB = """\
[OVERALL], RunTime(ms), 1000
[OVERALL], Throughput(ops/sec), 10.0
[READ], Operations, 10
[READ], AverageLatency(us), 8.5
[READ], MaxLatency(us), 20
[READ], Return=OK, 10
"""


def refused(read: Read, content: str | bytes) -> ImportFileError:
    with pytest.raises(ImportFileError) as caught:
        read(content)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert "/results:" in sentence
    return caught.value


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        (b"", None, "it is empty"),
        (b" \n\n", None, "it is empty"),
        (gzip.compress(YCSB.encode()), None, "compressed with gzip"),
        (YCSB.encode("utf-16"), 1, "UTF-16"),
        (b"\x7fELF\x02\x01\x01\x00\x00", 1, "bytes that no text has"),
        (YCSB.encode() + b"[UPDATE], Return=\xe9, 1\n", 7, "byte 0xe9 isn't UTF-8"),
        (b"Dear reader,\nnothing was measured.\n", 1, "of no known kind"),
        (b"name,colour\napple,red\n", 1, "of no known kind"),
        (b'{"hello": 1}', 1, "of no known kind"),
        (b'{"hello": ', 1, "the JSON can't be read"),
        (b"[" * 100_000 + b"{", 1, "known kind"),
        (b'{"a":' * 100_000, 1, "the JSON can't be read"),
    ],
)
def test_what_holds_no_results_is_refused(
    read: Read, content: bytes, line: int | None, says: str
) -> None:
    problem = refused(read, content)
    assert says in problem.message
    assert problem.line == line


def test_a_file_that_is_not_there_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path, Path("/dev/zero")):
        with pytest.raises(ImportFileError, match="name a file of results"):
            read_file(path)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ImportFileError, match="1048576 MiB and at most 64 MiB"):
        read_source(path)


def test_a_table_with_more_figures_than_anyone_reads_is_refused(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_FIGURES", 50)
    rows = [f"{number},1.5" for number in range(51)]
    problem = refused(read, "\n".join(["clients,p99_ms", *rows, ""]))
    assert "more than 50 figures" in problem.message


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (YCSB.rstrip("\n"), 6, "the last line has no end"),
        (YCSB[:30], 2, "no end"),
        ("".join(YCSB.splitlines(keepends=True)[:1]), 1, "[OVERALL] isn't complete"),
        ("".join(YCSB.splitlines(keepends=True)[:2]), 2, ""),
        ("".join(YCSB.splitlines(keepends=True)[:3]), 3, "[READ] isn't complete"),
        (YCSB.replace("10.0", "20.0"), 6, "add up to 10, those of [OVERALL] to 20"),
        (YCSB + YCSB, 7, "a second runtime value"),
        (YCSB + "hello there\n[READ], MinLatency(us), 1\n", 7, "is among YCSB's results"),
        (YCSB.replace("8.5", "8,5"), 4, "decimal comma"),
        (YCSB.replace("8.5", "8.5.1"), 4, "stands where a number belongs"),
        (YCSB.replace("8.5", ""), 4, "stands where a number belongs"),
        ("YCSB Client 0.17.0\n\nLoading workload...\n", 3, "ends before YCSB's results"),
    ],
)
def test_ycsb_text_that_is_not_whole_or_mixed_is_refused(
    read: Read, text: str, line: int, says: str
) -> None:
    if not says:
        # Two lines could be all of an empty run, but not of one with ten operations.
        assert not [f for f in read(text).reading.figures if f.operation]
        return
    problem = refused(read, text)
    assert says in problem.message
    assert problem.line == line


def log(data: Path) -> list[str]:
    path = data / "published/cassandra-stress-direct.log"
    return path.read_text().splitlines(keepends=True)


def test_a_cassandra_stress_log_that_ends_early_is_refused(read: Read, data: Path) -> None:
    lines = log(data)
    for cut in (2, 10, 66, 70, 80):
        problem = refused(read, "".join(lines[:cut]))
        assert "ends before its results" in problem.message
        assert problem.line == cut


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("  6826,  ", "  6,826,  ", 4, "20 columns under a header of 19"),
        ("0.21138", "O.21138", 4, "stands where a number belongs"),
        (
            "Latency mean              :    0.5 ms",
            "Latency mean              :    0,5 ms",
            72,
            "decimal",
        ),
        ("Row rate  ", "Raw rate  ", 71, "is among the results"),
    ],
)
def test_damaged_lines_of_cassandra_stress_are_named(
    read: Read, data: Path, old: str, new: str, line: int, says: str
) -> None:
    text = "".join(log(data))
    assert old in text
    problem = refused(read, text.replace(old, new, 1))
    assert says in problem.message
    assert problem.line == line


def test_lines_that_changed_places_are_found(read: Read, data: Path) -> None:
    lines = log(data)
    lines[4], lines[5] = lines[5], lines[4]
    problem = refused(read, "".join(lines))
    assert "run backwards" in problem.message
    assert problem.line == 6


def test_two_tools_in_one_file_are_told_apart(read: Read, data: Path) -> None:
    problem = refused(read, YCSB + "".join(log(data)))
    assert "a cassandra-stress log begins here inside YCSB text" in problem.message
    assert problem.line == 7
    benchmark = (data / "samples/redis-benchmark.csv").read_text()
    assert "YCSB text begins here inside redis" in refused(read, benchmark + YCSB).message


def test_a_table_with_a_short_line_or_decimal_commas_is_refused(read: Read) -> None:
    text = "store,throughput_ops_s\nRedis,1200.5\n"
    problem = refused(read, text + "RocksDB\n")
    assert (problem.line, "1 columns under a header of 2" in problem.message) == (3, True)
    problem = refused(read, text.replace("1200.5", "1200,5"))
    assert (problem.line, "decimal commas" in problem.message) == (2, True)
    problem = refused(read, text.replace(",", ";").replace("1200.5", "1200,5"))
    assert (problem.line, "decimal comma" in problem.message) == (2, True)
    problem = refused(read, text + '"RocksDB,1\n')
    assert (problem.line, "quotes" in problem.message) == (3, True)
    problem = refused(read, text + "Redis,1300\n")
    assert (problem.line, "a second throughput" in problem.message) == (3, True)


def test_redis_benchmark_cut_within_a_line_is_refused(read: Read, data: Path) -> None:
    text = (data / "samples/redis-benchmark.csv").read_text()
    assert refused(read, text[:-4]).line == 8
    assert "cut off" in refused(read, text[:-4] + "\n").message
    assert "a second 'GET'" in refused(read, text + text.splitlines()[4] + "\n").message


def test_a_db_bench_histogram_without_its_last_buckets_is_refused(read: Read, data: Path) -> None:
    lines = (data / "samples/db_bench.txt").read_bytes().split(b"\n")
    problem = refused(read, b"\n".join([*lines[:40], b""]))
    assert "buckets don't add up to 100000" in problem.message


def test_a_histogram_log_with_a_damaged_histogram_names_its_line(read: Read, data: Path) -> None:
    lines = (data / "samples/cql-stress-fixed.hlog").read_text().splitlines(keepends=True)
    lines[9] = lines[9][:200] + lines[9][204:]
    problem = refused(read, "".join(lines))
    assert problem.line == 10
    assert "a histogram can't be decoded" in problem.message
    problem = refused(read, "".join(lines[:9]) + "Tag=READ-st,1.0,1.0\n")
    assert (problem.line, "no line of a histogram log" in problem.message) == (10, True)
    assert "has no histogram" in refused(read, "#[Histogram log format version 1.3]\n").message


@pytest.mark.parametrize("name", ["memtier.json", "latte-report.json"])
def test_json_that_is_cut_or_has_words_for_numbers_is_refused(
    read: Read, data: Path, name: str
) -> None:
    text = (data / "samples" / name).read_text()
    problem = refused(read, text[: len(text) // 2])
    assert "the JSON can't be read" in problem.message
    assert problem.line is not None
    document = json.loads(text)
    if "result" in document:
        document["result"]["cycle_count"] = "many"
    else:
        document["ALL STATS"]["Sets"]["Count"] = "many"
    assert "is 'many' and not a number" in refused(read, json.dumps(document)).message


def test_nothing_of_a_file_can_command_the_terminal(read: Read) -> None:
    text = YCSB.replace("8.5", "\x1b[2J8")
    assert "\x1b" not in str(refused(read, text))
    text = YCSB.replace("[READ], Operations, 10\n", "").replace("[READ]", "[RE\x07AD]")
    assert "[RE\N{REPLACEMENT CHARACTER}AD] isn't complete" in str(refused(read, text))
