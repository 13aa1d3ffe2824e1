"""The catalogue of runs: one folder each, below one root.

A word of a user means one run, or all of a tag, a study or a commit. A run that is removed is there
whole, or not in any list.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kvmark.errors import RecordsError, RunError, UsageError
from kvmark.records import files
from kvmark.records.verdicts import Entry, RunLine, State, kept_line, verdict_path
from kvmark.removal import foreign_file, remove_file, remove_folder

if TYPE_CHECKING:
    from kvmark.records.run import Run
    from kvmark.records.writer import RunFolder


_ID = re.compile(r"\d{8}-\d{6}-(?:[a-z0-9-]+-)?[0-9a-f]{4}")
_LAST = re.compile(r"last(?:~(\d{1,9}))?")
_SECOND = len("20261121-074812")
_LONGEST_SLUG = 40
_ATTEMPTS = 64
_MOST_LISTED = 4

USABLE: Final[Collection[State]] = ("closed", "ended", "killed")
"""States of runs that can be read, once they are closed."""
ANY: Final[Collection[State]] = (*USABLE, "going", "broken")

_TAG: Final = "tag:"
_COMMIT: Final = "commit:"
_STUDY: Final = "study:"

_LEAVING: Final = re.compile(r"\.(\d{8}-\d{6}-[a-z0-9-]+)\.removed")
"""The name of a folder that is being removed; no list shows it."""


def _now() -> datetime:
    return datetime.now(UTC)


def _token() -> str:
    import secrets  # noqa: PLC0415 - only what makes runs needs it

    return secrets.token_hex(2)


@dataclass(frozen=True, slots=True)
class Records:
    """All runs below ``root``. The clock and the token can be put in for tests."""

    root: Path
    now: Callable[[], datetime] = _now
    token: Callable[[], str] = _token

    @classmethod
    def default(cls) -> Records:
        """The folder that ``KVMARK_RUNS`` names, or else ``runs`` in the current folder."""
        return cls(Path(os.environ.get("KVMARK_RUNS") or "runs"))

    @classmethod
    def at(cls, folder: Path | None) -> Records:
        """A folder that was named, or else the default."""
        return cls.default() if folder is None else cls(folder)

    def new(self, name: str) -> RunFolder:
        """Makes the folder of a new run; never one that is there already.

        Raises:
            UsageError: the folder of all runs is a file.
            RunError: the folder can't be made.
        """
        # A list of runs makes none, and must do without the libraries for it.
        from kvmark.records.writer import RunFolder  # noqa: PLC0415

        for _ in range(_ATTEMPTS):
            created = self.now()
            path = self.root / f"{created:%Y%m%d-%H%M%S}-{_slug(name)}{self.token()}"
            try:
                self.root.mkdir(parents=True, exist_ok=True)
                path.mkdir(files.PRIVATE_FOLDER)
            except FileExistsError:
                if not self.root.is_dir():
                    raise UsageError(
                        f"{self.root} is a file and not a folder for runs: name another with"
                        " KVMARK_RUNS"
                    ) from None
                continue
            except OSError as problem:
                raise RunError(
                    f"no run can be kept in {self.root} because {problem.strerror}: name another"
                    " folder with KVMARK_RUNS"
                ) from problem
            return RunFolder(path, created)
        raise RunError(f"no free name for a run was found in {self.root}: try again")

    def list(self, limit: int | None = None) -> list[Entry]:
        """The runs, newest first. A run that can't be read is in the list with its problem."""
        return [line.entry for line in islice(self.lines(), limit)]

    def lines(self) -> Iterator[RunLine]:
        """The runs, newest first, with figures and judgement where they are kept and still hold.

        By the second in the id, and within a second by the exact time in the manifest.
        """
        ids = sorted(self.ids(), reverse=True)
        for _, same_second in groupby(ids, key=lambda run: run[:_SECOND]):
            lines = [self.line(run) for run in same_second]
            yield from sorted(lines, key=lambda line: line.entry.created, reverse=True)

    def find(self, word: str) -> Entry:
        """The run that a word means: an id, the beginning of one, a folder, ``last``, ``last~1``.

        ``last`` counts runs that are closed, have ended or were killed.

        Raises:
            RecordsError: there is none, or several.
        """
        last = _LAST.fullmatch(word)
        if last:
            return self._last(int(last[1] or 0))
        wanted = Path(word).name if "/" in word else word
        if _ID.fullmatch(wanted) and (self.root / wanted).is_dir():
            return self.line(wanted).entry
        ids = list(self.ids())
        matching = sorted(run for run in ids if wanted and run.startswith(wanted))
        if len(matching) == 1:
            return self.line(matching[0]).entry
        if matching:
            raise RecordsError(f"'{word}' can be {_some(matching)}: add to it until it is one")
        raise RecordsError(f"there is no run '{word}' in {self.root}{_nearest(wanted, ids)}")

    def open(self, word: str) -> Run:
        """The closed run that a word means; one that has ended or was killed is closed first.

        Raises:
            RecordsError: there is none, it is still going, or it can't be read.
        """
        return self.open_entry(self.find(word))

    def open_entry(self, entry: Entry) -> Run:
        """The run of an entry of the list, as `open`.

        Raises:
            RecordsError: it is still going, or it can't be read.
        """
        if entry.state == "broken":
            raise RecordsError(f"run {entry.id} can't be read: {entry.problem}")
        # Reading brings Polars, and making a run must do without.
        from kvmark.records import Run, recover  # noqa: PLC0415

        return Run.open(entry.path) if entry.state == "closed" else recover(entry.path)

    def verdict_path(self, run: str) -> Path:
        """Where the verdict on a run is kept: beside its folder, never in it."""
        return verdict_path(self.root, run)

    def _last(self, back: int) -> Entry:
        entries = (line.entry for line in self.lines())
        usable = (entry for entry in entries if entry.state in USABLE)
        found = next(islice(usable, back, None), None)
        if found is None:
            which = "last" if back == 0 else f"last~{back}"
            raise RecordsError(f"there is no run '{which}' in {self.root}: too few were made")
        return found

    def ids(self) -> Iterator[str]:
        """The ids of all runs, in no order.

        Raises:
            RecordsError: the folder can't be read.
        """
        try:
            with os.scandir(self.root) as found:
                yield from (
                    entry.name for entry in found if _ID.fullmatch(entry.name) and entry.is_dir()
                )
        except FileNotFoundError:
            return
        except OSError as problem:
            raise RecordsError(
                f"the folder of runs {self.root} can't be read: {problem.strerror}"
            ) from problem

    def line(self, run: str) -> RunLine:
        """The run of exactly this id, with figures and judgement where they are kept."""
        return kept_line(self.root, run) or RunLine(self._entry(run))

    def _entry(self, run: str) -> Entry:
        path = self.root / run
        try:
            manifest = _read(path / files.MANIFEST)
            if manifest is not None:
                return _described(path, manifest, "closed")
            running = _read(path / files.RUNNING)
            ended = _read(path / files.ENDED)
            if ended is not None:
                return _described(path, ended, "ended")
            if running is not None:
                from kvmark.records.process import Writer  # noqa: PLC0415

                writes = Writer.model_validate(running["writer"]).writes(path)
                return _described(path, running, "going" if writes else "killed")
            problem = f"it has neither {files.MANIFEST} nor {files.RUNNING}"
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            problem = f"its description is damaged ({type(error).__name__}: {error})"
        return Entry(run, path, "broken", _created(path), problem=problem)


