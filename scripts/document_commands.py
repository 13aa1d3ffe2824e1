"""Runs the command blocks of documents that are marked as runnable.

.venv/bin/python scripts/document_commands.py README.md docs/guide/redis.md

A block is runnable below the line `<!-- run -->`. The blocks of a document run in order in an empty
folder, with its own testbeds. A command may answer no (exit code 1), as a measurement on a busy
machine does; any other error fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

BIN = Path(sys.executable).parent
BLOCK = re.compile(r"^<!-- run -->\n\n((?: {4}.*\n|\n(?= {4}))+)", re.MULTILINE)
FAIL = "trap 'code=$?; [ $code -le 1 ] || exit $code' ERR\n"
DOWN = "kvmark down --remove >/dev/null 2>&1\n"


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """The line and the commands of each runnable block of a document."""
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start(1)) + 1
        yield line, "\n".join(row[4:] for row in found[1].splitlines())


def failures(document: Path) -> Iterator[str]:
    """A message for each block with a command that fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "KVMARK_TESTBEDS": f"{folder}/testbeds"}

        def run(commands: str) -> int:
            shell = ["bash", "-c", commands]
            return subprocess.run(shell, cwd=folder, env=environment, check=False).returncode

        try:
            for line, commands in blocks(document.read_text()):
                print(f"{document}:{line}", flush=True)
                if (code := run(f"{FAIL}{commands}\nexit 0")) != 0:
                    yield f"{document}:{line}: exit code {code}"
        finally:
            run(DOWN)


def main(documents: list[str]) -> int:
    """Runs the blocks of all documents and returns the exit code."""
    wrong = [message for name in documents for message in failures(Path(name))]
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
