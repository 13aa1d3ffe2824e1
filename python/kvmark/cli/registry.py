"""The commands by name. The list is available at once; a command's module is loaded on use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from kvmark.cli.options import expand_options
from kvmark.errors import SpecError
from kvmark.frontends import front_ends
from kvmark.interrupts import at_once
from kvmark.spec.suggest import shown


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command in the list of commands."""

    #: The module of the command's function, in `cli.commands` if it begins with a dot.
    module: str
    #: The first paragraph of that function's docstring.
    purpose: str
    #: The function, where it hasn't the command's last word as its name.
    function: str = ""
    #: Whether the command only reads, so that Ctrl-C ends it at once.
    only_reads: bool = False


_GROUPS_OF_COMMANDS: Final = ("runs", "trace")
_ALIASES: Final = {"runs show": "show", "runs compare": "compare"}
"""Further names of commands."""
GROUPS: Final[Mapping[str, Mapping[str, CommandEntry]]] = {
    "Measure": {
        "run": CommandEntry(".run", "Measures one workload on one system, and prints a verdict."),
        "replay": CommandEntry(".run", "Replays a trace on any system."),
        **{one.command: CommandEntry(one.module, one.purpose) for one in front_ends()},
    },
    "Experiment": {
        "ab": CommandEntry(
            ".ab", "Compares baseline and candidate in interleaved blocks, to a given precision."
        ),
        "capacity": CommandEntry(
            ".capacity", "Finds the maximum throughput that meets an SLO without drops."
        ),
        "study": CommandEntry(
            ".study", "Measures all cases of a study. Without a name, lists the ready studies."
        ),
    },
    "Look": {
        "runs": CommandEntry("", "Lists, reports, exports, archives and removes runs."),
        "show": CommandEntry(".show", "Prints one run with its verdict.", only_reads=True),
        "compare": CommandEntry(
            ".compare",
            "Compares baseline and candidate runs: ratios with their significance.",
            only_reads=True,
        ),
        "serve": CommandEntry(".serve", "Serves the runs to a browser on this machine, read-only."),
        "import": CommandEntry(
            ".import_", "Imports results of other tools as runs.", function="import_"
        ),
    },
    "Traces": {
        "trace": CommandEntry("", "Records, imports, describes and models traces."),
    },
    "Systems": {
        "up": CommandEntry(
            ".up", "Starts a testbed, or restarts a stopped one. Without a name, lists them."
        ),
        "down": CommandEntry(".up", "Stops testbeds that kvmark up started."),
        "doctor": CommandEntry(".doctor", "Checks whether this machine is fit for measuring."),
        "workloads": CommandEntry(
            ".workloads", "Lists the ready workloads, or prints one.", only_reads=True
        ),
    },
    "Documents": {
        "doc": CommandEntry(".doc", "Fills the marked blocks of Markdown files from runs."),
    },
}
"""The commands and groups of commands by heading, in the order of the help."""
_FIRST: Final = {name: entry for group in GROUPS.values() for name, entry in group.items()}
_SUBCOMMANDS: Final = {
    "runs list": CommandEntry(
        ".runs", "Lists runs, newest first.", function="list_", only_reads=True
    ),
    "runs show": _FIRST[_ALIASES["runs show"]],
    "runs compare": _FIRST[_ALIASES["runs compare"]],
    "runs history": CommandEntry(
        ".show", "Prints a metric over time for each case, with change points.", only_reads=True
    ),
    "runs scaling": CommandEntry(
        ".show",
        "Fits the Universal Scalability Law to runs, and reports when they cannot support a fit.",
        only_reads=True,
    ),
    "runs report": CommandEntry(".show", "Writes a report on runs.", only_reads=True),
    "runs export": CommandEntry(".show", "Exports a run in another format."),
    "runs archive": CommandEntry(".runs", "Archives runs and their complete studies in one file."),
    "runs rm": CommandEntry(".runs", "Removes runs by name."),
    "runs prune": CommandEntry(".runs", "Removes runs by age, tag or number."),
    "trace record": CommandEntry(
        ".trace", "Records the traffic between clients and a server as a trace, until Ctrl-C."
    ),
    "trace import": CommandEntry(
        ".trace", "Makes a trace of a log of operations, with hashed keys.", function="import_"
    ),
    "trace show": CommandEntry(
        ".trace", "Prints a trace's rate, operations, keys, sizes and cache hit ratios.",
        only_reads=True,
    ),
    "trace learn": CommandEntry(
        ".trace", "Fits a workload to a trace, or checks a workload against one."
    ),
}  # fmt: skip
COMMANDS: Final = {
    **{name: entry for name, entry in _FIRST.items() if name not in _GROUPS_OF_COMMANDS},
    **_SUBCOMMANDS,
}
"""Every command by its words."""


