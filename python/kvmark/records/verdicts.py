"""What is kept beside a run: the verdict on it, and what a list shows of it.

A closed run never changes, so what was found out about it holds as long as the rules are the same.
What it was made of is kept with it as a digest: the source that judges, the run's files and what
was found. When any of these has changed since, nothing is kept.

A list of a thousand runs is read from here, without their manifests and without the libraries that
judging brings.
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
"""What has ended or was killed is closed when it is opened."""

_VERDICT_ENDING: Final = ".verdict.json"

_FORMAT: Final = 3
_JUDGING: Final = ("analysis", "records", "stats")
"""The packages whose source decides a verdict."""
_JUDGED: Final = ("judgement", "reasons")
_LISTED: Final = ("described", "throughput", "response_ns_p99")
_DESCRIBED: Final = ("created", "name", "system", "version", "tags", "commit")


class Judgement(Enum):
    """What a run may be used for."""

    #: As it is.
    VALID = "VALID"
    #: With the reasons beside it.
    SUSPECT = "SUSPECT"
    #: Not at all; comparisons refuse it.
    INVALID = "INVALID"


@dataclass(frozen=True, slots=True)
class Entry:
    """A run in a list: what its manifest says in short, or what is wrong with it."""

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
    """A run in a list. Figures and judgement are none where a run isn't closed or isn't judged."""

    entry: Entry
    #: Operations a second in the first counted phase.
    throughput: float | None = None
    response_ns_p99: int | None = None
    judgement: Judgement | None = None


def verdict_path(root: Path, run: str) -> Path:
    """Where the verdict on a run is kept: beside its folder, never in it."""
    return root / f"{run}{_VERDICT_ENDING}"


def keep_verdict(records: Records, line: RunLine, judged: Mapping[str, object]) -> None:
    """Keeps the verdict on a run, replacing an earlier one.

    Raises:
        RunError: the file can't be written.
    """
    run = line.entry.id
    path = verdict_path(records.root, run)
    described = asdict(line.entry)
    found: dict[str, Any] = {
        **{name: judged[name] for name in _JUDGED},
        "described": {name: described[name] for name in _DESCRIBED},
        "throughput": line.throughput,
        "response_ns_p99": line.response_ns_p99,
    }
    made_of = _made_of(records.root, run, found)
    document = {"format": _FORMAT, "run": run, **found, "made_of": made_of}
    try:
        files.write_atomically(path, files.to_json(document))
    except OSError as problem:
        raise RunError(
            f"the verdict {path} can't be written because {problem.strerror}: the run itself is"
            " kept"
        ) from problem


def kept_verdict(records: Records, run: str) -> Mapping[str, Any] | None:
    """What was kept, if judging the run now would give the same; none otherwise."""
    kept = _kept(records.root, run)
    return None if kept is None else {name: kept[name] for name in _JUDGED}


def kept_line(root: Path, run: str) -> RunLine | None:
    """What a list shows of a closed run, if making it now would give the same; none otherwise."""
    kept = _kept(root, run)
    if kept is None:
        return None
    try:
        described = {**kept["described"], "tags": tuple(kept["described"]["tags"])}
        entry = Entry(run, root / run, "closed", **described)
        judgement = Judgement(kept["judgement"])
        return RunLine(entry, kept["throughput"], kept["response_ns_p99"], judgement)
    except (ValueError, TypeError, KeyError):
        return None


def _kept(root: Path, run: str) -> Mapping[str, Any] | None:
    """The document beside a run, if it was made of what is there now."""
    try:
        kept = files.read_document(verdict_path(root, run))
        found = {name: kept[name] for name in (*_JUDGED, *_LISTED)}
        made_of = kept["made_of"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return kept if made_of == _made_of(root, run, found) else None


def _made_of(root: Path, run: str, found: Mapping[str, object]) -> str:
    """A file is known by its size and the instant of its last change."""
    known = []
    for name in files.CLOSED_FILES:
        try:
            stat = os.stat(f"{root}/{run}/{name}")  # noqa: PTH116 - of thousands
        except OSError:
            continue
        known.append((name, stat.st_size, stat.st_mtime_ns))
    parts = [_rules(), run, known, found]
    return sha256(json.dumps(parts).encode()).hexdigest()


@cache
def _rules() -> str:
    """A digest of the source that judges."""
    digest = sha256()
    for package in _JUDGING:
        for source in sorted((Path(__file__).parents[1] / package).rglob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()
