"""A URL with a password, given to any option there is, is found in no output and no record."""

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
OF_THE_USERS_NAMING = {"runs"}
"""Options whose value is a folder's name, which has to be what the user says."""
SMALL = ("--system", "null:", "--records", "10", "--operations", "10")
WORDS = {
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
"""What a command needs to come as far as it can with one option more."""


def options(command: str) -> list[str]:
    """The options of a command that take a value."""
    if command == "app":
        flags = (one.name for one in FLAGS.values() if one.takes != "nothing")
        return [f"--{name}" for name in flags if name not in OF_THE_USERS_NAMING]
    app = program()
    app.info.cls = CompleteGroup
    found: Any = typer.main.get_command(app)
    for word in command.split():
        found = found.commands[word]
    taking = (one for one in found.params if one.param_type_name == "option" and not one.is_flag)
    return [max(one.opts, key=len) for one in taking if one.name != "folder"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with two runs and a trace, where all commands are given."""
    folder = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("KVMARK_RUNS", str(folder / "runs"))
        patch.setenv("KVMARK_TESTBEDS", str(folder / "testbeds"))
        for more in (("--record", "a.trace"), ()):
            said(["run", "ycsb/c", *SMALL, "--quiet", *more])
        yield folder


def said(words: list[str]) -> str:
    """What a command prints; it ends as commands do."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        assert main(words) in (0, 1, 2, 3), words
    return out.getvalue()


def heard(folder: Path) -> list[Path]:
    """Files with the secret in them, or in their names, which are taken out of the way."""
    found = []
    for path in sorted(folder.rglob("*"), reverse=True):
        if SECRET in path.name or (path.is_file() and SECRET.encode() in path.read_bytes()):
            found.append(path.relative_to(folder))
            path.rename(folder.with_name(f"heard-{len(list(folder.parent.iterdir()))}"))
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_a_password_in_any_option_is_heard_nowhere(place: Path, command: str) -> None:
    heard_by = {}
    for option in options(command):
        given = [*command.split(), *WORDS.get(command, ())]
        if option in given:
            at = given.index(option)
            del given[at : at + 2]
        for words in ([*given, option, URL], [*given, f"{option}={URL}"]):
            printed = SECRET in said(words)
            if (files := heard(place)) or printed:
                heard_by[option] = ("its output", *files) if printed else tuple(files)
    assert heard_by == {}
