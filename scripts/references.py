"""Writes the references that are generated from the source, or checks that they are current.

python3 scripts/references.py [--check]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
CARGO = [sys.executable, "scripts/cargo.py", "run", "--quiet", "--release", "--locked"]
COMMANDS = {
    "python/kvmark/plan/plan.schema.json": [*CARGO, "-p", "kvmark-plan", "--example", "schema"],
    "docs/reference/kvmark.schema.json": [str(BIN / "python"), "-m", "kvmark.cli.documents"],
    "docs/reference/stores.md": [str(BIN / "python"), "scripts/reference_pages.py", "stores"],
    "docs/reference/workloads.md": [str(BIN / "python"), "scripts/reference_pages.py", "workloads"],
}
"""The command that prints each file."""
PAGES = ROOT / "docs" / "reference" / "commands"
PRINT_PAGES = [str(BIN / "python"), "scripts/command_pages.py"]
"""The folder with a page for each command, and the command that prints them."""


def generated(command: list[str]) -> str:
    """The text for the source as it is now."""
    # The width and the colours of a terminal must not change the text.
    plain = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        command, cwd=ROOT, env=plain, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip() + "\n"


def main(arguments: list[str]) -> int:
    """Writes or checks them all and returns the exit code."""
    texts = {ROOT / name: generated(command) for name, command in COMMANDS.items()}
    pages = json.loads(generated(PRINT_PAGES))
    texts |= {PAGES / name: f"{text}\n" for name, text in pages.items()}
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    stale += sorted(set(PAGES.glob("*.md")) - set(texts))
    if stale and arguments == ["--check"]:
        print(*stale, "no longer follow the source: run `make docs`.", file=sys.stderr)
        return 1
    for path in stale:
        if path in texts:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[path])
        else:
            path.unlink()
        print("written:" if path in texts else "removed:", path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
