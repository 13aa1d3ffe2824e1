"""Tools that kvmark imitates, each in one folder. The core imports none of them.

A front end is one folder and its name in `FRONT_ENDS`: without both, everything else works.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from kvmark.analysis.study import StudyResults
    from kvmark.cli.commands.study import StudyOptions
    from kvmark.cli.documents import Answers
    from kvmark.experiment.study.definition import Study
    from kvmark.imports.reading import Format
    from kvmark.records import Run
    from kvmark.report.model.page import Section

_T = TypeVar("_T")
FRONT_ENDS: Final = ("ycsb", "cassandra_stress", "yugabyte_apps")
"""The folders, in the order of their commands in the help."""


@dataclass(frozen=True)
class FrontEnd:
    """A front end's command and its additions to other commands. Modules are imported late."""

    folder: str
    #: The command's name, which its function in the module `command` has too.
    command: str
    #: The first line of the function's docstring.
    purpose: str
    #: The modules of its additions, which are functions with the names of the methods below.
    additions: Mapping[str, str]
    #: The names and questions of studies that only this tool's command can carry out.
    studies: Mapping[str, str] = field(default_factory=dict)

    @property
    def module(self) -> str:
        """The module of the command's function."""
        return f"kvmark.frontends.{self.folder}.command"

    def _call(self, addition: str, default: _T, *arguments: object) -> _T:
        if addition not in self.additions:
            return default
        result: _T = getattr(self._import(self.additions[addition]), addition)(*arguments)
        return result

    def _import(self, module: str) -> ModuleType:
        return import_module(f"kvmark.frontends.{self.folder}.{module}")

    def formats(self) -> Sequence[Format]:
        """The formats of the tool's results."""
        formats: Sequence[Format] = self._import("importer").FORMATS
        return formats

    def documents(self) -> Mapping[str, Answers]:
        """The JSON documents of the command, by their kinds."""
        return self._call("documents", {})

    def without_secrets(self, words: Sequence[str]) -> tuple[str, ...] | None:
        """The command's arguments without secrets; None if these are only in URLs."""
        return self._call("without_secrets", None, words)

    def printed_by_tool(self, run: Run) -> str | None:
        """The text that the tool would have printed for a run; None if it isn't one of its runs."""
        return self._call("printed_by_tool", None, run)

    def commands_per_operation(self, plan: Mapping[str, Any]) -> Mapping[str, int]:
        """The operations that the tool counts for one operation of each group, if not one."""
        return self._call("commands_per_operation", {}, plan)

    def run_study(self, name: str, options: StudyOptions) -> None:
        """Carries out one of its studies."""
        self._call("run_study", None, name, options)

    def study_sections(self, study: Study, found: StudyResults) -> Sequence[Section]:
        """The tool's own tables of a study's cases, for its report."""
        return self._call("study_sections", (), study, found)


@cache
def front_ends() -> tuple[FrontEnd, ...]:
    """All front ends; their folders are loaded when one is used."""
    modules = (import_module(f"kvmark.frontends.{name}") for name in FRONT_ENDS)
    return tuple(module.FRONT_END for module in modules)


def commands_per_operation(run: Run) -> Mapping[str, int]:
    """The operations that a tool counts for one operation of each group, if not one."""
    counts = (one.commands_per_operation(run.manifest.plan) for one in front_ends())
    return next(filter(None, counts), {})
