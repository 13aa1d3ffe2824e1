"""The command line as a user has it: its own process, its own folder.

A command that is waited for comes from a process that has everything loaded; one that is begun, to
be looked at, interrupted or killed, is the program itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import preloaded
import pytest
from preloaded import Ended

from kvmark.records import Records
from waiting import PATIENCE_S, wait_until

PROGRAM = Path(sys.executable).with_name("kvmark")


@dataclass(frozen=True)
class Result(Ended):
    """What a finished command left behind."""

    command: tuple[str, ...]
    folder: Path

    def __str__(self) -> str:
        there = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))
        listed = "\n".join(there[:100])
        return (
            f"$ {' '.join(self.command)}\nexit code {self.code}\n--- standard output\n{self.out}"
            f"\n--- standard error\n{self.err}\n--- {self.folder}\n{listed}"
        )


@dataclass
class Kvmark:
    """Runs commands in a folder of the test's own, and keeps their runs there."""

    folder: Path
    runs: Path
    more: dict[str, str] = field(default_factory=dict)
    patience_s: float = PATIENCE_S

    def __call__(self, *words: object, exits: int | tuple[int, ...] = 0) -> Result:
        """Runs a command to its end; fails the test when it exits otherwise."""
        ended = preloaded.run(words, self.folder, self._environment(), self.patience_s)
        return self._checked(words, ended, exits)

    def start(
        self,
        *words: object,
        out: TextIO | int = subprocess.PIPE,
        err: TextIO | int = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        """Begins the program."""
        return subprocess.Popen(
            [str(PROGRAM), *map(str, words)],
            cwd=self.folder,
            env=self._environment(),
            stdout=out,
            stderr=err,
            text=True,
        )

    def kill(self, started: subprocess.Popen[str]) -> None:
        """kill -9, and nothing is written any more, as by a process that generated its load."""
        started.kill()
        started.communicate()
        records = Records(self.runs)
        wait_until(lambda: all(run.state != "going" for run in records.list()), "no run goes")

    def finish(self, started: subprocess.Popen[str], exits: int | tuple[int, ...]) -> Result:
        """Waits for a command that was begun."""
        try:
            out, err = started.communicate(timeout=self.patience_s)
        except subprocess.TimeoutExpired:
            started.kill()
            out, err = started.communicate()
            err += "\n(killed because it did not end)"
        words = started.args if isinstance(started.args, list) else ()
        return self._checked(words[1:], Ended(started.returncode, out or "", err), exits)

    def refuses(self, *words: object, exits: int = 2) -> str:
        """Runs a command that must fail with one sentence, add no run, and harm none."""
        before = fingerprint(self.runs)
        result = self(*words, exits=exits)
        assert result.out == "", result
        assert fingerprint(self.runs) == before, result
        return sentence_of(result.err)

    def manifest(self, run: str | None = None) -> dict[str, Any]:
        """The manifest of a run by its id, or of the newest one."""
        folder = self.runs / run if run else run_folders(self.runs)[-1]
        manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
        return manifest

    def _checked(
        self, words: Sequence[object], ended: Ended, exits: int | tuple[int, ...]
    ) -> Result:
        command = ("kvmark", *map(str, words))
        result = Result(ended.code, ended.out, ended.err, command, self.folder)
        if result.code not in (exits if isinstance(exits, tuple) else (exits,)):
            pytest.fail(f"exits with {result.code} and not {exits}:\n{result}", pytrace=False)
        return result

    def _environment(self) -> Mapping[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        return {**kept, "KVMARK_RUNS": str(self.runs), "NO_COLOR": "1", **self.more}


def sentence_of(err: str) -> str:
    """The one sentence of a command that failed; lines of progress may stand before it."""
    lines = [line for line in err.splitlines() if not line.startswith("[")]
    assert len(lines) == 1, err
    assert lines[0].startswith("kvmark: "), err
    return lines[0].removeprefix("kvmark: ")


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file below a folder with the hash of what is in it."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def run_folders(runs: Path) -> list[Path]:
    """The folders of the runs, oldest first."""
    found = [path for path in runs.glob("*") if path.is_dir() and path.name != "studies"]
    return sorted(found, key=lambda path: path.stat().st_ctime_ns)


@dataclass
class Going:
    """A run that goes, in a process of its own."""

    kvmark: Kvmark
    process: subprocess.Popen[str]
    folder: Path

    def wait_for_intervals(self, count: int) -> None:
        """Waits until so many lines of intervals are on the disk."""
        log = self.folder / "intervals.jsonl"

        def written() -> bool:
            assert self.process.poll() is None, self.process.communicate()
            return log.exists() and log.read_bytes().count(b"\n") >= count

        wait_until(written, f"{log} has {count} lines")

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """kill -9."""
        self.kvmark.kill(self.process)

    def finish(self, exits: int) -> Result:
        """Waits for its end."""
        return self.kvmark.finish(self.process, exits)
