"""Keys and values from files, and values that compress, in plans."""

import hashlib
import struct
from pathlib import Path
from typing import Any

import pytest

from kvmark.cache import tapes_folder
from kvmark.errors import KvmarkError
from kvmark.plan.model import Lines
from kvmark.plan.names import key_names
from kvmark.run.agent import tapes_of
from kvmark.spec.workload import load_workload
from plans import plan_of


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a workload, its files and the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def plan(folder: Path, dataset: str, content: bytes, **options: Any) -> Any:
    """The plan of a workload in a folder with a file."""
    (folder / "a.csv").write_bytes(content)
    (folder / "w.yaml").write_text(f"dataset: {dataset}\n{GROUPS}\n")
    return plan_of(load_workload(folder / "w.yaml"), **options)


GROUPS = "groups: [{mix: {read: 1, update: 1}}]"
FILE = "values: {file: a.csv}"
COLUMN = "values: {file: a.csv, column: na me}"
KEY = "key: {file: a.csv}"


@pytest.mark.parametrize(
    ("dataset", "content", "lines"),
    [
        (FILE, b"a\nbc\r\n\xff", [b"a", b"bc", b"\xff"]),
        (FILE, b"\xef\xbb\xbfa\nb", [b"a", b"b"]),
        (COLUMN, b'\xef\xbb\xbfid,na me\n1,"x,\ny"\n\n2,z\n', [b"x,\ny", b"z"]),
        (f"records: 2, {KEY}", b"one\ntwo\nthree\n", [b"one", b"two", b"three"]),
    ],
)
def test_lines_and_cells_follow_their_lengths(
    folder: Path, dataset: str, content: bytes, lines: list[bytes]
) -> None:
    found = plan(folder, f"{{{dataset}}}", content)
    (path,) = tapes_of(found)
    assert path.parent == tapes_folder()
    assert path.read_bytes() == b"".join(struct.pack("<I", len(one)) + one for one in lines)
    of_file = found.dataset.key.order if "key" in dataset else found.dataset.values
    assert isinstance(of_file, Lines)
    assert (of_file.lines.name, of_file.lines.count) == ("a.csv", len(lines))
    assert of_file.lines.sha256 == hashlib.sha256(content).hexdigest()
    # They are written once.
    before = path.stat().st_mtime_ns
    assert plan(folder, f"{{{dataset}}}", content) == found
    assert path.stat().st_mtime_ns == before
    assert plan(folder, f"{{{dataset}}}", content + b"x,x\n") != found


@pytest.mark.parametrize(
    ("dataset", "content", "sentence"),
    [
        (FILE, b"a\n\nb", "a.csv:2: is empty; remove the line"),
        (FILE, b"", "a.csv: has no lines; add some"),
        ("values: {file: b.csv}", b"", "b.csv: cannot be read: no such file or directory"),
        ("values: {file: .}", b"", "cannot be read: is a directory"),
        (COLUMN, b"id,nam\n1,2", "a.csv:1: no column 'na me' — did you mean 'nam'?"),
        (COLUMN, b"id,na me\n1,2\n1", "a.csv:3: is empty; remove the line"),
        (COLUMN, b'na me\n"a', "a.csv:2: not CSV: unexpected end of data"),
        (COLUMN, b"na me\n\xff", "a.csv: is not UTF-8 text"),
        (COLUMN, b"", "a.csv:1: no column 'na me'"),
        (KEY, b"a\nb\na\n", "a.csv:3: 'a' is on line 1, too; keys must differ"),
        (KEY, b"a\n\xff\n", "a.csv:2: is not UTF-8 text"),
        (KEY, b"a\nb\n", "a.csv: has 2 lines for the keys of 1000 records; add lines, or give fewer"
         " records"),
    ],
)  # fmt: skip
def test_files_that_give_no_lines_are_rejected(
    folder: Path, dataset: str, content: bytes, sentence: str
) -> None:
    with pytest.raises(KvmarkError) as problem:
        plan(folder, f"{{{dataset}}}", content)
    assert str(problem.value).endswith(sentence)
    assert {one.suffix for one in tapes_folder().glob("*")} <= {".lines", ".json"}


def test_a_file_above_the_limit_is_rejected(folder: Path) -> None:
    with (folder / "large").open("wb") as file:
        file.truncate((1 << 30) + 1)
    with pytest.raises(KvmarkError, match="large: is larger than 1 GiB; give a part of it"):
        plan(folder, "{values: {file: large}}", b"")


def test_inserts_behind_the_last_line_are_rejected(folder: Path) -> None:
    text = f"dataset: {{records: 2, {KEY}}}\ngroups: [{{mix: {{insert: 1}}}}]\n"
    with pytest.raises(KvmarkError, match="inserts go on behind the last line"):
        plan_of(text)
    (folder / "a.csv").write_bytes(b"a\nb\n")
    (folder / "w.yaml").write_text(text.replace("2,", "2, bounded: true,"))
    assert plan_of(load_workload(folder / "w.yaml")).dataset.full_at == 2


def test_keys_of_a_file_are_known_by_its_lines(folder: Path) -> None:
    names = key_names([plan(folder, f"{{records: 2, {KEY}}}", b"one\ntwo\n")])
    assert [names.has(key) for key in ("one", "usertable-two", "three", "one1")] == [
        True, True, False, False,
    ]  # fmt: skip


def test_stores_of_text_need_compressible_text() -> None:
    text = f"dataset: {{values: {{compressible: 0.25}}}}\n{GROUPS}"
    with pytest.raises(KvmarkError, match=r"values: cql stores text.*add 'text: true'"):
        plan_of(text, "cql://h/k")
    assert plan_of(text, "redis://h").dataset.values.model_dump() == {
        "compressible": {"share": 0.25, "text": False}
    }
    plan_of(text.replace("0.25", "0.25, text: true"), "cql://h/k")
