"""The journal of an experiment on disk: its definition, and a line for each run that ended.

`runs/studies/<id>/study.json` is written before the first run, `journal.jsonl` only grows. A run
has the study's id as a tag and its case in its own folder, so that a run that ended just before its
line was written is found.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from kvmark.errors import KvmarkError, RecordsError, RunError, UsageError
from kvmark.records import Entry, Records, files
from kvmark.removal import remove_folder

FORMAT: Final = 1
FOLDER: Final = "studies"
_DEFINITION: Final = "study.json"
_LINES: Final = "journal.jsonl"
_ENDED: Final = "ended_block"
_CLAIM_BYTES: Final = 16
_NAMES: Final = "|".join(map(re.escape, (_DEFINITION, _LINES)))
_OWN_FILES: Final = re.compile(rf"{_NAMES}|\.({_NAMES})\.\d+\.tmp")
_MANIFESTS: Final = (files.MANIFEST, files.ENDED, files.RUNNING)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to run a case."""

    case: str
    repetition: int
    run: str | None
    """The run's id; None where it couldn't begin."""
    failure: str | None = None
    """The reason for an early end, in one sentence."""
    took_s: float | None = None
    """None for a run without a journal line."""
    kept: Mapping[str, Any] | None = None
    """Values for its design when the experiment is resumed."""
    lengthened: int = 0
    """How many times its length was doubled for insufficient data."""
    block: str | None = None
    """Its block; None where it is a block by itself."""

    @property
    def is_whole(self) -> bool:
        """Whether a line notes that it came to its end."""
        return self.run is not None and self.failure is None and self.took_s is not None


@dataclass(frozen=True, slots=True)
class Journal:
    """The folder of one experiment."""

    path: Path
    records: Records

    @property
    def id(self) -> str:
        """The study's id."""
        return self.path.name

    @property
    def definition(self) -> Mapping[str, Any]:
        """The definition that was stored at the beginning.

        Raises:
            RecordsError: it can't be read.
        """
        path = self.path / _DEFINITION
        try:
            return files.read_document(path, FORMAT)
        except (OSError, ValueError) as problem:
            raise RecordsError(f"{path} can't be read: {problem}") from problem

    def claim(self) -> str:
        """The study's own claim, for the marks of systems that it found empty.

        Raises:
            RecordsError: the definition can't be read, or has no claim.
        """
        claim = self.definition.get("claim")
        if claim is None:
            raise RecordsError(f"study {self.id} has no claim: begin again without --resume")
        return str(claim)

    def ask_for_more(self, asked: Mapping[str, Any]) -> None:
        """Stores an extended request; earlier runs remain part of the study.

        Raises:
            RecordsError: the definition can't be read.
            RunError: it can't be written.
        """
        document = {**self.definition, "asked": asked}
        try:
            files.write_atomically(self.path / _DEFINITION, files.to_json(document))
        except OSError as problem:
            raise _unwritable(self.path, problem) from problem

    def append(self, attempt: Attempt) -> None:
        """Writes an attempt, and waits until it is on disk.

        Raises:
            RunError: it can't be written.
        """
        self._write(asdict(attempt))

    def end_block(self, block: str) -> None:
        """Notes that all runs of a block are complete.

        Raises:
            RunError: it can't be written.
        """
        self._write({_ENDED: block})

    def ended_blocks(self) -> frozenset[str]:
        """The blocks of which all runs are complete."""
        return frozenset(str(one[_ENDED]) for one in self._documents() if _ENDED in one)

    def _write(self, document: Mapping[str, Any]) -> None:
        line = json.dumps(document, ensure_ascii=False) + "\n"
        try:
            with files.open_to_append(self.path / _LINES) as log:
                # The unfinished line of a killed process is not continued.
                written = (self.path / _LINES).read_bytes()
                unfinished = bool(written) and not written.endswith(b"\n")
                log.write((b"\n" if unfinished else b"") + line.encode())
                log.flush()
                os.fsync(log.fileno())
        except OSError as problem:
            raise _unwritable(self.path, problem) from problem

    def attempts(self) -> list[Attempt]:
        """Every attempt, oldest first; those without a line are found by their runs."""
        attempts = []
        for document in self._documents():
            with suppress(TypeError):  # a line of another kind
                attempts.append(Attempt(**document))
        noted, begun = {attempt.run for attempt in attempts}, self.id[: len("20261121-074812")]
        # Folders of runs that are newer than the study.
        since = (path for path in sorted(self.records.root.glob("*")) if path.name >= begun)
        unnoted = (self._of_run(path) for path in since if path.name not in noted)
        return attempts + [attempt for attempt in unnoted if attempt is not None]

    def remove(self) -> None:
        """Removes the study's folder.

        Raises:
            ForeignFile: it holds a file that kvmark didn't write; then nothing is removed.
            RunError: it can't be removed.
        """
        try:
            remove_folder(self.path, _OWN_FILES)
        except OSError as problem:
            raise RunError(
                f"the study's folder {self.path} can't be removed because {problem.strerror}"
            ) from problem

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Locks the study against execution by a second command.

        Raises:
            UsageError: another command executes it.
        """
        handle = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"study {self.id} is going in another process; wait until it ends or stop it"
                ) from None
            yield
        finally:
            os.close(handle)

    def _documents(self) -> Iterator[dict[str, Any]]:
        for line in files.whole_lines(self.path / _LINES).splitlines():
            with suppress(ValueError, TypeError):  # the unfinished line of a killed process
                yield dict(json.loads(line))

    def _of_run(self, path: Path) -> Attempt | None:
        """The attempt of a run, if it belongs to this study."""
        for name in _MANIFESTS:
            try:
                document = files.read_document(path / name)
                if tag(self.id) not in document.get("tags", ()):
                    return None
                own = document["spec"]["study"]
                lengthened = int(own.get("lengthened", 0))
                return Attempt(
                    str(own["case"]), int(own["repetition"]), path.name, lengthened=lengthened
                )
            except FileNotFoundError:
                continue
            except (OSError, ValueError, TypeError, KeyError):
                return None
        return None


def tag(study: str) -> str:
    """The tag of a study's runs."""
    return f"study:{study}"


