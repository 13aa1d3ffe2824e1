"""A URL with a password, as the value of any option, appears in no output and no record."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import typer

from kvmark.cli import main
from kvmark.cli.program import program
from kvmark.cli.registry import COMMANDS, CompleteGroup
from kvmark.frontends.yugabyte_apps.flags import FLAGS

SECRET = "C4n4ryS1ngs"
URL = f"redis://ann:{SECRET}@127.0.0.1:1"
NAMED_FOLDERS = {"runs"}
"""Options whose value names a folder."""
SMALL = ("--system", "null:", "--records", "10", "--operations", "10")
ARGUMENTS = {
    "run": ("ycsb/c", *SMALL),
    "replay": ("a.trace", "--system", "null:"),
    "ycsb": (*SMALL, "--repetitions", "1", "--workloads", "load"),
    "stress": ("write", "n=10", "-rate", "threads=1", "-node", "sim:"),
    "app": ("RedisKeyValue", "--system", "null:", "--num_reads", "10", "--num_writes", "10"),
    "ab": ("ycsb/c --operations 10 --records 10", "--base", "--system null:", "--candidate",
           "--system null:", "--max-blocks", "4"),
    "capacity": ("ycsb/c", "--system", "null:", "--slo", "p99<1h", "--records", "10", "--from",
                 "100", "--duration", "50ms", "--warmup", "1ms"),
    "study": ("smoke", "--system", "null:", "--only", "clients=1", "--only", "value_size=10",
              "--repetitions", "1", "--report", "none"),
    "trace record": ("--to", "127.0.0.1:1", "-o", "recorded.trace", "--listen", "127.0.0.1:1"),
    "trace import": ("no.csv", "-o", "b.trace"), "trace show": ("a.trace",),
    "trace learn": ("a.trace",), "import": ("no.csv",),
    "up": ("redis",), "down": ("nothing",), "doc": ("no.md",), "serve": ("--runs", "nowhere"),
    "show": ("last",), "compare": ("last", "last"), "runs show": ("last",),
    "runs compare": ("last", "last"), "runs report": ("last",), "runs export": ("last",),
    "runs archive": ("last", "-o", "a.tar.xz"), "runs rm": ("nothing",),
}  # fmt: skip
"""Arguments with which a command gets as far as possible with one more option."""


def options(command: str) -> list[str]:
    """The options of a command that take a value."""
    if command == "app":
        flags = (one.name for one in FLAGS.values() if one.takes != "nothing")
        return [f"--{name}" for name in flags if name not in NAMED_FOLDERS]
    app = program()
    app.info.cls = CompleteGroup
    group: Any = typer.main.get_command(app)
    for word in command.split():
        group = group.commands[word]
    taking = (one for one in group.params if one.param_type_name == "option" and not one.is_flag)
    return [max(one.opts, key=len) for one in taking if one.name != "folder"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working directory of all commands, with two runs and a trace."""
    folder = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("KVMARK_RUNS", str(folder / "runs"))
        patch.setenv("KVMARK_TESTBEDS", str(folder / "testbeds"))
        for options in (("--record", "a.trace"), ()):
            output(["run", "ycsb/c", *SMALL, "--quiet", *options])
        yield folder


def output(words: list[str]) -> str:
    """The output of a command, whose exit code is a documented one."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        assert main(words) in (0, 1, 2, 3), words
    return out.getvalue()


def take_leaks(folder: Path) -> list[Path]:
    """Moves files with the secret in them, or in their names, away and returns their paths."""
    found = []
    for path in sorted(folder.rglob("*"), reverse=True):
        if SECRET in path.name or (path.is_file() and SECRET.encode() in path.read_bytes()):
            found.append(path.relative_to(folder))
            path.rename(folder.with_name(f"leak-{len(list(folder.parent.iterdir()))}"))
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_a_password_in_any_option_appears_nowhere(place: Path, command: str) -> None:
    leaks_by_option = {}
    for option in options(command):
        words = [*command.split(), *ARGUMENTS.get(command, ())]
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
        for command_line in ([*words, option, URL], [*words, f"{option}={URL}"]):
            printed = SECRET in output(command_line)
            if (files := take_leaks(place)) or printed:
                leaks_by_option[option] = ("its output", *files) if printed else tuple(files)
    assert leaks_by_option == {}
