"""Studies of texts, and `kvmark study` in preloaded processes."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import preloaded
from preloaded import Ended

from kvmark import catalog
from kvmark.cli.session import named_system
from kvmark.experiment.study.definition import Study, StudyRequest
from kvmark.spec.study import parse_study
from kvmark.spec.url import SystemName, system_name
from waiting import PATIENCE_S, wait_until

MakeStudy = Callable[..., Study]
"""Makes a study of a text, in the test's folder."""

REFUSALS = tomllib.loads((Path(__file__).parent / "refusals.toml").read_text())
TOO_SHORT = """
system: "sim:?mean_us=200000&clock=virtual"
workload: ycsb/c
lengthen: 3
repetitions: 2
once: [{clients: 8}]
run: {records: 10, load: never, interval: 10ms}
factors:
  clients:
    levels:
      8: {clients: 8, duration: 50ms}
      2: {clients: 2, duration: 20s}
"""
"""A study of whose cases one is too short for eight clients."""


def headed(text: str) -> str:
    """A study's text with a name and a question, where it has none."""
    return text if "question:" in text else f"name: mine\nquestion: What is it?\n{text.lstrip()}"


def make_study(text: str, folder: Path, **asked: Any) -> Study:
    """The study of a text, as if it stood in a file of the folder."""
    system, through = system_name(asked.pop("system", None)), asked.pop("through", ())
    request = StudyRequest(system=system, through=tuple(map(SystemName, through)), **asked)
    return Study(parse_study(headed(text), "study.yaml", folder), request, named_system)


def quick(name: str, folder: Path, *changes: tuple[str, str]) -> None:
    """A ready study that hardly waits for a server and makes nothing longer, as `slice.yaml`."""
    text, warmed = re.subn(r"server_warmup: \d+m", "server_warmup: 3s", catalog.study_text(name))
    assert warmed == 1
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    text = text.replace("  warmup: 60s", "  warmup: 1s").replace("lengthen: 1", "lengthen: 0")
    (folder / "slice.yaml").write_text(text)


class Program:
    """Runs commands in a folder, in processes that have loaded what they need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *words: object) -> Ended:
        """Runs a command to its end."""
        return preloaded.run(words, self.folder, os.environ, PATIENCE_S)

    def start(self, *words: object) -> ForkServerProcess:
        """Begins a command."""
        folder = self.folder
        return preloaded.start(words, folder, os.environ, folder / "out", folder / "err")

    def study(self, text: str, *words: object) -> Ended:
        """Runs a study of a text, quietly and without a report."""
        (self.folder / "study.yaml").write_text(headed(text))
        return self("study", "study.yaml", "-q", "--report", "none", *words)

    def begin_study(
        self, text: str, *words: object, logs: str = "runs/*/intervals.jsonl"
    ) -> ForkServerProcess:
        """Begins a study of a text, and waits for its first interval."""
        (self.folder / "begun.yaml").write_text(headed(text))
        process = self.start("study", "begun.yaml", *words)

        def is_written() -> bool:
            return any(log.stat().st_size for log in self.folder.glob(logs))

        self.wait_for(is_written, process, "the first interval has ended")
        return process

    def wait_for(self, come: Callable[[], bool], process: ForkServerProcess, what: str) -> None:
        """Waits for what a command does."""

        def has_come() -> bool:
            if come():
                return True
            assert process.is_alive(), (self.folder / "err").read_text()
            return False

        wait_until(has_come, what)

    def terminate(self, process: ForkServerProcess) -> None:
        """Asks a command to end, which it has to say."""
        process.terminate()
        process.join(PATIENCE_S)
        assert process.exitcode == 130, (self.folder / "err").read_text()

    def manifests(self, runs: str = "runs") -> dict[str, dict[str, Any]]:
        """The manifest of every closed run, by its id."""
        found = sorted((self.folder / runs).glob("*/manifest.json"))
        return {path.parent.name: json.loads(path.read_bytes()) for path in found}


def journal_lines(runs: Path) -> int:
    """How many runs of the studies have ended, as far as the journals say."""
    return sum(path.read_bytes().count(b"\n") for path in runs.glob("studies/*/journal.jsonl"))
