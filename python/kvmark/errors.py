"""All errors, as one tree, each with the exit code of the command.

    KvmarkError
    ├── AnswerIsNo                    1  a regression, an objective missed, an INVALID run
    ├── UsageError                    2  an invalid request
    │   ├── SpecError                 2  a file, URL, property or quantity is wrong
    │   │   ├── UnsupportedProperty   2  an unsupported YCSB property
    │   │   └── ImportFileError       2  a file of another tool's results can't be read
    │   ├── PlanError                 2  the values of a plan contradict each other
    │   ├── ForeignFile               2  a folder to be removed contains a foreign file
    │   └── RecordsError              2  a run doesn't exist, or its folder can't be read
    ├── SystemUnderTestError          3  the store couldn't be opened, or failed
    ├── RunError                      3  a run couldn't be executed or written
    ├── GeneratorDied                 3  the process that generates load is gone
    ├── FleetError                    3  a machine of the fleet is gone
    └── Interrupted                 130  the user stopped it; the measured data is kept

The text of an error is one sentence: what is wrong, where, what to do.
"""

from __future__ import annotations

from typing import ClassVar, Self


class KvmarkError(Exception):
    """Base of all errors that are shown as a sentence instead of a traceback."""

    exit_code: ClassVar[int] = 3


class AnswerIsNo(KvmarkError):
    """The command worked and the answer is no."""

    exit_code: ClassVar[int] = 1


class UsageError(KvmarkError):
    """An invalid request, to be fixed by the user."""

    exit_code: ClassVar[int] = 2


class SpecError(UsageError):
    """An error in the user's input, with its file, line and column if known.

    Lines and columns count from 1.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line
        self.column = column

    def at(self, *, file: str | None, line: int | None = None, column: int | None = None) -> Self:
        """The same error, with its place in a file."""
        return type(self)(self.message, file=file, line=line, column=column)

    def __str__(self) -> str:
        if self.file is None:
            return self.message
        # An option instead of a file has no lines.
        places = () if self.file.startswith("--") else (self.line, self.column)
        known = [str(part) for part in places if part is not None]
        return ":".join([self.file, *known]) + f": {self.message}"


class UnsupportedProperty(SpecError):
    """A known but unsupported YCSB property, or value of one."""


class ImportFileError(SpecError):
    """A file of another tool's results is of an unknown format, incomplete, or contradictory."""


class PlanError(UsageError):
    """The values of a plan contradict their meaning or each other."""


class ForeignFile(UsageError):
    """A folder to be removed contains a file that kvmark didn't write; nothing is removed."""


class RecordsError(UsageError):
    """A run doesn't exist, or its folder can't be read."""


class SystemUnderTestError(KvmarkError):
    """The system under test couldn't be opened, or failed."""


class RunError(KvmarkError):
    """A run couldn't be executed, or its records couldn't be written."""


class GeneratorDied(KvmarkError):
    """The process that generated the load crashed or was killed; its logs are kept."""


class FleetError(KvmarkError):
    """A machine that was to generate load is gone. Others may continue without it."""


class Interrupted(KvmarkError):
    """The user stopped the command; the data measured until then is kept."""

    exit_code: ClassVar[int] = 130
