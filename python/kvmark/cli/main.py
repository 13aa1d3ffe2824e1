"""The program: its commands, and the one place where errors become sentences and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from kvmark import __version__
from kvmark.cli.command_line import hide_secrets
from kvmark.cli.commands import COMMANDS, LazyCommands
from kvmark.errors import Interrupted, KvmarkError, RunError, UsageError

__all__ = ["main", "program"]

_INVALID: Final = "Invalid value for "
_VERSION: Final = "--version"
_COMPLETES: Final = "_KVMARK_COMPLETE"
"""The variable by which a shell asks for completions."""


def program() -> typer.Typer:
    """The program. A command's own module is loaded when the command is named."""
    app = typer.Typer(
        name="kvmark", cls=LazyCommands, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    app.callback()(_kvmark)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code.

    0 done, 1 the answer is no, 2 usage error, 3 the system under test failed, 130 interrupted.
    """
    if arguments is None:
        hide_secrets()
    if os.environ.get(_COMPLETES) == "complete_bash":
        # The others take words with colons as they are.
        from kvmark.cli.bash import whole_words

        with whole_words():
            return _carry_out(["--help"])
    return _carry_out(list(sys.argv[1:] if arguments is None else arguments) or ["--help"])


def _carry_out(words: list[str]) -> int:
    try:
        code = program()(args=words, prog_name="kvmark", standalone_mode=False) or 0
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
