"""Folders of embedded stores: their contents and owner, and removing those that kvmark made.

A folder that kvmark made has its mark, an additional file, from before the first record.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kvmark.drivers import Files, drivers
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.removal import discard_folder, remove_folder
from kvmark.testbed.console import Console
from kvmark.testbed.process import exclusive
from kvmark.testbed.system import Contents, IsOwnKey

_SCRATCH: Final = "scratch-"
_SCRATCH_NAME: Final = re.compile(rf"{_SCRATCH}[0-9a-f]{{8}}")
_MARK: Final = ".kvmark"
_MARKING: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


def _pattern(names: Iterable[str]) -> str:
    """A regular expression for names with `#` for digits."""
    return "|".join(re.escape(name).replace(re.escape("#"), r"\d+") for name in names)


def _own_files(files: Files) -> str:
    """A regular expression for all files of a database."""
    return _pattern((files.complete, _MARK, *files.early, *files.others))


def _scratch_files() -> re.Pattern[str]:
    """The files of a folder for databases, each in a folder with its driver's name."""
    every = {name: driver.files for name, driver in drivers().items()}
    names = (f"{name}/({_own_files(files)})" for name, files in every.items() if files is not None)
    return re.compile("|".join((re.escape(_MARK), *names)))


def contents(driver: str, files: Files, path: str) -> Contents:
    """The contents of the folder of an embedded driver's database.

    Raises:
        UsageError: it is a file.
    """
    named = Path(path)
    # A link means its target.
    folder = named.resolve()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{named} is a file, not a folder: name a folder for the database")

    def remove() -> None:
        remove_folder(folder, re.compile(_own_files(files)))
        if named.is_symlink():
            folder.mkdir()

    return Contents(
        found=_found(folder, files),
        others="name another folder, or leave load out of --workloads",
        claim=_claim_of(folder),
        foreign=lambda is_own: _foreign_key(driver, folder, files, is_own),
        remove=remove,
        mark=lambda claim: _mark(folder, claim),
    )


def _found(folder: Path, files: Files) -> str | None:
    """A description of a folder's contents; None if there is at most kvmark's mark."""
    if (folder / files.complete).exists():
        return "a database"
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    return "files that make no database," if names - {_MARK} else None


def _claim_of(folder: Path) -> str | None:
    """The claim in a folder's mark; None without a mark, or with a damaged one."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        return str(json.loads((folder / _MARK).read_bytes())["claim"])
    return None


def _mark(folder: Path, claim: str) -> None:
    """Marks an empty folder as kvmark's; creates it if it is missing.

    Raises:
        SystemUnderTestError: the mark can't be written.
    """
    text = json.dumps({"made_by": "kvmark", "claim": claim}) + "\n"
    try:
        folder.mkdir(exist_ok=True)
        # Not through another user's link.
        handle = os.open(folder / _MARK, _MARKING, 0o644)
        with os.fdopen(handle, "w", encoding="utf-8") as mark:
            mark.write(text)
    except OSError as problem:
        raise SystemUnderTestError(
            f"{folder} can't be marked as kvmark's own because {problem.strerror}: check its"
            " permissions, or load without a mark with --on-existing keep"
        ) from problem


def _foreign_key(driver: str, folder: Path, files: Files, is_own: IsOwnKey) -> str | None:
    """A description of a key that isn't one's own; None without one.

    In a folder without a complete database, of a file that no partly made one has.

    Raises:
        SystemUnderTestError: the database can't be read.
    """
    if not (folder / files.complete).exists():
        names = sorted(path.name for path in folder.iterdir())
        partial = re.compile(_pattern((_MARK, *files.early)))
        return next((f"the file {name}" for name in names if not partial.fullmatch(name)), None)
    console = Console(driver, {"path": str(folder)})
    for table in console.ask("TABLES"):
        after: list[str] = []
        while keys := console.ask("KEYS", table, *after):
            foreign = next((key for key in keys if not is_own(key)), None)
            if foreign is not None:
                return f"the key {foreign!r}"
            after = [keys[-1]]
    return None


@contextmanager
def scratch_folder(root: Path) -> Iterator[Path]:
    """A new folder for a database, as a context that removes it with its contents.

    Folders that killed commands left in `root` are removed first: a running command holds a lock on
    its folder.

    Raises:
        UsageError: `root` is a file.
        SystemUnderTestError: the folder can't be made.
    """
    if root.exists() and not root.is_dir():
        raise UsageError(f"{root} is a file and not a folder for runs: name another with --runs")
    token = secrets.token_hex(4)
    hidden, folder = root / f".{_SCRATCH}{token}", root / f"{_SCRATCH}{token}"
    try:
        hidden.mkdir(parents=True)
        (hidden / _MARK).write_text("made by kvmark, gone when its command ends\n")
    except OSError as problem:
        raise SystemUnderTestError(
            f"no database can be made in {root} because {problem.strerror}: name a folder with"
            " --system rocksdb:PATH"
        ) from problem
    _remove_abandoned(root)
    with exclusive(hidden):
        # The name appears only with the lock.
        hidden.rename(folder)
        try:
            yield folder
        finally:
            discard_folder(folder, _scratch_files())


def _remove_abandoned(root: Path) -> None:
    """Removes scratch folders of killed commands: those with a mark and without a lock."""
    for path in root.glob(f"{_SCRATCH}*"):
        if not (_SCRATCH_NAME.fullmatch(path.name) and (path / _MARK).is_file()):
            continue
        with suppress(OSError), exclusive(path) as is_locked:
            if is_locked:
                discard_folder(path, _scratch_files())
