"""What loggers, virtual machines, shells and terminals leave in a file changes none of its figures.

A row of the tool's own that is cut or damaged is refused, also where such lines stand around it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvmark.cli import main
from kvmark.errors import ImportFileError
from kvmark.imports.recognition import ReadFile
from kvmark.imports.source import is_noise

Read = Callable[[str | bytes], ReadFile]

DRIVER = (
    "WARN  [cluster1-nio-worker-1] 2026-11-21 03:27:16,849 RequestHandler.java:303 - Query "
    "'[3 bound values] INSERT INTO ks.t (a, b, c, d, e, f) VALUES (?, ?, ?, ?, ?, ?);' generated "
    "server side warning(s): big\n"
)
NOISE = (
    DRIVER,
    "2026-11-21 03:27:16,849 [main] WARN  com.datastax.driver.core.NettyUtil - no epoll\n",
    "03:27:16.849 [cluster1-nio-worker-0] ERROR c.d.d.core.ControlConnection - lost\n",
    "[main] INFO site.ycsb.db.CassandraCQLClient - connected, 1, 2, 3, 4, 5\n",
    "Nov 21, 2026 3:27:16 AM com.example.Client connect\n",
    "WARNING: An illegal reflective access operation has occurred\n",
    "WARNING: Could not fetch server CONFIG\n",
    "SLF4J: Failed to load class \"org.slf4j.impl.StaticLoggerBinder\".\n",
    "log4j:WARN No appenders could be found for logger (a.b.C).\n",
    "OpenJDK 64-Bit Server VM warning: Option UseConcMarkSweepGC was deprecated in version 9.0\n",
    "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n",
    "[0.004s][warning][gc] -XX:+PrintGC is deprecated. Will use -Xlog:gc instead.\n",
    "CompilerOracle: dontinline org/apache/cassandra/db/Columns$Serializer.deserialize (I)V\n",
    "com.datastax.driver.core.exceptions.UnavailableException: Not enough replicas, 1, 2, 3, 4\n",
    "Exception in thread \"main\" java.lang.RuntimeException: Failed to execute stress action\n",
    "\tat org.apache.cassandra.stress.StressAction.run(StressAction.java:99)\n",
    "\t... 12 more\n",
    "Caused by: java.net.ConnectException: Connection refused\n",
    "[ann@host ~]$ cassandra-stress write n=1000\n",
    "root@host:/# \n",
)  # fmt: skip


@pytest.fixture
def stress(data: Path) -> str:
    return (data / "published/cassandra-stress-direct.log").read_text()


def among(text: str, *stray: str) -> str:
    """The text with one of the lines after each of its own."""
    lines = text.splitlines(keepends=True)
    return "".join(line + stray[at % len(stray)] for at, line in enumerate(lines))


@pytest.mark.parametrize("line", NOISE)
def test_a_line_of_a_logger_a_machine_or_a_shell_is_known(line: str) -> None:
    assert is_noise(line.rstrip("\n"))


def test_no_line_of_a_tools_own_is_taken_for_one(data: Path) -> None:
    variants = Path(__file__).parent / "variants"
    for path in (*data.glob("*/*"), *variants.iterdir()):
        if path.name.startswith("yb-console") or path.name == "db_bench.txt":
            continue  # A logger's from the first line to the last; and warnings of its own.
        stray = [line for line in path.read_text().splitlines() if is_noise(line)]
        assert [line for line in stray if " INFO site.ycsb." not in line] == [], path.name


def test_a_cassandra_stress_log_with_the_drivers_warnings_anywhere_is_read(
    read: Read, stress: str
) -> None:
    plain, mixed = read(stress).reading, read(among(stress, *NOISE)).reading
    assert mixed.figures == plain.figures
    assert mixed.intervals == plain.intervals
    count = len(stress.splitlines())
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
def test_a_row_of_cassandra_stress_that_is_cut_is_refused_among_warnings(
    read: Read, stress: str, cut: str
) -> None:
    lines = stress.splitlines(keepends=True)
    lines[5:5] = [DRIVER, cut + "\n", DRIVER]
    with pytest.raises(ImportFileError, match=r"results:7: .* columns under a header of"):
        read("".join(lines))


def test_a_row_behind_a_line_of_a_logger_is_not_lost(read: Read, stress: str) -> None:
    lines = stress.splitlines(keepends=True)
    lines[5] = DRIVER.rstrip("\n") + lines[5]
    with pytest.raises(ImportFileError, match="results:6: a logger's line contains a row"):
        read("".join(lines))


def test_a_cut_row_of_one_operation_is_refused(read: Read) -> None:
    text = (Path(__file__).parent / "variants/cassandra-stress-3.11.log").read_text()
    lines = text.splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith("READ,"))
    lines.insert(at + 1, lines[at][:14] + "\n")
    with pytest.raises(ImportFileError, match=f"results:{at + 2}: "):
        read("".join(lines))


@pytest.mark.parametrize(
    "name", ["ycsb-a.txt", "db_bench.txt", "redis-benchmark.csv", "cql-stress-fixed.hlog"]
)
def test_other_texts_are_read_among_such_lines(read: Read, data: Path, name: str) -> None:
    text = (data / "samples" / name).read_text()
    plain, mixed = read(text).reading, read(NOISE[0] + among(text, *NOISE)).reading
    assert mixed.figures == plain.figures
    assert mixed.intervals == plain.intervals
    assert name == "db_bench.txt" or "lines of a logger" in mixed.notes[-1]


@pytest.mark.parametrize("name", ["memtier.json", "latte-report.json"])
def test_json_is_read_among_such_lines(read: Read, data: Path, name: str) -> None:
    text = (data / "samples" / name).read_text()
    mixed = read(NOISE[9] + NOISE[0] + text.rstrip("\n") + "\n" + NOISE[18]).reading
    assert mixed.figures == read(text).reading.figures
    assert mixed.notes[-1].startswith("3 lines of a logger")


def test_a_damaged_document_keeps_the_number_of_its_line(read: Read, data: Path) -> None:
    text = json.dumps({"conf": 1, "result": 2}, indent=1).replace("2", "2,,")
    with pytest.raises(ImportFileError, match="results:4: the JSON can't be read"):
        read(NOISE[0] + text)


def dressed(text: str) -> bytes:
    """The text as a terminal's log or an editor of Windows leaves it."""
    coloured = "".join(f"\x1b[1;32m{line}\x1b[0m\x1b[K\r\n" for line in text.splitlines())
    return b"\xef\xbb\xbf\x1b]0;ann@host\x07\x1b[?25l" + coloured.encode()


