"""Writes the references that are generated from the source, or checks that they are current.

python3 scripts/references.py [--check]
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
CARGO = [sys.executable, "scripts/cargo.py", "run", "--quiet", "--release", "--locked"]


@dataclass(frozen=True)
class Reference:
    """A generated file, and the command that prints it."""

    path: str
    command: list[str]

    def generate(self) -> str:
        """The text as the source has it now."""
        # A terminal's width and colours must not reach the text.
        plain = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
        printed = subprocess.run(
            self.command, cwd=ROOT, env=plain, stdout=subprocess.PIPE, text=True, check=True
        )
        return printed.stdout.strip() + "\n"

    def committed(self) -> str | None:
        """The text that is there."""
        file = ROOT / self.path
        return file.read_text() if file.exists() else None


REFERENCES = [
    Reference(
        "python/kvmark/plan/plan.schema.json",
        [*CARGO, "-p", "kvmark-plan", "--example", "schema"],
    ),
    Reference(
        "docs/reference/kvmark.schema.json",
        [str(BIN / "python"), "-m", "kvmark.cli.documents"],
    ),
    Reference(
        "docs/reference/commands.md",
        [str(BIN / "typer"), "kvmark.cli.reference", "utils", "docs", "--name", "kvmark"],
    ),
]


def main(arguments: list[str]) -> int:
    """Writes or checks them all and returns the exit code."""
    stale = []
    for reference in REFERENCES:
        text = reference.generate()
        if reference.committed() == text:
            continue
        stale.append(reference.path)
        if arguments != ["--check"]:
            (ROOT / reference.path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / reference.path).write_text(text)
            print("written:", reference.path)
    if stale and arguments == ["--check"]:
        print(*stale, "no longer follow the source: run `make docs`.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
