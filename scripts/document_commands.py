"""Runs the command blocks of documents that are marked as runnable.

.venv/bin/python scripts/document_commands.py README.md docs/guide/redis.md

A block is runnable below the line `<!-- run -->`, or `<!-- run: exits 1 -->` where its last command
answers no. The blocks of a document run in order in one empty folder, with its own testbeds.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BIN = Path(sys.executable).parent
BLOCK = re.compile(r"^<!-- run(?:: exits (\d))? -->\n\n((?: {4}.*\n|\n(?= {4}))+)", re.MULTILINE)
DOWN = "kvmark down --remove >/dev/null 2>&1 || true"


@dataclass(frozen=True)
class Block:
    """Commands of a document, and the exit code that they must have."""

    line: int
    commands: str
    exits: int


def blocks(text: str) -> Iterator[Block]:
    """The runnable blocks of a document."""
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start(2)) + 1
        commands = "\n".join(row[4:] for row in found[2].splitlines())
        yield Block(line, commands, int(found[1] or 0))


def failures(document: Path) -> Iterator[str]:
    """A message for each block that has another exit code."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "KVMARK_TESTBEDS": f"{folder}/testbeds"}

        def run(commands: str) -> int:
            shell = ["bash", "-euo", "pipefail", "-c", commands]
            return subprocess.run(shell, cwd=folder, env=environment, check=False).returncode

        try:
            for block in blocks(document.read_text()):
                print(f"{document}:{block.line}", flush=True)
                if (code := run(block.commands)) != block.exits:
                    yield f"{document}:{block.line}: exit code {code}, not {block.exits}"
        finally:
            run(DOWN)


def main(documents: list[str]) -> int:
    """Runs the blocks of all documents and returns the exit code."""
    wrong = [message for name in documents for message in failures(Path(name))]
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
