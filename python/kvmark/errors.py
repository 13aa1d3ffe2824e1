"""Everything that can go wrong, as one tree, each with the exit code of the command.

    KvmarkError
    ├── AnswerIsNo                    1  a regression, an objective missed, an INVALID run
    ├── UsageError                    2  what was asked for cannot be done
    │   ├── SpecError                 2  a file, URL, property or quantity is wrong
    │   │   ├── UnsupportedProperty   2  a YCSB property that is not carried out
    │   │   └── ImportFileError       2  a file of another tool's results cannot be read
    │   ├── PlanError                 2  the values of a plan contradict each other
    │   ├── ForeignFile               2  a folder to be removed holds a file that isn't kvmark's
    │   └── RecordsError              2  a run is not there, or its folder cannot be read
    ├── SystemUnderTestError          3  the store could not be opened, or failed
    ├── RunError                      3  a run could not be carried out or written
    ├── GeneratorDied                 3  the process that generates load is not there any more
    ├── FleetError                    3  a machine of the fleet is not there any more
    └── Interrupted                 130  the user stopped it; what was measured is kept

The text of an error is one sentence: what is wrong, where, what to do.
"""

from __future__ import annotations

from typing import ClassVar, Self


class KvmarkError(Exception):
    """Base of all errors that a user sees as a sentence instead of a traceback."""

    exit_code: ClassVar[int] = 3


class AnswerIsNo(KvmarkError):
    """The command worked and the answer is no."""

    exit_code: ClassVar[int] = 1


class UsageError(KvmarkError):
    """What was asked for cannot be done: the user's to mend."""

    exit_code: ClassVar[int] = 2


class SpecError(UsageError):
    """Something the user wrote is wrong; says the file, line and column where they are known.

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
        # Where an option stands for a file, the user has written no lines.
        places = () if self.file.startswith("--") else (self.line, self.column)
        known = [str(part) for part in places if part is not None]
        return ":".join([self.file, *known]) + f": {self.message}"


class UnsupportedProperty(SpecError):
    """A YCSB property, or a value of one, that kvmark knows and does not carry out."""


class ImportFileError(SpecError):
    """A file of another tool's results is of no known kind, or not whole, or contradicts itself."""


class PlanError(UsageError):
    """The values of a plan contradict their meaning or each other."""


class ForeignFile(UsageError):
    """A folder to be removed holds a file that kvmark did not write; nothing is removed."""


class RecordsError(UsageError):
    """A run is not there, or its folder cannot be read."""


class SystemUnderTestError(KvmarkError):
    """The system under test could not be opened, or failed."""

    exit_code: ClassVar[int] = 3


class RunError(KvmarkError):
    """A run could not be carried out, or its records not written."""

    exit_code: ClassVar[int] = 3


class GeneratorDied(KvmarkError):
    """The process that generated the load crashed or was killed; its logs are there."""

    exit_code: ClassVar[int] = 3


class FleetError(KvmarkError):
    """A machine that was to generate load is not there any more. Others may go on without it."""

    exit_code: ClassVar[int] = 3


class Interrupted(KvmarkError):
    """The user stopped the command; what was measured until then is kept."""

    exit_code: ClassVar[int] = 130
