"""The command line in a process and a folder for each test.

A command that the test waits for runs in a preloaded process. A command that the test observes,
interrupts or kills is the installed program.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from typing import Any, TextIO

import polars as pl
import preloaded
import pytest
from preloaded import Ended

from kvmark.records import Records, files
from kvmark.trace.folder import COLUMNS, Trace
from waiting import PATIENCE_S, wait_until

INTERVALS, EVENTS = f"*/{files.INTERVAL_LOG}", f"*/{files.EVENTS}"
PROGRAM = Path(sys.executable).with_name("kvmark")
Exits = int | tuple[int, ...]
Stream = TextIO | int


@dataclass(frozen=True)
class Result(Ended):
    """A finished command."""

    arguments: list[str]
    kvmark: Kvmark

    def __str__(self) -> str:
        paths = sorted(map(str, self.kvmark.folder.rglob("*")))
        return (
            f"$ kvmark {shlex.join(self.arguments)}\nexit code {self.code}\n--- standard output\n"
            f"{self.out}\n--- standard error\n{self.err}\n--- files\n" + "\n".join(paths[:100])
        )


@dataclass
class Kvmark:
    """Runs commands in a folder and keeps their runs in `runs`.

    The first argument is split as a shell does; the others are arguments as they are.
    """

    folder: Path
    runs: Path
    variables: dict[str, str] = field(default_factory=dict)
    processes: list[Popen[str]] = field(default_factory=list)

    @property
    def testbeds(self) -> Path:
        """The folder of its testbeds."""
        return Path(self.variables["KVMARK_TESTBEDS"])

    def __call__(self, *words: object, exits: Exits = 0) -> Result:
        """Runs a command to its end."""
        arguments = split(words)
        ended = preloaded.run(arguments, self.folder, self.environment(), PATIENCE_S)
        return self.checked(arguments, ended, exits)

    def start(
        self, *words: object, out: Stream = PIPE, err: Stream = PIPE, program: object = PROGRAM
    ) -> Started:
        """Starts the program, or another one."""
        arguments, earlier = split(words), set(run_folders(self.runs))
        command, variables = [str(program), *arguments], self.environment()
        process = Popen(command, cwd=self.folder, env=variables, stdout=out, stderr=err, text=True)
        self.processes.append(process)
        return Started(self, process, arguments, earlier)

    def close(self) -> None:
        """Kills the commands that a failed test left."""
        for process in self.processes:
            process.kill()
            process.communicate()

    def refuses(self, *words: object, exits: int = 2) -> str:
        """Runs a command that must fail with one sentence and change no run."""
        before = fingerprint(self.runs)
        result = self(*words, exits=exits)
        assert result.out == "", result
        assert fingerprint(self.runs) == before, result
        return sentence_of(result.err)

    def manifest(self, run: str | None = None) -> dict[str, Any]:
        """The manifest of a run by its id, or of the newest one."""
        folder = self.runs / run if run else run_folders(self.runs)[-1]
        manifest: dict[str, Any] = json.loads((folder / files.MANIFEST).read_bytes())
        return manifest

    def manifests(self) -> list[dict[str, Any]]:
        """The manifests of all runs, oldest first."""
        return [self.manifest(folder.name) for folder in run_folders(self.runs)]

    def reasons(self) -> dict[str, str]:
        """The reasons of the newest run's verdict: level by code."""
        return levels(self("show last --json").json["verdict"])

    def sweep(self, words: str, exits: Exits = (0, 1)) -> dict[str, Any]:
        """The result of reading back the records of a run."""
        document = self(f"{words} --verify -q --json", exits=exits).json
        sweep: dict[str, Any] = document["summary"]["sweep"]
        return sweep

    def environment(self) -> dict[str, str]:
        """The variables of its commands."""
        inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        return {**inherited, "KVMARK_RUNS": str(self.runs), "NO_COLOR": "1", **self.variables}

    def checked(self, arguments: list[str], ended: Ended, exits: Exits) -> Result:
        """The result of a command; another exit code fails the test."""
        result = Result(ended.code, ended.out, ended.err, arguments, self)
        if result.code not in (exits if isinstance(exits, tuple) else (exits,)):
            pytest.fail(f"exits with {result.code} and not {exits}:\n{result}", pytrace=False)
        return result


