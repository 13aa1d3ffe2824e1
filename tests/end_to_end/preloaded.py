"""Commands in processes that have loaded all modules, so that they start at once.

Each process of pytest has one server for forks. A fork has its folder, variables and output, as a
new process has.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from known_documents import checked

COMMANDS = (
    "ab", "audit", "capacity", "compare", "doctor", "import_", "recover", "run", "runs", "show",
    "study_run", "up_run",
)  # fmt: skip
PARTS = (
    "cli.live", "report.model.page", "report.format.terminal", "run.execution",
    "experiment.capacity", "experiment.interleaved_ab", "experiment.recover",
    "frontends.cassandra_stress.execution", "frontends.yugabyte_apps.execution",
    "frontends.ycsb.execution",
)  # fmt: skip
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        *(f"kvmark.cli.commands.{name}" for name in COMMANDS),
        *(f"kvmark.{name}" for name in PARTS),
        __name__,
    ]
)


@dataclass(frozen=True)
class Ended:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as one JSON document that satisfies the published schema."""
        return checked(json.loads(self.out))


def execute(
    words: Sequence[str], folder: Path, variables: Mapping[str, str], out: Path, err: Path
) -> None:
    """Executes a command and ends the process."""
    from kvmark.cli import main

    os.chdir(folder)
    # The variables of the fork server are those of the first test.
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = ["kvmark", *words]
    sys.stdout, sys.stderr = out.open("w"), err.open("w")
    os.dup2(sys.stdout.fileno(), 1)
    os.dup2(sys.stderr.fileno(), 2)
    code = main(words)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def start(
    words: Sequence[object], folder: Path, variables: Mapping[str, str], out: Path, err: Path
) -> ForkServerProcess:
    """Starts a command that writes its output to files."""
    arguments = (tuple(map(str, words)), folder, dict(variables), out, err)
    process = CONTEXT.Process(target=execute, args=arguments)
    process.start()
    return process


def run(
    words: Sequence[object], folder: Path, variables: Mapping[str, str], timeout_s: float
) -> Ended:
    """Runs a command and kills it at the timeout."""
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place, "out"), Path(place, "err")
        process = start(words, folder, variables, out, err)
        process.join(timeout_s)
        late = process.is_alive()
        if late:
            process.kill()
            process.join()
        code = -1 if process.exitcode is None else process.exitcode
        texts = [path.read_text() if path.exists() else "" for path in (out, err)]
        return Ended(code, texts[0], texts[1] + "(killed: it did not end)" * late)
