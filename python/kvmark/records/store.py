"""The catalogue of runs: one folder each, below one root, and next to it the verdict on the run.

A run reference of the user selects one run, or all runs of a tag, a study or a commit. A run whose
removal was interrupted is in no list.

A closed run never changes, so its verdict stays valid as long as the rules do. The file next to its
folder contains the run's line in a list, the verdict, and a digest of both, of the source code of
the rules and of the run's files. After a change of any of them the file is ignored. Lists of a
thousand runs are read from these files, without manifests and without the libraries that the rules
need.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from hashlib import sha256
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from kvmark.errors import RecordsError, RunError, UsageError
from kvmark.records import files
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

State = Literal["closed", "ended", "going", "killed", "broken"]
"""Opening a run that has ended or was killed closes it."""
USABLE: Final[Collection[State]] = ("closed", "ended", "killed")
"""States of runs that can be read after they were closed."""
ANY: Final[Collection[State]] = (*USABLE, "going", "broken")

_LEAVING: Final = re.compile(r"\.(\d{8}-\d{6}-[a-z0-9-]+)\.removed")
"""The name of a folder during its removal; no list shows it."""

_VERDICT_ENDING: Final = ".verdict.json"

_VERDICT_FORMAT: Final = 3
_JUDGING: Final = ("analysis", "records", "stats")
"""The packages whose source code determines a verdict."""
_JUDGED: Final = ("judgement", "reasons")
_FIGURES: Final = ("throughput", "response_ns_p99", "least_throughput", "service_ns_p99")
_LISTED: Final = ("described", *_FIGURES)
_DESCRIBED: Final = ("created", "name", "system", "version", "tags", "commit")


class Judgement(Enum):
    """The usability of a run."""

    VALID = "VALID"
    #: Usable with the reported reasons in mind.
    SUSPECT = "SUSPECT"
    #: Not usable; comparisons reject it.
    INVALID = "INVALID"


@dataclass(frozen=True, slots=True)
class Entry:
    """A run in a list: a summary of its manifest, or the problem with it."""

    id: str
    path: Path
    state: State
    created: str
    name: str = ""
    system: str = ""
    version: str = ""
    tags: tuple[str, ...] = ()
    commit: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in a list. Figures and judgement are none for a run that isn't closed or judged."""

    entry: Entry
    #: Operations a second in the first counted phase; of an import, those of its fastest case.
    throughput: float | None = None
    response_ns_p99: int | None = None
    judgement: Judgement | None = None
    service_ns_p99: int | None = None
    #: Operations a second of the slowest case of an import; none for other runs.
    least_throughput: float | None = None

    @property
    def verdict(self) -> str:
        """The judgement, or the state of a run without one."""
        return self.judgement.value if self.judgement else self.entry.state


def _now() -> datetime:
    return datetime.now(UTC)


def _token() -> str:
    return os.urandom(2).hex()


