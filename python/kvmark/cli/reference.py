"""The program with all its commands, from which docs/reference/commands.md is generated."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from kvmark.cli.options import ExperimentOptions
from kvmark.cli.program import program
from kvmark.cli.registry import CompleteGroup
from kvmark.cli.run_options import RunOptions

_SHARED: Final = {one.name for one in fields(ExperimentOptions)} - {"resume"}
_OF_RUN: Final = {one.name for one in fields(RunOptions)} - {"workload"}


class _Reference(CompleteGroup):
    """The commands with their options; those that many commands share are described once."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        if not self.prefix:
            heading = "**Options that several commands share**, where their usage names them:"
            params: list[Any] = self.commands["run"].params
            lines = [
                f"* `{', '.join(one.opts)}{f' {one.metavar}' if one.metavar else ''}`: {one.help}"
                for one in params
                if one.name in _SHARED
            ]
            self.epilog = "\n".join([heading, "", *lines])
        for name, command in self.commands.items():
            described = _SHARED | _OF_RUN if name == "replay" else _SHARED
            option: Any
            for option in command.params:
                option.hidden = option.hidden or option.name in described


app = program()
app.info.cls = _Reference
