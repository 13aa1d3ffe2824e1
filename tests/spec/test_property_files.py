"""Property files are parsed like Java's, and each value has its line."""

from pathlib import Path

import pytest

from kvmark.errors import SpecError
from kvmark.frontends.ycsb.properties import (
    Property,
    parse_assignment,
    parse_properties,
    read_properties,
)


def pairs(text: str) -> list[tuple[str, str]]:
    return [(one.name, one.value) for one in parse_properties(text, "w")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [("a", "b")]),
        ("a:b", [("a", "b")]),
        ("a b", [("a", "b")]),
        ("a = b", [("a", "b")]),
        ("a\t:\tb", [("a", "b")]),
        ("  a=b", [("a", "b")]),
        ("a=b ", [("a", "b ")]),
        ("a==b", [("a", "=b")]),
        ("a = = b", [("a", "= b")]),
        ("a", [("a", "")]),
        ("=b", [("", "b")]),
        ("# a=b\n! c=d\n \t#e=f", []),
        ("a=b#c", [("a", "b#c")]),
        ("a=b\\\n   c", [("a", "bc")]),
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        ("a=b\\\n# c", [("a", "b# c")]),
        ("# a\\\nb=c", [("b", "c")]),
        ("a\\=b=c", [("a=b", "c")]),
        ("a\\ b=c", [("a b", "c")]),
        ("a=\\u0041\\t\\q", [("a", "A\tq")]),
        ("a=\\ud83d\\ude00", [("a", "\U0001f600")]),
        ("a=1\r\nb=2\rc=3\nd=4", [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]),
        ("a=b\\", [("a", "b")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
    ],
)
def test_a_text_is_parsed_as_in_java(text: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(text) == expected


def test_a_value_has_the_line_on_which_it_begins() -> None:
    found = parse_properties("# head\n\na=1\\\n2\nb=3\n", "w")
    assert [(one.name, one.line) for one in found] == [("a", 3), ("b", 5)]


@pytest.mark.parametrize(
    ("escape", "message"),
    [
        *((broken, "w:2: the escape '\\u") for broken in ("\\u12", "\\u12G4", "\\u")),
        ("\\ud83d", "w:2: an escape is half of a surrogate pair"),
    ],
)
def test_a_broken_escape_is_an_error_with_its_line(escape: str, message: str) -> None:
    with pytest.raises(SpecError) as error:
        parse_properties(f"a=1\nb={escape}", "w")
    assert str(error.value).startswith(message)


def test_an_assignment_ends_its_name_at_the_first_equals_sign() -> None:
    assert parse_assignment("a=b=c") == Property("a", "b=c", "-p")


@pytest.mark.parametrize("text", ["a", "", "=b", "a=\udcff"])
def test_a_text_without_an_assignment_is_rejected(text: str) -> None:
    with pytest.raises(SpecError, match="is not an assignment; write -p key=value"):
        parse_assignment(text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="workloadx: cannot be read: no such file or directory"):
        read_properties(tmp_path / "workloadx")
