"""How many tests each file has, beside how many it must have: a test that is gone is noticed.

`tests/counts.txt` is written by `make counts`. More tests than it knows are welcome, fewer fail
`make test`: who removes a test writes the file anew, and the change shows it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import target_folder

ROOT = Path(__file__).resolve().parent.parent
COUNTS = ROOT / "tests" / "counts.txt"
HEAD = "# Tests in each file, by `make counts`; fewer fail `make test`, more need no change here.\n"
COLLECTED = re.compile(r"^(\S+\.py): (\d+)$", re.MULTILINE)
RUST = ["test", "--release", "--locked", "--workspace", "--exclude", "kvmark-pyext"]


class NotCounted(Exception):
    """The tests can't be collected; the text says why."""


def said_by(command: list[str]) -> str:
    """What a command printed. Raises NotCounted when it fails."""
    environment = target_folder.environment(target_folder.place())
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        raise NotCounted(f"{done.stdout}`{' '.join(command)}` failed, see above.")
    return done.stdout


def in_python() -> dict[str, int]:
    """The tests that pytest finds."""
    said = said_by([sys.executable, "-m", "pytest", "--collect-only", "-qq"])
    return {file: int(count) for file, count in COLLECTED.findall(said)}


def in_rust() -> dict[str, int]:
    """The tests of each program that Cargo builds for tests, ignored ones too."""
    cargo = [sys.executable, str(ROOT / "scripts" / "cargo.py"), *RUST]
    counts = {}
    for line in said_by(
        [*cargo, "--no-run", "--message-format=json-render-diagnostics"]
    ).splitlines():
        message = json.loads(line)
        if message.get("executable") and message["profile"]["test"]:
            file = str(Path(message["target"]["src_path"]).relative_to(ROOT))
            listed = said_by([message["executable"], "--list", "--format", "terse"])
            counts[file] = listed.count(": test\n")
    return counts


def read(text: str) -> dict[str, int]:
    """The counts in a file; where a merge left two of one file, the greater."""
    counts: dict[str, int] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            file, count = line.split()
            counts[file] = max(counts.get(file, 0), int(count))
    return counts


def written(counts: dict[str, int]) -> str:
    """A file with these counts."""
    return HEAD + "".join(f"{file} {count}\n" for file, count in sorted(counts.items()) if count)


def gone(known: dict[str, int], found: dict[str, int]) -> list[str]:
    """A sentence for each file that has lost tests."""
    return [
        f"{file} has {found.get(file, 0)} tests and had {count}"
        for file, count in known.items()
        if found.get(file, 0) < count
    ]


def main(words: list[str]) -> int:
    """Writes the counts, or with `--check` compares them; returns the exit code."""
    try:
        found = {**in_python(), **in_rust()}
    except NotCounted as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if words != ["--check"]:
        COUNTS.write_text(written(found))
        return 0
    lost = gone(read(COUNTS.read_text()), found)
    if lost:
        advice = "Bring the tests back, or let the change say that they go: `make counts`."
        print(*lost, advice, sep="\n", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