def _described(path: Path, document: dict[str, Any], state: State) -> Entry:
    plan, engine = document["plan"], document.get("engine", {})
    system = engine.get("system", {})
    return Entry(
        id=path.name,
        path=path,
        state=state,
        created=str(document["created"]),
        name=str(plan.get("name", "")),
        system=str(system.get("system") or plan.get("system", {}).get("driver", "")),
        version=str(system.get("version", "")),
        tags=tuple(document.get("tags", ())),
        commit=document.get("commit"),
    )


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return files.read_document(path)
    except FileNotFoundError:
        return None


def _created(path: Path) -> str:
    """The instant in a run's id; of an impossible one, when its folder last changed."""
    try:
        found = datetime.strptime(path.name[:_SECOND], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        found = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return found.isoformat()


def _slug(name: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST_SLUG].strip("-")
    return f"{plain}-" if plain else ""


def _some(ids: list[str]) -> str:
    shown = ", ".join(ids[:_MOST_LISTED])
    more = len(ids) - _MOST_LISTED
    return f"{shown} or {more} more" if more > 0 else shown.replace(", ", " or ")


def _nearest(wanted: str, ids: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415 - only a sentence needs it

    near = difflib.get_close_matches(wanted, sorted(ids), n=1, cutoff=0.5)
    return f"; the nearest is {near[0]}" if near else ""


def entries_of(
    records: Records, word: str, states: Collection[State], *, bare_tags: bool
) -> list[Entry]:
    """The runs that a word means, of several only those in these states, newest first.

    A word is an id or the beginning of one, `last` or `last~1`, `tag:NAME`, `study:ID` or
    `commit:ID`; with ``bare_tags`` also a tag alone, where no run is called so.

    Raises:
        RecordsError: it means none.
    """
    word = word.strip()

    def all_that(holds: Callable[[Entry], bool]) -> list[Entry]:
        return [entry for entry in records.list() if entry.state in states and holds(entry)]

    if word.startswith(_COMMIT):
        commit = word.removeprefix(_COMMIT)
        found = all_that(lambda entry: bool(commit) and (entry.commit or "").startswith(commit))
    elif word.startswith((_TAG, _STUDY)):
        tag = word.removeprefix(_TAG)
        found = all_that(lambda entry: tag in entry.tags)
    else:
        try:
            return [records.find(word)]
        except RecordsError:
            found = all_that(lambda entry: word in entry.tags) if bare_tags else []
            if not found:
                raise
    if not found:
        raise RecordsError(f"there is no run with {word} in {records.root}; see kvmark runs")
    return found


def is_written(entry: Entry) -> bool:
    """Whether a process still writes the run: it goes, or it has ended and is being closed."""
    if entry.state == "going":
        return True
    if entry.state != "ended":
        return False
    from kvmark.records.writer import Running  # noqa: PLC0415 - few runs need their models

    try:
        return Running.read(entry.path).writer.lives()
    except RecordsError:
        return False


def foreign_in(entry: Entry) -> str | None:
    """The name of a file in a run's folder that kvmark didn't write; None without one."""
    if entry.path.is_symlink():
        # The link goes, and what it leads to stays.
        return None
    foreign = foreign_file(entry.path, files.OWN_FILES)
    return None if foreign is None else str(foreign.relative_to(entry.path))


def size_bytes(entry: Entry) -> int:
    """What the run's files take."""
    total = 0
    for path in entry.path.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size
    return total


def remove(records: Records, run: str) -> None:
    """Removes a run's folder and what is kept beside it; one that is gone already is no problem.

    Raises:
        ForeignFile: its folder holds a file that kvmark didn't write; then nothing is removed.
        RunError: something of it can't be removed; no list shows the run any more if its folder
            could be renamed.
    """
    folder, leaving = records.root / run, records.root / f".{run}.removed"
    try:
        if folder.is_symlink():
            remove_file(folder)
        else:
            with suppress(FileNotFoundError):
                folder.rename(leaving)
        remove_file(verdict_path(records.root, run))
        _remove_folder(leaving)
    except OSError as problem:
        raise RunError(
            f"run {run} can't be removed because of {problem.filename or folder}:"
            f" {problem.strerror}; check the folder's permissions and remove the run again"
        ) from problem


def sweep(records: Records) -> None:
    """Removes what earlier removals left when they were interrupted.

    Raises:
        RunError: it can't be removed.
    """
    try:
        names = [path.name for path in records.root.iterdir()]
    except OSError:
        return
    for name in names:
        left = _LEAVING.fullmatch(name)
        if left and not (records.root / left[1]).exists():
            remove(records, left[1])


def _remove_folder(folder: Path) -> None:
    remove_folder(folder, files.OWN_FILES)
