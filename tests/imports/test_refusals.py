"""What can't be imported is refused with one sentence that names file and line.

What loggers, virtual machines, shells and terminals leave in a file changes none of its figures; a
row of the tool's own that is cut or damaged is refused, also where such lines stand around it.
"""

from __future__ import annotations

import gzip
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from imports.samples import HERE, Read, path_of
from kvmark.cli import main
from kvmark.errors import ImportFileError
from kvmark.imports import reading
from kvmark.imports.recognition import read_file
from kvmark.imports.source import is_noise

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
    assert not [figure for figure in read(text).figures if figure.operation]


NOISE = [f"{line}\n" for line in tomllib.loads((HERE / "stray_lines.toml").read_text())["lines"]]
DRIVER, MACHINE, PROMPT = NOISE[0], NOISE[9], NOISE[18]
STRESS = path_of("cassandra-stress-direct.log").read_text()
TEXTS = ("ycsb-a.txt", "db_bench.txt", "redis-benchmark.csv", "cql-stress-fixed.hlog")


def among(text: str, *stray: str) -> str:
    """The text with one of the lines after each of its own."""
    lines = text.splitlines(keepends=True)
    return "".join(line + stray[at % len(stray)] for at, line in enumerate(lines))


@pytest.mark.parametrize("line", NOISE)
def test_a_line_of_a_logger_a_machine_or_a_shell_is_known(line: str) -> None:
    assert is_noise(line.rstrip("\n"))


def test_no_line_of_a_tools_own_is_taken_for_one() -> None:
    for path in (*HERE.glob("data/*/*"), *HERE.glob("variants/*")):
        if path.name.startswith("yb-console") or path.name == "db_bench.txt":
            continue  # A logger's from the first line to the last; and warnings of its own.
        stray = [line for line in path.read_text().splitlines() if is_noise(line)]
        assert [line for line in stray if " INFO site.ycsb." not in line] == [], path.name


def test_a_cassandra_stress_log_with_the_drivers_warnings_anywhere_is_read(read: Read) -> None:
    plain, mixed = read(STRESS), read(among(STRESS, *NOISE))
    assert mixed.figures == plain.figures
    assert mixed.intervals == plain.intervals
    count = len(STRESS.splitlines())
    note = f"{count} lines of a logger, a virtual machine or a shell were passed over."
    assert mixed.notes == [*plain.notes, note]


@pytest.mark.parametrize(
    "cut",
    [
        "total,",
        "total",
        "tot",
        "total,      6826,    6826",
        "tot@l,      6826,    6826,    6826,    6826,     0.6,     0.4",
        "6826,    6826,    0.6",
        "total,      6826,    6826,    6826,  WARN  [main] 2026-11-21 03:27:16,849 A.java:3 - B",
    ],
)
def test_a_cut_row_of_cassandra_stress_is_refused_among_warnings(read: Read, cut: str) -> None:
    lines = STRESS.splitlines(keepends=True)
    lines[5:5] = [DRIVER, cut + "\n", DRIVER]
    with pytest.raises(ImportFileError, match=r"results:7: .* columns under a header of"):
        read("".join(lines))


def test_a_row_behind_a_line_of_a_logger_is_not_lost(read: Read) -> None:
    lines = STRESS.splitlines(keepends=True)
    lines[5] = DRIVER.rstrip("\n") + lines[5]
    with pytest.raises(ImportFileError, match="results:6: a logger's line contains a row"):
        read("".join(lines))


def test_a_cut_row_of_one_operation_is_refused(read: Read) -> None:
    lines = path_of("cassandra-stress-3.11.log").read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith("READ,"))
    lines.insert(at + 1, lines[at][:14] + "\n")
    with pytest.raises(ImportFileError, match=f"results:{at + 2}: "):
        read("".join(lines))