class StrictCommand(TyperCommand):
    """Rejects extra arguments with a consistent message."""

    allow_extra_args = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments."""
        extra = super().parse_args(ctx, args)
        if extra and not ctx.resilient_parsing:
            raise SpecError(
                f"{shown(extra[0])} is one word too many; see {ctx.command_path} --help"
            )
        return extra


class LazyGroup(TyperGroup):
    """Commands of which a module is loaded when its command is used."""

    loads_all = False

    def __init__(self, *, prefix: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self.prefix = prefix
        self.headings = GROUPS
        if prefix:
            named = ((name.removeprefix(prefix), one) for name, one in _SUBCOMMANDS.items()
                     if name.startswith(prefix))  # fmt: skip
            self.headings = {"Commands": dict(named)}
        entries = {name: one for group in self.headings.values() for name, one in group.items()}
        self.commands = {
            name: self._load(name) if self.loads_all else TyperCommand(name, help=one.purpose)
            for name, one in entries.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Finds the command that arguments begin with, and loads its module."""
        name, command, others = super().resolve_command(ctx, args)
        if name is None or command is None:
            return name, command, others
        entry = COMMANDS.get(f"{self.prefix}{name}")
        if entry is not None and entry.only_reads and not ctx.resilient_parsing:
            ctx.with_resource(at_once())
        return name, self._load(name), others

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - Typer's
        """Writes the commands with their whole purposes, under headings."""
        for heading, group in self.headings.items():
            with formatter.section(heading):
                formatter.write_dl([(name, one.purpose) for name, one in group.items()])

    def _load(self, name: str) -> Any:
        """The command of a name, with its module."""
        words = f"{self.prefix}{name}"
        if words not in COMMANDS:
            kind = type(self) if self.loads_all or words != "runs" else _RunsGroup
            purpose = _FIRST[words].purpose
            return kind(prefix=f"{words} ", name=name, help=purpose, rich_markup_mode=None)
        module = import_module(COMMANDS[words].module, "kvmark.cli.commands")
        app = typer.Typer(
            rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False
        )
        settings = getattr(module, "CONTEXT_SETTINGS", None)
        app.command(name, cls=StrictCommand, context_settings=settings)(function_of(words))
        command = typer.main.get_command(app)
        command.name = name
        return command


class CompleteGroup(LazyGroup):
    """The commands with all their modules, for documents about all options."""

    loads_all = True


class _RunsGroup(LazyGroup):
    """The commands under `runs`. Without one, and before options, it lists."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments; those without a command are those of `list`."""
        listing = args[0].startswith("-") if args else not ctx.resilient_parsing
        if listing and args[:1] != ["--help"]:
            args = ["list", *args]
        return super().parse_args(ctx, args)


def function_of(name: str) -> Any:
    """The function of a command, with its options as parameters."""
    entry = COMMANDS[name]
    module = import_module(entry.module, "kvmark.cli.commands")
    function = getattr(module, entry.function or name.rpartition(" ")[2])
    return getattr(module, "WITH_OPTIONS", {}).get(name, expand_options)(function)
