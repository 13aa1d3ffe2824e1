"""Studies made of texts, and the command `kvmark study` in processes that start at once."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from kvmark.cli.system import named_system
from kvmark.spec.study import parse_study
from kvmark.study.definition import Asked, Study

PATIENCE_S = 120.0
PRELOADED = ["kvmark.cli.studying", "kvmark.cli.study_answering", "kvmark.report.page", "studies"]


def make_study(text: str, folder: Path, **asked: Any) -> Study:
    """The study of a text, as if it stood in a file of the folder."""
    return Study(parse_study(text, "study.yaml", folder), Asked(**asked), named_system)


def carried_out(words: list[str], folder: str, variables: dict[str, str]) -> None:
    """The whole command, in a process that has the libraries of answers anyhow."""
    from kvmark.cli import main
    from kvmark.study import carry, judging

    os.chdir(folder)
    # Those of the process that this one comes from are those of the first test.
    os.environ.clear()
    os.environ.update(variables)
    # A process of its own would only load them once more.
    carry.usable_apart = judging.usable
    carry.best_attempts.__defaults__ = (judging.usable,)
    with Path("out").open("w") as out, Path("err").open("w") as err:
        sys.stdout, sys.stderr = out, err
        code = main(words)
        out.flush()
        err.flush()
    os._exit(code)


@dataclass(frozen=True)
class Ended:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.out)


@dataclass
class Program:
    """Starts commands from a process that has loaded what they need."""

    context: ForkServerContext = field(
        default_factory=lambda: multiprocessing.get_context("forkserver")
    )

    def __post_init__(self) -> None:
        """Names what is loaded once."""
        self.context.set_forkserver_preload(PRELOADED)

    def start(self, folder: Path, *words: object) -> ForkServerProcess:
        """Begins a command in a folder."""
        command = [str(word) for word in words]
        process = self.context.Process(
            target=carried_out, args=(command, str(folder), dict(os.environ))
        )
        process.start()
        return process

    def __call__(self, folder: Path, *words: object) -> Ended:
        """Runs a command to its end."""
        process = self.start(folder, *words)
        process.join(PATIENCE_S)
        if process.is_alive():
            process.kill()
            process.join()
        code = -1 if process.exitcode is None else process.exitcode
        return Ended(code, (folder / "out").read_text(), (folder / "err").read_text())


def manifests(runs: Path) -> dict[str, dict[str, Any]]:
    """The manifest of every closed run, by its id."""
    found = sorted(runs.glob("*/manifest.json"))
    return {path.parent.name: json.loads(path.read_bytes()) for path in found}


def journal_lines(runs: Path) -> int:
    """How many runs of the studies have ended, as far as the journals say."""
    return sum(path.read_bytes().count(b"\n") for path in runs.glob("studies/*/journal.jsonl"))