def test_a_damaged_document_keeps_the_number_of_its_line(read: Read) -> None:
    text = json.dumps({"conf": 1, "result": 2}, indent=1).replace("2", "2,,")
    with pytest.raises(ImportFileError, match="results:4: the JSON can't be read"):
        read(DRIVER + text)


def dressed(text: str) -> bytes:
    """The text as a terminal's log or an editor of Windows leaves it."""
    coloured = "".join(f"\x1b[1;32m{line}\x1b[0m\x1b[K\r\n" for line in text.splitlines())
    return b"\xef\xbb\xbf\x1b]0;ann@host\x07\x1b[?25l" + coloured.encode()


@pytest.mark.parametrize("name", [*TEXTS, "memtier.json", "latte-report.json"])
def test_such_lines_colours_line_ends_and_byte_order_marks_change_nothing(
    read: Read, name: str
) -> None:
    text = path_of(name).read_text()
    # A document of JSON is in one piece, and other lines stand around it.
    around = MACHINE + DRIVER + text.rstrip("\n") + "\n" + PROMPT
    stray = NOISE[0] + among(text, *NOISE) if name in TEXTS else around
    plain, mixed, coloured = (read(each) for each in (text, stray, dressed(text)))
    assert (mixed.figures, mixed.intervals) == (plain.figures, plain.intervals)
    assert name == "db_bench.txt" or "lines of a logger" in mixed.notes[-1]
    assert (coloured.figures, coloured.intervals) == (plain.figures, plain.intervals)
    assert coloured.notes == plain.notes


def test_progress_that_was_written_over_itself_is_what_a_terminal_shows(read: Read) -> None:
    for text in (STRESS, path_of("db_bench.txt").read_text()):
        over = "".join(f" 10 % done\r 90 % done\r{line}\n" for line in text.splitlines())
        assert read(over).figures == read(text).figures


@pytest.mark.parametrize("name", ["redis-benchmark.csv", "cassandra-initial.csv"])
def test_a_row_that_was_written_over_another_is_refused(read: Read, name: str) -> None:
    lines = path_of(name).read_text().splitlines()
    text = "\n".join([*lines[:2], lines[2] + "\r" + lines[3], *lines[4:], ""])
    with pytest.raises(ImportFileError, match="results:3: a carriage return stands within"):
        read(text)


def test_a_prompt_behind_the_last_line_does_not_make_a_log_cut(read: Read) -> None:
    assert read(STRESS + "ann@host:~$ ").figures == read(STRESS).figures
    with pytest.raises(ImportFileError, match="the last line has no end"):
        read(STRESS.rstrip("\n"))


@pytest.mark.parametrize("cut", ["[READ], Return=ERROR", "[READ], Return=ERROR,", "[REA"])
def test_a_cut_line_of_ycsb_that_speaks_of_errors_is_refused(read: Read, cut: str) -> None:
    with pytest.raises(ImportFileError, match="results:"):
        read(f"{path_of('ycsb-a.txt').read_text()}{DRIVER}{cut}\n")


@pytest.mark.parametrize("number", ["1e999", "1e40", "9" * 30, "-1e25"])
def test_a_figure_beyond_all_bounds_is_refused(read: Read, number: str) -> None:
    texts = [
        "system,throughput_ops_s\nRedis," + number + "\n",
        "[OVERALL], RunTime(ms), 1000\n[OVERALL], Throughput(ops/sec), " + number + "\n",
        '"test","rps"\n"SET","' + number + '"\n',
        "fillseq      :       1.765 micros/op " + number + " ops/sec;   62.7 MB/s\n",
    ]
    for text in texts:
        with pytest.raises(ImportFileError, match="larger than anything that is measured"):
            read(text)


def test_what_was_passed_over_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVMARK_RUNS", str(tmp_path / "runs"))
    log = tmp_path / "stress.log"
    log.write_text(DRIVER + STRESS)
    assert main(["import", str(log)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 line of a logger, a virtual machine or a shell was passed over." in shown
