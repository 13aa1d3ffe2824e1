"""The file next to a run's folder: the verdict on the run, and its line in a list.

A closed run never changes, so its verdict stays valid as long as the rules do. The file contains a
digest of the source code of the rules, the run's files and the verdict. After a change of any of
them the file is ignored.

Lists of a thousand runs are read from these files, without manifests and without the libraries
that the rules need.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from kvmark.errors import RunError
from kvmark.records import files

if TYPE_CHECKING:
    from kvmark.records.store import Records

State = Literal["closed", "ended", "going", "killed", "broken"]
"""Opening a run that has ended or was killed closes it."""

_VERDICT_ENDING: Final = ".verdict.json"

_FORMAT: Final = 3
_JUDGING: Final = ("analysis", "records", "stats")
"""The packages whose source code determines a verdict."""
_SOURCES: Final = (".py", ".toml")
_JUDGED: Final = ("judgement", "reasons")
_LISTED: Final = ("described", "throughput", "response_ns_p99")
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
    #: Operations a second in the first counted phase.
    throughput: float | None = None
    response_ns_p99: int | None = None
    judgement: Judgement | None = None


def verdict_path(root: Path, run: str) -> Path:
    """The file of the verdict on a run: next to its folder, never inside."""
    return root / f"{run}{_VERDICT_ENDING}"


def keep_verdict(records: Records, line: RunLine, judged: Mapping[str, object]) -> None:
    """Writes the verdict on a run, replacing an earlier one.

    Raises:
        RunError: the file can't be written.
    """
    run = line.entry.id
    path = verdict_path(records.root, run)
    described = asdict(line.entry)
    content: dict[str, Any] = {
        **{name: judged[name] for name in _JUDGED},
        "described": {name: described[name] for name in _DESCRIBED},
        "throughput": line.throughput,
        "response_ns_p99": line.response_ns_p99,
    }
    digest = _digest(records.root, run, content)
    document = {"format": _FORMAT, "run": run, **content, "made_of": digest}
    try:
        files.write_atomically(path, files.to_json(document))
    except OSError as problem:
        raise RunError(
            f"the verdict {path} can't be written because {problem.strerror}: the run itself is"
            " kept"
        ) from problem


def kept_verdict(records: Records, run: str) -> Mapping[str, Any] | None:
    """The stored verdict on a run; none if it is missing or outdated."""
    document = _up_to_date(records.root, run)
    return None if document is None else {name: document[name] for name in _JUDGED}


def kept_line(root: Path, run: str) -> RunLine | None:
    """The stored line of a closed run; none if it is missing or outdated."""
    document = _up_to_date(root, run)
    if document is None:
        return None
    try:
        described = {**document["described"], "tags": tuple(document["described"]["tags"])}
        entry = Entry(run, root / run, "closed", **described)
        judgement = Judgement(document["judgement"])
        return RunLine(entry, document["throughput"], document["response_ns_p99"], judgement)
    except (ValueError, TypeError, KeyError):
        return None


def _up_to_date(root: Path, run: str) -> Mapping[str, Any] | None:
    """The document next to a run, if its digest matches the current files and rules."""
    try:
        document = files.read_document(verdict_path(root, run))
        content = {name: document[name] for name in (*_JUDGED, *_LISTED)}
        digest = document["made_of"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return document if digest == _digest(root, run, content) else None


def _digest(root: Path, run: str, content: Mapping[str, object]) -> str:
    """A digest in which each file counts by its size and the instant of its last change."""
    facts = []
    for name in files.CLOSED_FILES:
        try:
            stat = os.stat(f"{root}/{run}/{name}")  # noqa: PTH116 - faster for thousands of files
        except OSError:
            continue
        facts.append((name, stat.st_size, stat.st_mtime_ns))
    return sha256(json.dumps([_rules(), run, facts, content]).encode()).hexdigest()


@cache
def _rules() -> str:
    """A digest of the source code of the rules and of their table."""
    digest = sha256()
    for package in _JUDGING:
        for source in sorted((Path(__file__).parents[1] / package).rglob("*.*")):
            if source.suffix in _SOURCES:
                digest.update(source.read_bytes())
    return digest.hexdigest()
