"""MONITOR's output as a trace, from its text and from a server."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvmark.errors import ImportFileError
from kvmark.trace import COLUMNS, HASHED, Keep, Trace, TraceWriter, import_monitor, is_monitor
from kvmark.trace.text_files import command_rows

LINES = r"""OK
1339518083.107412 [0 127.0.0.1:60866] "set" "k" "value" "EX" "60"
1339518083.207412 [0 127.0.0.1:60866] "GET" "k"
1339518084.107412 [0 127.0.0.1:60867] "mget" "k" "l" "m"
1339518084.107412 [0 lua] "set" "inner" "x"
1339518085.107412 [0 unix:/tmp/redis.sock] "EVALSHA" "abc" "1" "k"
1339518086.107412 [0 127.0.0.1:60867] "HSET" "h\x00\"\n" "f" "12" "g" "345"
1339518087.107412 [0 127.0.0.1:60867] "PSETEX" "k" "1500" "v"
"""


def imported(folder: Path, content: str, keep: Keep = HASHED) -> Trace:
    file = folder / "monitor.txt"
    file.write_text(content)
    with TraceWriter(folder / "X.trace", "MONITOR", keep) as writer:
        import_monitor(file, writer, bytes(16), keep)
    return Trace.open(folder / "X.trace")


def test_commands_become_rows(tmp_path: Path) -> None:
    trace = imported(tmp_path, LINES)
    found = pl.concat(trace.batches(tuple(COLUMNS)))
    assert (trace.info.operations, trace.info.rows, trace.info.clients) == (6, 8, 3)
    assert found["items"].to_list() == [1, 1, 3, 0, 0, 1, 1, 1]
    assert found["kind"].to_list() == ["update", "read", *["read"] * 3, "other", *["update"] * 2]
    assert found["statement"].to_list()[:3] == [
        "SET {key} {value} {ttl}", "GET {key}", "MGET {key}",
    ]  # fmt: skip
    assert found["at_ns"].to_list()[:3] == [0, 100_000_000, 1_000_000_000]
    assert found["value_size"].to_list() == [5, None, None, None, None, None, 5, 1]
    assert found["ttl_ms"].to_list() == [60_000, *[None] * 6, 1500]
    assert found["key_size"].to_list()[-2] == 4
    assert found["key"][0] == found["key"][1] == found["key"][2] != found["key"][3]


def test_excluded_commands_are_reported(tmp_path: Path) -> None:
    told = imported(tmp_path, LINES).info.told
    assert "commands that scripts sent are left out: 1" in told
    assert "operations of no known kind: EVALSHA (1)" in told
    assert "MONITOR contains no replies" in told


def test_the_output_is_recognised_by_its_first_line(tmp_path: Path) -> None:
    file = tmp_path / "f"
    told = ((LINES, True), (LINES[3:], True), ("at,key\n", False), ("OK\n", False))
    for content, expected in told:
        file.write_text(content)
        assert is_monitor(file) == expected


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("hello", "line 2: this isn't a line of MONITOR"),
        ('1339518083.1 [0 127.0.0.1:1] "get" "k', "line 2: this isn't a line of MONITOR"),
        ('1339518082.1 [0 127.0.0.1:1] "get" "k"', "line 2: time goes back by 1 s"),
    ],
)
def test_an_invalid_line_is_reported_with_its_number(
    tmp_path: Path, line: str, sentence: str
) -> None:
    with pytest.raises(ImportFileError, match=sentence):
        imported(tmp_path, f'1339518083.1 [0 127.0.0.1:1] "get" "k"\n{line}\n')
    assert not (tmp_path / "X.trace").exists()


def quoted(word: bytes) -> str:
    """As Redis' sdscatrepr writes a string."""
    signs = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 92: "\\\\"}
    plain = (signs.get(one) or (chr(one) if 32 <= one < 127 else f"\\x{one:02x}") for one in word)
    return f'"{"".join(plain)}"'


@given(st.binary(max_size=30), st.binary(max_size=30))
def test_any_bytes_are_read_as_they_were_sent(key: bytes, value: bytes) -> None:
    (row,) = command_rows(f' "SET" {quoted(key)} {quoted(value)}')
    text = key.decode(errors="backslashreplace")
    assert row == (text, "SET", str(len(key)), str(len(value)), None, 1, key, value)


def test_contents_are_kept_verbatim_without_passwords(tmp_path: Path) -> None:
    login = '1339518088.1 [0 127.0.0.1:1] "HELLO" "3" "AUTH" "user" "hunter"\n'
    trace = imported(tmp_path, LINES + login, Keep(keys=True, values=True))
    found = pl.concat(trace.batches(("key_content", "value_content")))
    keys = [b"k", b"k", b"k", b"l", b"m", b"", b'h\x00"\n', b"k", b""]
    assert found["key_content"].to_list() == keys
    assert found["value_content"].to_list() == [b"value", *[None] * 5, b"12345", b"v", None]
