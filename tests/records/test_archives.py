"""Archives of runs: foreign archives are unpacked within limits, or rejected."""

from __future__ import annotations

import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kvmark.errors import RecordsError
from kvmark.records import archive
from kvmark.records.archive import unpack, write_archive

RUN = "20261121-074812-a-0a1b"


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 3) -> bytes:
    made = io.BytesIO()
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, size if kind == tarfile.REGTYPE else 0
    with tarfile.open(fileobj=made, mode="w") as packed:
        packed.addfile(info, io.BytesIO(b"x" * info.size))
    return made.getvalue()


def sparse() -> bytes:
    """A file that declares a hole of a terabyte."""
    made = io.BytesIO()
    info = tarfile.TarInfo(f"{RUN}/events.jsonl")
    info.pax_headers = {"GNU.sparse.size": str(1 << 40), "GNU.sparse.map": "0,0"}
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as packed:
        packed.addfile(info, io.BytesIO())
    return made.getvalue()


def test_a_packed_run_is_unpacked_byte_for_byte(tmp_path: Path) -> None:
    root, there = tmp_path / "runs", tmp_path / "there"
    (root / RUN).mkdir(parents=True)
    there.mkdir()
    (root / RUN / "manifest.json").write_bytes(b"{}\n\0")
    (root / RUN / "writer.lock").write_bytes(b"")
    (root / RUN / ".manifest.json.7.tmp").write_bytes(b"half")
    write_archive(root, [RUN], tmp_path / "a.tar.xz")
    unpack(tmp_path / "a.tar.xz", there)
    assert {path.name: path.read_bytes() for path in (there / RUN).iterdir()} == {
        "manifest.json": b"{}\n\0"
    }


@pytest.mark.parametrize(
    "made",
    [
        *map(member, ("../outside/a", "/tmp/outside/a", f"{RUN}/../../outside", "loose")),
        member(f"{RUN}/.hidden"),
        member(f"{RUN}/a", tarfile.SYMTYPE, "/etc/passwd"),
        member(f"{RUN}/a", tarfile.LNKTYPE, "../../outside"),
        *(member(f"{RUN}/a", one) for one in (tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)),
        sparse(),
    ],
)
def test_members_that_are_no_files_are_rejected(made: bytes, tmp_path: Path) -> None:
    there = tmp_path / "deep" / "there"
    there.mkdir(parents=True)
    (tmp_path / "a.tar.xz").write_bytes(lzma.compress(made))
    with pytest.raises(RecordsError, match="no file of a run"):
        unpack(tmp_path / "a.tar.xz", there)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "a.tar.xz"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda whole: whole[: len(whole) // 2], "the file is truncated"),
        (lambda whole: whole[:40] + bytes(8) + whole[48:], "can't be unpacked"),
        (lambda _: b"no archive", "can't be unpacked"),
        (lambda _: b"", "the file is truncated"),
        (lambda _: lzma.compress(b"no tar" * 1000), "can't be unpacked"),
    ],
)
def test_a_damaged_archive_is_rejected(
    damage: Callable[[bytes], bytes], message: str, tmp_path: Path
) -> None:
    whole = lzma.compress(member(f"{RUN}/manifest.json", size=100_000))
    (tmp_path / "a.tar.xz").write_bytes(damage(whole))
    with pytest.raises(RecordsError, match=message):
        unpack(tmp_path / "a.tar.xz", tmp_path / "there")


@pytest.mark.parametrize(
    ("limit", "value", "size", "message"),
    [
        ("MOST_BYTES", 1_000_000, 30 << 20, "comes to more than 1,000,000 bytes"),
        ("_MOST_MEMORY", 1 << 20, 3, "can't be unpacked"),
    ],
)
def test_an_archive_beyond_a_limit_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, size: int, message: str
) -> None:
    monkeypatch.setattr(archive, limit, value)
    (tmp_path / "a.tar.xz").write_bytes(lzma.compress(member(f"{RUN}/a", size=size)))
    with pytest.raises(RecordsError, match=message):
        unpack(tmp_path / "a.tar.xz", tmp_path / "there")
    assert not (tmp_path / "there").exists()
