"""Whole run folders in one file, small enough to lie beside the document that shows their figures.

A `.tar.xz` of the folders as they are, with those of their studies. The same folders give the same
bytes. What is unpacked may come from anywhere: nothing is written outside the folder that was
named, and no more than a bound.
"""

from __future__ import annotations

import io
import lzma
import re
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from kvmark.errors import RecordsError, RunError
from kvmark.records import files

ENDING: Final = ".tar.xz"
STUDIES: Final = "studies"
"""The folder of studies among those of runs."""
MOST_BYTES: Final = 1 << 30
"""What an archive may come to when it is unpacked."""
_MOST_MEMORY: Final = 256 << 20
"""What unpacking may take of memory, whatever the file's head asks for."""
_CHUNK: Final = 1 << 20
_PRESET: Final = 6
_FILE_MODE: Final = files.PRIVATE_FILE
_PART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def write_archive(
    root: Path,
    folders: Sequence[str],
    path: Path,
    *,
    histogram_logs: bool = True,
) -> int:
    """Writes folders below ``root`` into a file, whole or not at all; gives its size.

    Without the logs of histograms a run keeps those of its phases, which stand in its manifest, and
    no quantiles of a part of it.

    Raises:
        RunError: a folder can't be read, or the file not written.
    """
    packed = io.BytesIO()
    try:
        with tarfile.open(fileobj=packed, mode="w:xz", preset=_PRESET) as archive:
            for name in _contents(root, folders):
                if not histogram_logs and name.endswith(f"/{files.HISTOGRAMS}"):
                    continue
                content = files.read_file(root / name)
                # Who made it, when and with which rights makes no difference.
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(content), _FILE_MODE
                archive.addfile(member, io.BytesIO(content))
        files.write_atomically(path, packed.getvalue())
    except OSError as problem:
        place = problem.filename or path
        raise RunError(
            f"no archive can be written: {place}: {problem.strerror or problem}"
        ) from problem
    return packed.tell()


def unpack(path: Path, folder: Path, most_bytes: int = MOST_BYTES) -> None:
    """Unpacks an archive into a folder in which nothing else of value stands.

    Raises:
        RecordsError: it can't be read, isn't one of ours, or comes to more than ``most_bytes``.
    """
    try:
        with tempfile.TemporaryFile() as plain:
            _decompress(path, plain, most_bytes)
            with tarfile.open(fileobj=plain, mode="r:") as archive:
                for member in archive:
                    _check(member, path)
                    archive.extract(member, folder, filter="data")
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise RecordsError(
            f"{path} can't be unpacked: {reason}; write it with kvmark runs archive"
        ) from problem


def _contents(root: Path, folders: Sequence[str]) -> list[str]:
    """The files of these folders by their names, without what writing them left behind."""
    found = (path for folder in folders for path in (root / folder).rglob("*") if not path.is_dir())
    kept = (path for path in found if path.name != files.LOCK and _PART.fullmatch(path.name))
    return sorted(path.relative_to(root).as_posix() for path in kept)


def _decompress(path: Path, plain: IO[bytes], most_bytes: int) -> None:
    """Decompresses a file within bounds, and goes to the beginning of what came of it."""
    with path.open("rb") as packed:
        for chunk in _chunks(packed):
            plain.write(chunk)
            if plain.tell() > most_bytes:
                raise RecordsError(f"{path} comes to more than {most_bytes:,} bytes: not unpacked")
    plain.seek(0)


def _chunks(packed: IO[bytes]) -> Iterator[bytes]:
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)
    while not unpacker.eof:
        data = packed.read(_CHUNK) if unpacker.needs_input else b""
        if unpacker.needs_input and not data:
            raise EOFError("it ends in its middle")
        yield unpacker.decompress(data, _CHUNK)


def _check(member: tarfile.TarInfo, path: Path) -> None:
    """Refuses what no archive of runs has: links, devices, holes, names that lead elsewhere.

    Raises:
        RecordsError: the member is such a thing.
    """
    plain = member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and member.sparse is None
    parts = member.name.split("/")
    if not (plain and len(parts) > 1 and all(map(_PART.fullmatch, parts))):
        raise RecordsError(
            f"{path} holds '{member.name}', which is no file of a run: not unpacked any further"
        )
