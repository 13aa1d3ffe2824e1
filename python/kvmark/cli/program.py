"""The program: its commands, and the conversion of errors to messages and exit codes."""

from __future__ import annotations

import io
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import typer

from kvmark import __version__
from kvmark.cli.command_line import hide_secrets
from kvmark.cli.registry import COMMANDS, FIRST_WORDS, LazyGroup
from kvmark.errors import Interrupted, KvmarkError, RunError, UsageError
from kvmark.foreign_text import printable, without_passwords

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_INVALID: Final = "Invalid value for "
_VERSION: Final = "--version"
_LEAST_ADDRESS_SPACE: Final = 1_500_000_000
"""Address space that the libraries reserve, mostly without use."""
_COMPLETES: Final = "_KVMARK_COMPLETE"
"""The variable by which a shell asks for completions."""


def program() -> typer.Typer:
    """The program. A command's own module is loaded when the command is named."""
    app = typer.Typer(
        name="kvmark", cls=LazyGroup, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    app.callback()(_kvmark)
    return app


def run_program(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code; see `kvmark.cli.main`."""
    if arguments is None:
        hide_secrets()
    # A shell closes standard output with >&-: no answer is wanted.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    if sys.stderr is not None and arguments is None:
        sys.stderr = _lenient(sys.stderr)
    if os.environ.get(_COMPLETES) == "complete_bash":
        # Other shells take words with colons as they are.
        from kvmark.cli.completion import whole_words

        with whole_words():
            return _execute(["--help"])
    return _execute(list(sys.argv[1:] if arguments is None else arguments) or ["--help"])


def _execute(words: list[str]) -> int:
    try:
        if not {"--help", _VERSION} & set(words):
            _check_address_space()
        code = program()(args=words, prog_name="kvmark", standalone_mode=False) or 0
        sys.stdout.flush()
    except KvmarkError as error:
        return _complain(str(error), error.exit_code)
    except typer.TyperException as error:
        return _complain(_sentence(error, words), UsageError.exit_code)
    except OSError as problem:
        return _cannot_write(problem)
    except SystemExit:
        # The reader of standard output has closed it.
        return 0
    return _complain("interrupted", code) if code == Interrupted.exit_code else code


def _check_address_space() -> None:
    """Rejects a limit at which libraries would end the process in an allocation.

    Raises:
        RunError: the shell allows too little.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _LEAST_ADDRESS_SPACE:
        raise RunError(
            f"this process may have {limit / 1e6:,.0f} MB of address space and needs"
            f" {_LEAST_ADDRESS_SPACE / 1e6:,.0f}: raise the limit (ulimit -v)"
        )


def _sentence(error: typer.TyperException, words: Sequence[str]) -> str:
    """Typer's message in our form, with a reference to help where it has no advice."""
    text = error.format_message().rstrip(".").replace(". Did you", " — did you")
    if text.startswith(_INVALID):
        text = text.removeprefix(_INVALID).replace("Value error, ", "")
        return text.replace(": Input should", " must").partition(", unable to parse")[0]
    commands = (" ".join(words[:2]), words[0])
    name = next((f" {one}" for one in commands if one in COMMANDS or one in FIRST_WORDS), "")
    advice = "" if text.endswith("?") else f"; see kvmark{name} --help"
    return f"{text[:1].lower()}{text[1:]}{advice}"


def _cannot_write(problem: OSError) -> int:
    """Reports a file without an earlier message, or an answer that couldn't be written.

    The answer is dropped, or Python would try to write it again.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(problem, BrokenPipeError):
        return 0
    if problem.filename is not None:
        sentence = f"{problem.filename} can't be used because {problem.strerror}"
        sentence += ": check it and its permissions"
    elif problem.strerror is None:
        sentence = str(problem)
    else:
        sentence = f"standard output can't be written because {problem.strerror}"
    return _complain(sentence, RunError.exit_code)


class _Dropping(io.FileIO):
    """A descriptor whose writes never fail."""

    def write(self, data: ReadableBuffer) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            return memoryview(data).nbytes


def _lenient(stream: TextIO) -> TextIO:
    """Standard error on which a full disk or a closed pipe can't end a measurement."""
    raw = _Dropping(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=True
    )


def _complain(sentence: str, code: int) -> int:
    print("kvmark:", printable(without_passwords(sentence), kept="\n"), file=sys.stderr)
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
    """Measures key-value stores, and judges the measurements."""
