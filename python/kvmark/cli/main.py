"""The program: its commands, and the one place where errors become sentences and exit codes."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.resources import files
from keyword import iskeyword
from typing import Annotated, Final

import typer

from kvmark import __version__
from kvmark.errors import Interrupted, KvmarkError, RunError, UsageError

__all__ = ["main", "program"]

COMMANDS: Final = {
    "ycsb": "ycsb",
    "app": "app",
    "study": "study",
    "run": "single",
    "stress": "stress",
    "runs": "runs",
    "show": "runs",
    "export": "runs",
    "import": "import_",
    "report": "runs",
    "compare": "compare",
    "ab": "ab",
    "history": "history",
    "order": "order",
    "doc": "doc",
    "scaling": "scaling",
    "capacity": "capacity",
    "workloads": "workloads",
    "doctor": "doctor",
    "up": "up",
    "down": "up",
    "serve": "serve",
}
"""Each command and the module of this package that has the function of that name."""


_INVALID: Final = "Invalid value for "
_VERSION: Final = "--version"


def program(words: Sequence[str] = ()) -> typer.Typer:
    """The program with the command that `words` begin with, or else with all of them.

    A command brings libraries that take a while to load: the others stay unloaded, and for a list
    of them all their names and purposes are read from the source.
    """
    app = typer.Typer(
        name="kvmark", pretty_exceptions_enable=False, add_completion=False, rich_markup_mode=None
    )
    app.callback()(_kvmark)
    asked = words[0] if words else ""
    for name in (asked,) if asked in COMMANDS else COMMANDS:
        if words and name != asked:
            app.command(name, help=_purpose(name))(_kvmark)
            continue
        module = import_module(f"kvmark.cli.{COMMANDS[name]}")
        settings = getattr(module, "CONTEXT_SETTINGS", None)
        app.command(name, context_settings=settings)(getattr(module, _function(name)))
    return app


def _function(command: str) -> str:
    """The name of its function: a word that Python keeps for itself can't be one."""
    return f"{command}_" if iskeyword(command) else command


def _purpose(command: str) -> str | None:
    """The docstring of its function."""
    source = files("kvmark.cli").joinpath(f"{COMMANDS[command]}.py").read_text("utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == _function(command):
            return ast.get_docstring(node)
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code.

    0 done, 1 the answer is no, 2 wrong use, 3 the system under test failed, 130 interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        code = program(words)(args=words, prog_name="kvmark", standalone_mode=False) or 0
        sys.stdout.flush()
    except KvmarkError as error:
        return _complain(str(error), error.exit_code)
    except typer.TyperException as error:
        return _complain(_sentence(error, words), UsageError.exit_code)
    except OSError as problem:
        return _cannot_write(problem)
    except SystemExit as stop:
        # Whoever read standard output went away.
        return stop.code if isinstance(stop.code, int) else 0
    return _complain("interrupted", code) if code == Interrupted.exit_code else code


def _sentence(error: typer.TyperException, words: Sequence[str]) -> str:
    """What Typer says of wrong words, in our form; where it gives no advice, where help is."""
    said = error.format_message().rstrip(".").replace(". Did you", " — did you")
    if said.startswith(_INVALID):
        return said.removeprefix(_INVALID).replace("Value error, ", "")
    command = f"kvmark {words[0]}" if words[0] in COMMANDS else "kvmark"
    advice = "" if said.endswith("?") else f"; see {command} --help"
    return f"{said[:1].lower()}{said[1:]}{advice}"


def _cannot_write(problem: OSError) -> int:
    """Tells of an answer that couldn't be written, and drops it, or Python would try once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(problem, BrokenPipeError):
        return 0
    place = problem.filename or "standard output"
    return _complain(f"{place} can't be written because {problem.strerror}", RunError.exit_code)


def _complain(sentence: str, code: int) -> int:
    print(f"kvmark: {sentence}", file=sys.stderr)
    return code


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kvmark {__version__}")
        raise typer.Exit


def _kvmark(
    version: Annotated[
        bool, typer.Option(_VERSION, callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Measures key-value stores, and says what can be believed."""
