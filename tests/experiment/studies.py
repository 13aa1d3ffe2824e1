"""Studies of texts, and `kvmark study` in preloaded processes."""

from __future__ import annotations

import json
import os
import re
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


def make_study(text: str, folder: Path, **asked: Any) -> Study:
    """The study of a text, as if it stood in a file of the folder."""
    words = {
        **asked,
        "system": system_name(asked.get("system")),
        "through": tuple(map(SystemName, asked.get("through", ()))),
    }
    return Study(parse_study(text, "study.yaml", folder), StudyRequest(**words), named_system)


def quick(name: str, folder: Path, *changes: tuple[str, str]) -> None:
    """A ready study that hardly waits for a server and makes nothing longer, as `slice.yaml`."""
    text, warmed = re.subn(r"server_warmup: \d+m", "server_warmup: 3s", catalog.study_text(name))
    assert warmed == 1
    for old, new in (("  warmup: 60s", "  warmup: 1s"), ("lengthen: 1", "lengthen: 0"), *changes):
        assert old in text
        text = text.replace(old, new)
    (folder / "slice.yaml").write_text(text)


class Program:
    """Runs commands in a folder, in processes that have loaded what they need."""

    def start(self, folder: Path, *words: object) -> ForkServerProcess:
        """Begins a command."""
        return preloaded.start(words, folder, os.environ, folder / "out", folder / "err")

    def begin_study(
        self, folder: Path, text: str, *words: object, logs: str = "runs/*/intervals.jsonl"
    ) -> ForkServerProcess:
        """Begins a study of a text, and waits for its first interval."""
        (folder / "begun.yaml").write_text(text)
        process = self.start(folder, "study", "begun.yaml", *words)
        wait_for_an_interval(logs, process, folder)
        return process

    def study(self, folder: Path, text: str, *words: object) -> Ended:
        """Runs a study of a text, quietly and without a report."""
        (folder / "study.yaml").write_text(text)
        return self(folder, "study", "study.yaml", "-q", "--report", "none", *words)

    def __call__(self, folder: Path, *words: object) -> Ended:
        """Runs a command to its end."""
        return preloaded.run(words, folder, os.environ, PATIENCE_S)


def wait_for(come: Callable[[], bool], process: ForkServerProcess, folder: Path, what: str) -> None:
    """Waits for what a command that goes on in a folder does."""

    def has_come() -> bool:
        if come():
            return True
        assert process.is_alive(), (folder / "err").read_text()
        return False

    wait_until(has_come, what)


def wait_for_an_interval(logs: str, process: ForkServerProcess, folder: Path) -> None:
    """Waits until a command has written the first interval of a run, by a pattern of its logs."""

    def is_written() -> bool:
        return any(log.stat().st_size for log in folder.glob(logs))

    wait_for(is_written, process, folder, "the first interval has ended")


def terminate(process: ForkServerProcess, folder: Path) -> None:
    """Asks a command to end, which it has to say."""
    process.terminate()
    process.join(PATIENCE_S)
    assert process.exitcode == 130, (folder / "err").read_text()


def manifests(runs: Path) -> dict[str, dict[str, Any]]:
    """The manifest of every closed run, by its id."""
    found = sorted(runs.glob("*/manifest.json"))
    return {path.parent.name: json.loads(path.read_bytes()) for path in found}


def journal_lines(runs: Path) -> int:
    """How many runs of the studies have ended, as far as the journals say."""
    return sum(path.read_bytes().count(b"\n") for path in runs.glob("studies/*/journal.jsonl"))
