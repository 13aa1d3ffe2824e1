"""What comes from outside commands no terminal and no spreadsheet."""

import csv
from pathlib import Path

import pytest

from kvmark.foreign_text import cell_text, printable


def test_nothing_printable_commands_a_terminal() -> None:
    assert printable("a\x1b[2Jb\x9bc\r\n\u202e") == "a\ufffd[2Jb\ufffdc\ufffd\ufffd\ufffd"
    assert printable("one\ntwo", kept="\n") == "one\ntwo"
    assert printable("Überlänge, 3 µs") == "Überlänge, 3 µs"


@pytest.mark.parametrize("text", ["=1+2", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1"])
def test_no_cell_is_a_formula(text: str) -> None:
    assert cell_text(text) == f"'{text}"


@pytest.mark.parametrize("text", ["-2.9 %", "+1,204", "-1e-3", "-", "ycsb/a", "", "−3 ops/s"])
def test_numbers_and_words_stay_as_they_are(text: str) -> None:
    assert cell_text(text) == text


def test_a_cell_is_the_same_for_a_reader_of_csv(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    with file.open("w", newline="") as out:
        csv.writer(out).writerow([cell_text("=1+2"), cell_text("-2.9 %")])
    assert file.read_bytes() == b"'=1+2,-2.9 %\r\n"
