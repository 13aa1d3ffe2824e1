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

import preloaded
import pytest
from preloaded import Ended

from kvmark.records import Records, files
from waiting import PATIENCE_S, wait_until

PROGRAM = Path(sys.executable).with_name("kvmark")
Exits = int | tuple[int, ...]
Stream = TextIO | int


@dataclass(frozen=True)
class Result(Ended):
    """A finished command."""

    command: tuple[str, ...]
    folder: Path

    def __str__(self) -> str:
        paths = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))
        listing = "\n".join(paths[:100])
        return (
            f"$ {' '.join(self.command)}\nexit code {self.code}\n--- standard output\n{self.out}"
            f"\n--- standard error\n{self.err}\n--- {self.folder}\n{listing}"
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
        """Runs a command to its end; another exit code fails the test."""
        arguments = split(words)
        ended = preloaded.run(arguments, self.folder, self.environment(), PATIENCE_S)
        return self._checked(arguments, ended, exits)

    def start(self, *words: object, out: Stream = PIPE, err: Stream = PIPE) -> Popen[str]:
        """Starts the program."""
        command = [str(PROGRAM), *split(words)]
        process = Popen(
            command, cwd=self.folder, env=self.environment(), stdout=out, stderr=err, text=True
        )
        self.processes.append(process)
        return process

    def start_run(self, *words: object) -> StartedRun:
        """Starts a run and waits for its folder."""
        before = set(run_folders(self.runs))
        process = self.start(*words)

        def new() -> set[Path]:
            assert process.poll() is None, process.communicate()
            return set(run_folders(self.runs)) - before

        wait_until(new, "a run has its folder")
        return StartedRun(self, process, new().pop())

    def kill(self, process: Popen[str]) -> None:
        """Sends SIGKILL and waits until the process that generates the load has ended, too."""
        process.kill()
        process.communicate()
        records = Records(self.runs)
        wait_until(lambda: all(run.state != "going" for run in records.list()), "no run goes")

    def finish(self, process: Popen[str], exits: Exits) -> Result:
        """Waits for a started command."""
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        except TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += "\n(killed because it did not end)"
        arguments = process.args[1:] if isinstance(process.args, list) else []
        return self._checked(arguments, Ended(process.returncode, out or "", err), exits)

    def close(self) -> None:
        """Kills the commands that a failed test left."""
        for process in self.processes:
            if process.poll() is None:
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

    def verdict(self) -> dict[str, Any]:
        """The verdict of the newest run."""
        verdict: dict[str, Any] = self("show last --json").json["verdict"]
        return verdict

    def reasons(self) -> dict[str, str]:
        """The reasons of the newest run's verdict: level by code."""
        return levels(self.verdict())

    def import_trace(self, source: str, trace: str, *options: str) -> Result:
        """Makes a trace of a file."""
        return self("trace import", source, "-o", trace, *options)

    def environment(self) -> dict[str, str]:
        """The variables of its commands."""
        inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        return {**inherited, "KVMARK_RUNS": str(self.runs), "NO_COLOR": "1", **self.variables}

    def _checked(self, arguments: list[str], ended: Ended, exits: Exits) -> Result:
        command = ("kvmark", *arguments)
        result = Result(ended.code, ended.out, ended.err, command, self.folder)
        if result.code not in (exits if isinstance(exits, tuple) else (exits,)):
            pytest.fail(f"exits with {result.code} and not {exits}:\n{result}", pytrace=False)
        return result


@dataclass
class StartedRun:
    """A run in a process that the test controls."""

    kvmark: Kvmark
    process: Popen[str]
    folder: Path

    def wait_for(self, text: str, file: str = files.EVENTS, count: int = 1) -> None:
        """Waits until a file of the run contains a text."""
        log = self.folder / file

        def contains() -> bool:
            assert self.process.poll() is None, self.process.communicate()
            return log.exists() and log.read_text().count(text) >= count

        wait_until(contains, f"{log} contains {text!r}")

    def wait_for_intervals(self, count: int) -> None:
        """Waits until the disk has this number of lines of intervals."""
        self.wait_for("\n", files.INTERVAL_LOG, count)

    def interrupt(self) -> None:
        """Sends SIGINT, as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Sends SIGKILL."""
        self.kvmark.kill(self.process)

    def finish(self, exits: Exits) -> Result:
        """Waits for the end of the command."""
        return self.kvmark.finish(self.process, exits)


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