@pytest.mark.parametrize(
    "name", ["ycsb-a.txt", "db_bench.txt", "redis-benchmark.csv", "cql-stress-fixed.hlog",
             "memtier.json", "latte-report.json"]
)  # fmt: skip
def test_colours_line_ends_and_byte_order_marks_change_nothing(
    read: Read, data: Path, name: str
) -> None:
    text = (data / "samples" / name).read_text()
    plain, other = read(text).reading, read(dressed(text)).reading
    assert other.figures == plain.figures
    assert other.intervals == plain.intervals
    assert other.notes == plain.notes


def test_progress_that_was_written_over_itself_is_what_a_terminal_shows(
    read: Read, data: Path, stress: str
) -> None:
    for text in (stress, (data / "samples/db_bench.txt").read_text()):
        over = "".join(f" 10 % done\r 90 % done\r{line}\n" for line in text.splitlines())
        assert read(over).reading.figures == read(text).reading.figures


@pytest.mark.parametrize("name", ["samples/redis-benchmark.csv", "published/cassandra-initial.csv"])
def test_a_row_that_was_written_over_another_is_refused(read: Read, data: Path, name: str) -> None:
    lines = (data / name).read_text().splitlines()
    text = "\n".join([*lines[:2], lines[2] + "\r" + lines[3], *lines[4:], ""])
    with pytest.raises(ImportFileError, match="results:3: a carriage return stands within"):
        read(text)


def test_a_prompt_behind_the_last_line_does_not_make_a_log_cut(read: Read, stress: str) -> None:
    assert read(stress + "ann@host:~$ ").reading.figures == read(stress).reading.figures
    with pytest.raises(ImportFileError, match="the last line has no end"):
        read(stress.rstrip("\n"))


@pytest.mark.parametrize("cut", ["[READ], Return=ERROR", "[READ], Return=ERROR,", "[REA"])
def test_a_cut_line_of_ycsb_that_speaks_of_errors_is_refused(
    read: Read, data: Path, cut: str
) -> None:
    lines = (data / "samples/ycsb-a.txt").read_text().splitlines(keepends=True)
    with pytest.raises(ImportFileError, match="results:"):
        read("".join([*lines, DRIVER, f"{cut}\n"]))


@pytest.mark.parametrize("number", ["1e999", "1e40", "9" * 30, "-1e25"])
def test_a_figure_beyond_all_bounds_is_refused(read: Read, data: Path, number: str) -> None:
    texts: list[Any] = [
        "system,throughput_ops_s\nRedis," + number + "\n",
        "[OVERALL], RunTime(ms), 1000\n[OVERALL], Throughput(ops/sec), " + number + "\n",
        '"test","rps"\n"SET","' + number + '"\n',
        "fillseq      :       1.765 micros/op " + number + " ops/sec;   62.7 MB/s\n",
    ]
    for text in texts:
        with pytest.raises(ImportFileError, match="larger than anything that is measured"):
            read(text)


def test_what_was_passed_over_is_shown(
    tmp_path: Path, stress: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVMARK_RUNS", str(tmp_path / "runs"))
    log = tmp_path / "stress.log"
    log.write_text(DRIVER + stress)
    assert main(["import", str(log)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 line of a logger, a virtual machine or a shell was passed over." in shown