def begin(records: Records, name: str, definition: Mapping[str, Any]) -> Journal:
    """Makes the folder of a new study.

    Raises:
        RunError: it can't be made.
    """
    root, created = records.root / FOLDER, records.now()
    path = root / f"{created:%Y%m%d-%H%M%S}-{name}-{records.token()}"
    document = {
        "format": FORMAT, "id": path.name, "name": name, "created": created.isoformat(),
        "claim": secrets.token_hex(_CLAIM_BYTES), **definition,
    }  # fmt: skip
    # The final name appears only with a definition in it.
    hidden = root / f".{path.name}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        hidden.mkdir(files.PRIVATE_FOLDER)
        files.write_atomically(hidden / _DEFINITION, files.to_json(document))
        hidden.rename(path)
        files.sync_folder(root)
    except OSError as problem:
        raise _unwritable(path, problem) from problem
    return Journal(path, records)


def find(records: Records, name: str) -> Journal | None:
    """The newest study of a name, preferably one with runs."""
    return next(every(records, name), None)


def every(records: Records, name: str) -> Iterator[Journal]:
    """The studies of a name, newest first, those without runs last."""
    found: list[tuple[bool, str, str, Journal]] = []
    for path in (records.root / FOLDER).glob(f"*-{name}-*"):
        journal = Journal(path, records)
        with suppress(KvmarkError):
            definition = journal.definition
            if definition.get("name") == name:
                has_runs, created = (path / _LINES).exists(), str(definition.get("created"))
                found.append((has_runs, created, journal.id, journal))
    return (one[-1] for one in sorted(found, key=lambda one: one[:3], reverse=True))


def named(records: Records, name: str) -> Journal | None:
    """The study of an id, if its folder exists."""
    # An id is the name of a folder.
    if name != Path(name).name or name in {"", ".", ".."}:
        return None
    path = records.root / FOLDER / name
    return Journal(path, records) if (path / _DEFINITION).is_file() else None


def of_run(records: Records, entry: Entry) -> Journal | None:
    """The study of a run, if its folder exists."""
    prefix = tag("")
    names = (one.removeprefix(prefix) for one in entry.tags if one.startswith(prefix))
    journals = (named(records, name) for name in names)
    return next((journal for journal in journals if journal is not None), None)


def _unwritable(path: Path, problem: OSError) -> RunError:
    return RunError(
        f"the study's folder {path} can't be written because {problem.strerror}: fix that and"
        " continue with --resume"
    )
