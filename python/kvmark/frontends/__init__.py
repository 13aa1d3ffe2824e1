"""Tools that kvmark imitates, each in one folder. The core imports none of them.

A front end is one folder and its name in `FRONT_ENDS`: without both, everything else works.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kvmark.cli.commands.study import StudyOptions
    from kvmark.cli.documents import Answers
    from kvmark.experiment.study.answer import StudyResults
    from kvmark.experiment.study.definition import Study
    from kvmark.imports.reading import Format
    from kvmark.records import Run
    from kvmark.report.model.page import Section

FRONT_ENDS: Final = ("ycsb", "cassandra_stress", "yugabyte_apps")
"""The folders, in the order of their commands in the help."""


class FrontEnd:
    """A front end's command and its additions to other commands. Methods import modules late."""

    #: The command's name, which its function has too.
    command: str
    #: The module of that function.
    module: str
    #: The first line of the function's docstring.
    purpose: str

    def formats(self) -> Sequence[Format]:
        """The formats of the tool's results."""
        package = self.module.rpartition(".")[0]
        formats: Sequence[Format] = import_module(f"{package}.importer").FORMATS
        return formats

    def documents(self) -> Mapping[str, Answers]:
        """The JSON documents of the command, by their kinds."""
        return {}

    def without_secrets(self, _words: Sequence[str], /) -> tuple[str, ...] | None:
        """The command's arguments without secrets; None if these are only in URLs."""
        return None

    def printed_by_tool(self, _run: Run, /) -> str | None:
        """The text that the tool would have printed for a run; None if it isn't one of its runs."""
        return None

    def commands_per_operation(self, _run: Run, /) -> Mapping[str, int]:
        """The operations that the tool counts for one operation of each group, if not one."""
        return {}

    def studies(self) -> Mapping[str, str]:
        """The names and questions of studies that only this tool's command can carry out."""
        return {}

    def run_study(self, _name: str, _options: StudyOptions, /) -> None:
        """Carries out one of its studies."""

    def study_sections(self, _study: Study, _found: StudyResults, /) -> Sequence[Section]:
        """The tool's own tables of a study's cases, for its report."""
        return ()


@cache
def front_ends() -> tuple[FrontEnd, ...]:
    """All front ends; their folders are loaded when one is used."""
    modules = (import_module(f"kvmark.frontends.{name}") for name in FRONT_ENDS)
    return tuple(module.FRONT_END for module in modules)


def commands_per_operation(run: Run) -> Mapping[str, int]:
    """The operations that a tool counts for one operation of each group, if not one."""
    return next(filter(None, (one.commands_per_operation(run) for one in front_ends())), {})
