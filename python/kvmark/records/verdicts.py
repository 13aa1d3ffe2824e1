"""The verdict kept beside a run: written, and read without the libraries that judging brings.

A closed run never changes, so a verdict on it holds as long as the rules are the same. What it was
made of is kept with it as a digest: the source that judges, the run's files and the verdict itself.
When any of these has changed since, nothing is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from kvmark.errors import RunError
from kvmark.records import files
from kvmark.records.store import Records

__all__ = ["keep_verdict", "kept_verdict"]

_FORMAT: Final = 1
_JUDGING: Final = ("analysis", "records", "stats")
"""The packages whose source decides a verdict."""


def keep_verdict(
    records: Records, run: str, repetitions: int, judged: Mapping[str, object]
) -> None:
    """Keeps the verdict on one of so many repetitions, replacing an earlier one.

    Raises:
        RunError: the file can't be written.
    """
    path = records.verdict_path(run)
    made_of = _made_of(records, run, repetitions, judged)
    document = {"format": _FORMAT, "run": run, **judged, "made_of": made_of}
    try:
        files.write_atomically(path, files.to_json(document))
    except OSError as problem:
        raise RunError(
            f"the verdict {path} can't be written because {problem.strerror}: the run itself is"
            " kept"
        ) from problem


def kept_verdict(records: Records, run: str, repetitions: int) -> Mapping[str, Any] | None:
    """What was kept, if judging the run now would give the same; none otherwise."""
    try:
        kept = json.loads(records.verdict_path(run).read_bytes())
        judged = {name: kept[name] for name in ("judgement", "reasons")}
        made_of = kept["made_of"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return judged if made_of == _made_of(records, run, repetitions, judged) else None


def _made_of(records: Records, run: str, repetitions: int, judged: Mapping[str, object]) -> str:
    """A file is known by its size and the instant of its last change."""
    found = ((name, records.root / run / name) for name in files.CLOSED_FILES)
    stats = [(name, path.stat()) for name, path in found if path.exists()]
    known = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    parts = [_rules(), repetitions, known, judged]
    return sha256(json.dumps(parts).encode()).hexdigest()


@cache
def _rules() -> str:
    """A digest of the source that judges."""
    digest = sha256()
    for package in _JUDGING:
        for source in sorted((Path(__file__).parents[1] / package).glob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()