@dataclass
class Started:
    """A command that the test observes, interrupts or kills."""

    kvmark: Kvmark
    process: Popen[str]
    arguments: list[str]
    earlier: set[Path]
    """The folders of runs before it."""

    @property
    def folder(self) -> Path:
        """The folder of its newest run."""
        return next(
            path for path in run_folders(self.kvmark.runs)[::-1] if path not in self.earlier
        )

    def wait_for(self, text: str = "\n", file: str = INTERVALS, count: int = 1) -> None:
        """Waits until a file of its runs contains a text, by default an interval."""

        def contains() -> bool:
            logs = [path for path in self.kvmark.runs.glob(file) if path.parent not in self.earlier]
            if any(log.read_text().count(text) >= count for log in logs):
                return True
            assert self.process.poll() is None, self.process.communicate()
            return False

        wait_until(contains, f"{file} contains {text!r}")

    def kill(self) -> None:
        """Sends SIGKILL and waits until the process that generates the load has ended, too."""
        self.process.kill()
        self.process.communicate()
        records = Records(self.kvmark.runs)
        wait_until(lambda: all(run.state != "going" for run in records.list()), "no run goes")

    def interrupt(self, exits: Exits = 130) -> Result:
        """Sends SIGINT, as Ctrl-C does, and waits for the end."""
        self.process.send_signal(signal.SIGINT)
        return self.finish(exits)

    def finish(self, exits: Exits) -> Result:
        """Waits for the end."""
        try:
            out, err = self.process.communicate(timeout=PATIENCE_S)
        except TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            err += "\n(killed because it did not end)"
        ended = Ended(self.process.returncode, out or "", err)
        return self.kvmark.checked(self.arguments, ended, exits)


def split(words: tuple[object, ...]) -> list[str]:
    """The arguments of a command."""
    first, *others = map(str, words) if words else ("",)
    return [*shlex.split(first), *others]


def sentence_of(err: str) -> str:
    """The one sentence of a command that failed; lines of progress may precede it."""
    lines = [line for line in err.splitlines() if not line.startswith("[")]
    assert len(lines) == 1, err
    assert lines[0].startswith("kvmark: "), err
    return lines[0].removeprefix("kvmark: ")


def fingerprint(folder: Path) -> dict[str, str]:
    """The hash of every file below a folder, by its path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def run_folders(runs: Path) -> list[Path]:
    """The folders of the runs, oldest first."""
    folders = [path for path in runs.glob("*") if path.is_dir() and path.name != "studies"]
    return sorted(folders, key=lambda path: path.stat().st_ctime_ns)


def levels(verdict: Mapping[str, Any]) -> dict[str, str]:
    """The reasons of a verdict: level by code."""
    return {reason["code"]: reason["level"] for reason in verdict["reasons"]}


def phase(manifest: Mapping[str, Any], name: str = "measure") -> dict[str, Any]:
    """A phase of a run by its name."""
    return next(one for one in manifest["engine"]["phases"] if one["name"] == name)


def totals(manifest: Mapping[str, Any], name: str = "measure") -> list[dict[str, Any]]:
    """The totals of a phase."""
    index = phase(manifest, name)["index"]
    return [total for total in manifest["engine"]["totals"] if total["phase"] == index]


def outcomes(manifest: Mapping[str, Any]) -> set[str]:
    """The outcomes of all operations of a run."""
    return {total["outcome"] for total in manifest["engine"]["totals"] if total["count"]}


def counts(manifest: Mapping[str, Any]) -> dict[str, int]:
    """The operations of a run by kind."""
    return {total["operation"]: total["count"] for total in manifest["engine"]["totals"]}


def trace_rows(trace: Path, *optional: str) -> pl.DataFrame:
    """The operations of a trace."""
    return pl.concat(Trace.open(trace).batches((*COLUMNS, *optional)))
