"""Run folders in one small file, to be stored next to a document with their figures.

A `.tar.xz` of the run folders and the folders of their studies. The same folders give the same
bytes. Archives may come from anywhere: unpacking writes only into the given folder, and only up to
a limit.
"""

from __future__ import annotations

import io
import lzma
import re
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from kvmark.errors import RecordsError, RunError
from kvmark.records import files

ENDING: Final = ".tar.xz"
STUDIES: Final = "studies"
"""The folder of studies next to the folders of runs."""
MOST_BYTES: Final = 1 << 30
"""The largest unpacked size."""
_MOST_MEMORY: Final = 256 << 20
"""The memory limit of unpacking, independent of the file's header."""
_CHUNK: Final = 1 << 20
_PART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def write_archive(
    root: Path,
    folders: Sequence[str],
    path: Path,
    *,
    histogram_logs: bool = True,
) -> int:
    """Writes folders below ``root`` into a complete file, and returns its size.

    Without the logs of histograms, a run keeps the histograms of its phases in its manifest, but
    has no quantiles of its intervals.

    Raises:
        RunError: a folder can't be read, or the file can't be written.
    """
    packed = io.BytesIO()
    try:
        with tarfile.open(fileobj=packed, mode="w:xz", preset=6) as archive:
            for name in _contents(root, folders):
                if not histogram_logs and name.endswith(f"/{files.HISTOGRAMS}"):
                    continue
                content = files.read_file(root / name)
                # Owner, time and permissions are left out: the same folders give the same bytes.
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(content), files.PRIVATE_FILE
                archive.addfile(member, io.BytesIO(content))
        files.write_atomically(path, packed.getvalue())
    except OSError as problem:
        place = problem.filename or path
        raise RunError(
            f"no archive can be written: {place}: {problem.strerror or problem}"
        ) from problem
    return packed.tell()


def unpack(path: Path, folder: Path) -> None:
    """Unpacks an archive into a folder for it alone.

    Raises:
        RecordsError: it can't be read, isn't an archive of runs, or exceeds the largest size.
    """
    try:
        with tempfile.TemporaryFile() as plain:
            _decompress(path, plain)
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
    """The names of the files in these folders, without locks and temporary files."""
    paths = (path for folder in folders for path in (root / folder).rglob("*"))
    return sorted(
        path.relative_to(root).as_posix()
        for path in paths
        if path.name != files.LOCK and _PART.fullmatch(path.name) and not path.is_dir()
    )


def _decompress(path: Path, plain: IO[bytes]) -> None:
    """Decompresses a file within limits, and seeks to the begin of the result."""
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)
    with path.open("rb") as packed:
        while not unpacker.eof:
            data = packed.read(_CHUNK) if unpacker.needs_input else b""
            if unpacker.needs_input and not data:
                raise EOFError("the file is truncated")
            plain.write(unpacker.decompress(data, _CHUNK))
            if plain.tell() > MOST_BYTES:
                raise RecordsError(f"{path} comes to more than {MOST_BYTES:,} bytes: not unpacked")
    plain.seek(0)


def _check(member: tarfile.TarInfo, path: Path) -> None:
    """Rejects links, devices, sparse files, and names outside a run's folder.

    Raises:
        RecordsError: the member isn't a file of a run.
    """
    plain = member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and member.sparse is None
    parts = member.name.split("/")
    if not (plain and len(parts) > 1 and all(map(_PART.fullmatch, parts))):
        raise RecordsError(
            f"{path} holds '{member.name}', which is no file of a run: not unpacked any further"
        )
