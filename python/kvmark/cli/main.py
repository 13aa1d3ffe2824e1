"""The program: its commands, and the one place where errors become sentences and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import typer

from kvmark.errors import Interrupted, KvmarkError

__all__ = ["app", "main"]

COMMANDS: Final = {
    "ycsb": "ycsb",
    "run": "single",
    "runs": "runs",
    "show": "runs",
    "export": "runs",
    "report": "runs",
    "workloads": "runs",
    "doctor": "doctor",
}
"""Each command and the module of this package that has the function of that name."""

app = typer.Typer(
    name="kvmark",
    help="Measures key-value stores, and says what can be believed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def kvmark() -> None:
    """Measures key-value stores, and says what can be believed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code.

    0 done, 1 the answer is no, 2 wrong use, 3 the system under test failed, 130 interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    _register(words)
    try:
        # Typer itself answers --help and words it doesn't know, with exit code 2.
        app(args=words, prog_name="kvmark")
    except KvmarkError as error:
        return _complain(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _complain("interrupted", Interrupted.exit_code)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    return 0


def _complain(sentence: str, code: int) -> int:
    print(f"kvmark: {sentence}", file=sys.stderr)
    return code


def _register(words: Sequence[str]) -> None:
    """Adds the command that was asked for, or all of them for help; the others stay unloaded."""
    asked = words[0] if words else ""
    for name in [asked] if asked in COMMANDS else COMMANDS:
        if name not in {command.name for command in app.registered_commands}:
            module = import_module(f"kvmark.cli.{COMMANDS[name]}")
            app.command(name)(getattr(module, name))
