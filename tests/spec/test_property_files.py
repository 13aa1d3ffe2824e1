"""Property files are parsed like Java's, and each value has its line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def escaped(text: str, blanks: str) -> str:
    """The model: a writer that escapes every character with a meaning."""
    special = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\\": "\\\\"}
    out = []
    for char in text:
        if char in special:
            out.append(special[char])
        elif ord(char) > 0xFF:
            units = char.encode("utf-16-be")
            out += [f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2)]
        else:
            out.append("\\" + char if char in blanks else char)
    return "".join(out)


CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS = st.text(CHARACTERS, max_size=12)
SEPARATORS = st.sampled_from(["=", ":", " ", " = ", "\t:\f"])
ENDINGS = st.sampled_from(["\n", "\r", "\r\n", "\n\n# comment\n", "\n  "])


@given(st.lists(st.tuples(TEXTS.filter(bool), TEXTS, SEPARATORS, ENDINGS), max_size=6))
def test_escaped_properties_are_parsed_back(rows: list[tuple[str, str, str, str]]) -> None:
    text = "".join(
        escaped(name, " =:#!") + separator + escaped(value, " =:") + ending
        for name, value, separator, ending in rows
    )
    assert pairs(text) == [(name, value) for name, value, _, _ in rows]


@given(TEXTS.filter(bool), TEXTS, st.data())
def test_a_line_may_be_continued_anywhere_but_within_an_escape(
    name: str, value: str, data: st.DataObject
) -> None:
    whole = escaped(value, " =:#!")
    plain = [at for at in range(len(whole) + 1) if "\\" not in whole[max(0, at - 6) : at]]
    at = data.draw(st.sampled_from(plain))
    text = f"{escaped(name, ' =:#!')}={whole[:at]}\\\n \t{whole[at:]}"
    assert pairs(text) == [(name, value)]


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_spec_error(content: bytes) -> None:
    try:
        parse_properties(content.decode("iso-8859-1"), "w")
    except SpecError as error:
        assert "\n" not in str(error)