@dataclass(frozen=True, slots=True)
class Records:
    """All runs below ``root``. Tests replace the clock and the token.

    Other processes get it, too, so that its functions have names.
    """

    root: Path
    now: Callable[[], datetime] = _now
    token: Callable[[], str] = _token

    @classmethod
    def at(cls, folder: Path | None) -> Records:
        """The runs of a folder; by default of ``KVMARK_RUNS``, or of ``runs``."""
        return cls(folder or Path(os.environ.get("KVMARK_RUNS") or "runs"))

    def new(self, name: str) -> RunFolder:
        """Creates the folder of a new run; never reuses an existing one.

        Raises:
            UsageError: the folder of all runs is a file.
            RunError: the folder can't be created.
        """
        # Lists need no writer, and its libraries are slow to import.
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

    def list(self) -> list[Entry]:
        """The runs, newest first. An unreadable run is listed with its problem."""
        return [line.entry for line in self.lines()]

    def lines(self) -> Iterator[RunLine]:
        """The runs, newest first, with figures and judgement if an up-to-date verdict is stored.

        They are sorted by the second in the id, then by the exact time in the manifest.
        """
        ids = sorted(self.ids(), reverse=True)
        for _, same_second in groupby(ids, key=lambda run: run[:_SECOND]):
            lines = [self.line(run) for run in same_second]
            yield from sorted(lines, key=lambda line: line.entry.created, reverse=True)

    def find(self, word: str) -> Entry:
        """One run by an id, a unique prefix of one, a folder, ``last``, or ``last~1``.

        ``last`` counts runs that are closed, have ended or were killed.

        Raises:
            RecordsError: no run matches, or several do.
        """
        last = _LAST.fullmatch(word)
        if last:
            return self._last(int(last[1] or 0))
        name = Path(word).name if "/" in word else word
        if _ID.fullmatch(name) and (self.root / name).is_dir():
            return self.line(name).entry
        ids = list(self.ids())
        matching = sorted(run for run in ids if name and run.startswith(name))
        if len(matching) == 1:
            return self.line(matching[0]).entry
        if matching:
            raise RecordsError(f"'{word}' can be {_some(matching)}: add to it until it is one")
        place = self.root.absolute()
        raise RecordsError(f"there is no run '{word}' in {place}{_nearest(name, ids)}")

    def open(self, word: str) -> Run:
        """The run of a reference as in `find`, closed now if it has ended or was killed.

        Raises:
            RecordsError: no run matches, a process still writes it, or it can't be read.
        """
        return self.open_entry(self.find(word))

    def open_entry(self, entry: Entry) -> Run:
        """The run of an entry of the list, as `open`.

        Raises:
            RecordsError: a process still writes it, or it can't be read.
        """
        if entry.state == "broken":
            raise RecordsError(f"run {entry.id} can't be read: {entry.problem}")
        # Reading needs Polars, which is slow to import.
        from kvmark.records import Run, close_run, recover_run  # noqa: PLC0415

        if entry.state == "closed":
            return Run.open(entry.path)
        return close_run(entry.path) if entry.state == "ended" else recover_run(entry.path)

    def verdict_path(self, run: str) -> Path:
        """The file of the verdict on a run: next to its folder, never inside."""
        return self.root / f"{run}{_VERDICT_ENDING}"

    def _last(self, back: int) -> Entry:
        usable = (line.entry for line in self.lines() if line.entry.state in USABLE)
        entry = next(islice(usable, back, None), None)
        if entry is None:
            which = "last" if back == 0 else f"last~{back}"
            place = f"there is no run '{which}' in {self.root.absolute()}: too few were made"
            raise RecordsError(f"{place}; use kvmark run, or name another folder with --runs")
        return entry

    def ids(self) -> Iterator[str]:
        """The ids of all runs, unordered.

        Raises:
            RecordsError: the folder can't be read.
        """
        try:
            with os.scandir(self.root) as folder:
                yield from (
                    entry.name for entry in folder if _ID.fullmatch(entry.name) and entry.is_dir()
                )
        except FileNotFoundError:
            return
        except OSError as problem:
            raise RecordsError(
                f"the folder of runs {self.root} can't be read: {problem.strerror}"
            ) from problem

    def line(self, run: str) -> RunLine:
        """The run of this exact id, with figures and judgement if a verdict is stored."""
        return _kept_line(self, run) or RunLine(self._entry(run))

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
                from kvmark.records.writer import Writer  # noqa: PLC0415

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
    """The instant in a run's id; if that is invalid, the last change of the folder."""
    try:
        created = datetime.strptime(path.name[:_SECOND], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        created = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return created.isoformat()


def _slug(name: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST_SLUG].strip("-")
    return f"{plain}-" if plain else ""


def _some(ids: list[str]) -> str:
    shown = ", ".join(ids[:_MOST_LISTED])
    more = len(ids) - _MOST_LISTED
    return f"{shown} or {more} more" if more > 0 else shown.replace(", ", " or ")


def _nearest(name: str, ids: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415 - only this message needs it

    near = difflib.get_close_matches(name, sorted(ids), n=1, cutoff=0.5)
    return f"; the nearest is {near[0]}" if near else "; see kvmark runs"


def entries_of(
    records: Records, word: str, states: Collection[State], *, bare_tags: bool
) -> list[Entry]:
    """The runs of a reference, newest first; of several only those in these states.

    A reference is an id or a prefix of one, `last` or `last~1`, `tag:NAME`, `study:ID` or
    `commit:ID`; with ``bare_tags`` also a tag alone, unless it is a prefix of an id.

    Raises:
        RecordsError: no run matches.
    """
    word = word.strip()

    def runs(matches: Callable[[Entry], bool]) -> list[Entry]:
        return [entry for entry in records.list() if entry.state in states and matches(entry)]

    if word.startswith("commit:"):
        commit = word.removeprefix("commit:")
        entries = runs(lambda entry: bool(commit) and (entry.commit or "").startswith(commit))
    elif word.startswith(("tag:", "study:")):
        # The runs of a study have its whole reference as a tag.
        tag = word.removeprefix("tag:")
        entries = runs(lambda entry: tag in entry.tags)
    else:
        try:
            return [records.find(word)]
        except RecordsError:
            entries = runs(lambda entry: word in entry.tags) if bare_tags else []
            if not entries:
                raise
    if not entries:
        raise RecordsError(f"there is no run with {word} in {records.root}; see kvmark runs")
    return entries


def is_written(entry: Entry) -> bool:
    """Whether a process still measures, or closes, the run."""
    if entry.state == "going":
        return True
    if entry.state != "ended":
        return False
    from kvmark.records.writer import Running  # noqa: PLC0415 - few runs need its models

    try:
        return Running.read(entry.path).writer.lives()
    except RecordsError:
        return False


def foreign_in(entry: Entry) -> str | None:
    """The name of a file in a run's folder that kvmark didn't write, if there is any."""
    if entry.path.is_symlink():
        # Removal deletes the link and keeps its target.
        return None
    foreign = foreign_file(entry.path, files.OWN_FILES)
    return None if foreign is None else str(foreign.relative_to(entry.path))


def size_bytes(entry: Entry) -> int:
    """The total size of the run's files."""
    total = 0
    for path in entry.path.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size
    return total


def remove(records: Records, run: str) -> None:
    """Removes a run's folder and its verdict; ignores a run that doesn't exist.

    Raises:
        ForeignFile: its folder contains a file that kvmark didn't write; nothing is removed.
        RunError: a file can't be removed; no list shows the run if its folder could be renamed.
    """
    folder, leaving = records.root / run, records.root / f".{run}.removed"
    try:
        if folder.is_symlink():
            remove_file(folder)
        else:
            with suppress(FileNotFoundError):
                folder.rename(leaving)
        remove_file(records.verdict_path(run))
        remove_folder(leaving, files.OWN_FILES)
    except OSError as problem:
        raise RunError(
            f"run {run} can't be removed because of {problem.filename or folder}:"
            f" {problem.strerror}; check the folder's permissions and remove the run again"
        ) from problem


def sweep(records: Records) -> None:
    """Completes interrupted removals.

    Raises:
        RunError: a file can't be removed.
    """
    try:
        names = [path.name for path in records.root.iterdir()]
    except OSError:
        return
    for name in names:
        left = _LEAVING.fullmatch(name)
        if left and not (records.root / left[1]).exists():
            remove(records, left[1])


def keep_verdict(records: Records, line: RunLine, judged: Mapping[str, object]) -> None:
    """Writes the verdict on a run, replacing an earlier one.

    Raises:
        RunError: the file can't be written.
    """
    run = line.entry.id
    path = records.verdict_path(run)
    described = asdict(line.entry)
    content: dict[str, Any] = {
        **{name: judged[name] for name in _JUDGED},
        "described": {name: described[name] for name in _DESCRIBED},
        **{name: getattr(line, name) for name in _FIGURES},
    }
    digest = _digest(records, run, content)
    document = {"format": _VERDICT_FORMAT, "run": run, **content, "made_of": digest}
    try:
        files.write_atomically(path, files.to_json(document))
    except OSError as problem:
        raise RunError(
            f"the verdict {path} can't be written because {problem.strerror}: the run itself is"
            " kept"
        ) from problem


def kept_verdict(records: Records, run: str) -> Mapping[str, Any] | None:
    """The stored verdict on a run; none if it is missing or outdated."""
    document = _up_to_date(records, run)
    return None if document is None else {name: document[name] for name in _JUDGED}


def _kept_line(records: Records, run: str) -> RunLine | None:
    """The stored line of a closed run; none if it is missing or outdated."""
    document = _up_to_date(records, run)
    if document is None:
        return None
    try:
        described = {**document["described"], "tags": tuple(document["described"]["tags"])}
        entry = Entry(run, records.root / run, "closed", **described)
        figures = {name: document[name] for name in _FIGURES}
        return RunLine(entry, judgement=Judgement(document["judgement"]), **figures)
    except (ValueError, TypeError, KeyError):
        return None


def _up_to_date(records: Records, run: str) -> Mapping[str, Any] | None:
    """The document next to a run, if its digest matches the current files and rules."""
    try:
        document = files.read_document(records.verdict_path(run))
        content = {name: document[name] for name in (*_JUDGED, *_LISTED)}
        digest = document["made_of"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return document if digest == _digest(records, run, content) else None


def _digest(records: Records, run: str, content: Mapping[str, object]) -> str:
    """A digest in which each file counts by its size and the instant of its last change."""
    facts = []
    for name in files.CLOSED_FILES:
        try:
            stat = os.stat(f"{records.root}/{run}/{name}")  # noqa: PTH116 - faster for thousands of files
        except OSError:
            continue
        facts.append((name, stat.st_size, stat.st_mtime_ns))
    return sha256(json.dumps([_rules(), run, facts, content]).encode()).hexdigest()


@cache
def _rules() -> str:
    """A digest of the rules: source code and tables."""
    digest = sha256()
    for package in _JUDGING:
        for source in sorted((Path(__file__).parents[1] / package).rglob("*.*")):
            if source.suffix in (".py", ".toml"):
                digest.update(source.read_bytes())
    return digest.hexdigest()
