"""What of this clone measures, and how much of it has changed since each record was made."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from replanned import documents, planned_otherwise

ROOT = Path(__file__).resolve().parent.parent
NOT_MEASURING = (
    ":!docs", ":!tests", ":!bench", ":!scripts/measure.py", ":!scripts/measured.py",
    ":!scripts/replanned.py", ":!scripts/machine_speed.py", ":!scripts/warm_up_rules.py",
    ":!python/kvmark/records/small.py", ":!python/kvmark/report",
    ":!python/kvmark/cli/commands/archive.py", ":!python/kvmark/cli/commands/doc.py",
    ":!python/kvmark/cli/commands/doc_*.py", ":!*.md", ":!zensical.toml",
    ":!python/kvmark/analysis/verdict", ":!python/kvmark/experiment/judging.py",
    ":!python/kvmark/experiment/designs/matrix/answer.py", ":!python/kvmark/records/verdicts.py",
    ":!python/kvmark/cli/judged.py", ":!python/kvmark/cli/commands/runs.py",
    ":!python/kvmark/analysis/external/ycsb_sequence.py", ":!scripts/fuzz.py", ":!crates/*/tests/*",
)  # fmt: skip
"""What shows, stores or judges runs: which of them stand may change with it, no figure."""


def head() -> str:
    """The last commit that changed what measures: pages are written between two evenings."""
    return _git("log", "-1", "--format=%H", "--", ".", *NOT_MEASURING)


def measured(folder: str) -> str:
    """Each record's commit, and what changed since: files that measure, and plans of studies."""
    title = f"{'record':<30}{'measured':<12}{'commit':<14}changed since in crates, elsewhere"
    lines = [f"{title}, plans of studies"]
    for path in sorted((ROOT / folder).iterdir()):
        plans = _plans(path)
        for commit, day in sorted(_commits(path)):
            line = f"{path.name:<30}{day:<12}{commit[:12]:<14}{_changed(commit)}"
            lines.append(f"{line}{plans}")
    return "\n".join(lines)


def _commits(path: Path) -> set[tuple[str, str]]:
    """Of which commits a record is, and on which days it was made."""
    return {(one["commit"] or "unknown", one["created"][:10]) for one in _documents(path)}


def _documents(path: Path) -> Iterator[dict[str, str]]:
    if path.suffix == ".json":
        yield json.loads(path.read_text(encoding="utf-8"))
        return
    yield from documents(path, "manifest.json")


def _plans(path: Path) -> str:
    found = None if path.suffix == ".json" else planned_otherwise(path)
    return "" if found is None else ", {} of {}".format(*found)


def _changed(commit: str) -> str:
    try:
        files = _git("diff", "--name-only", commit, "--", ".", *NOT_MEASURING).split()
    except subprocess.CalledProcessError:
        return "not known: this clone has no such commit"
    engine = sum(file.startswith("crates/") for file in files)
    return f"{engine}, {len(files) - engine}"


def _git(*words: str) -> str:
    ran = ["git", *words]
    return subprocess.run(ran, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
