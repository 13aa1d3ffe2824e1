"""Commands in processes that have loaded everything already, so that they start at once.

Each process of tests has one that serves forks. In a fork a command has a folder, variables and
output of its own, as in a process that was begun anew.
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
    "ab", "capacity", "compare", "doctor", "import_", "run", "runs", "show", "study_run", "up_run",
)  # fmt: skip
PARTS = (
    "cli.live", "report.model.page", "report.format.terminal", "run.execution",
    "experiment.capacity", "experiment.interleaved_ab",
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


def carry_out(
    words: Sequence[str], folder: Path, variables: Mapping[str, str], out: Path, err: Path
) -> None:
    """The whole command; ends the process."""
    from kvmark.cli import main

    os.chdir(folder)
    # Those of the process that this one comes from are those of the first test.
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


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as the one JSON document it must be, of a kind that is published."""
        return checked(json.loads(self.out))


def start(
    words: Sequence[object], folder: Path, variables: Mapping[str, str], out: Path, err: Path
) -> ForkServerProcess:
    """Begins a command."""
    given = (tuple(map(str, words)), folder, dict(variables), out, err)
    process = CONTEXT.Process(target=carry_out, args=given)
    process.start()
    return process


def run(
    words: Sequence[object], folder: Path, variables: Mapping[str, str], patience_s: float
) -> Ended:
    """Runs a command to its end; one that doesn't come to it is killed."""
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place, "out"), Path(place, "err")
        process = start(words, folder, variables, out, err)
        process.join(patience_s)
        late = process.is_alive()
        if late:
            process.kill()
            process.join()
        code = -1 if process.exitcode is None else process.exitcode
        said = (path.read_text() if path.exists() else "" for path in (out, err))
        return Ended(code, next(said), next(said) + "(killed: it did not end)" * late)
