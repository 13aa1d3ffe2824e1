"""The commands by name: the list is there at once, a command is loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from keyword import iskeyword
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from kvmark.errors import SpecError
from kvmark.spec.suggest import shown

__all__ = [
    "COMMANDS",
    "GROUPS",
    "RENAMED",
    "LazyCommands",
    "OneCommand",
    "WholeCommands",
    "function_of",
    "loaded",
]


@dataclass(frozen=True, slots=True)
class Listed:
    """A command in the list of all."""

    #: The module of this package that has the function of the command's name. Where it has a
    #: mapping `UNDER` with that name, these functions are commands under it; where `WITH_OPTIONS`
    #: has that name, what stands there gives the function its options.
    module: str
    #: The first line of that function's docstring.
    purpose: str


GROUPS: Final[Mapping[str, Mapping[str, Listed]]] = {
    "Measure": {
        "run": Listed(
            "run", "Benchmarks one system under one workload, and says what can be believed."
        ),
        "ycsb": Listed("ycsb", "Runs YCSB's sequence of workloads and prints its table."),
        "stress": Listed(
            "stress", "Takes the command line of cassandra-stress, and prints what it would print."
        ),
        "app": Listed(
            "app",
            "Runs a YugabyteDB sample application and prints the table of its published report.",
        ),
    },
    "Experiment": {
        "ab": Listed(
            "ab",
            "Compares two sides A and B, measured in turn in blocks until the difference is known.",
        ),
        "capacity": Listed(
            "capacity", "Finds the maximum throughput within an SLO, at which nothing is dropped."
        ),
        "study": Listed(
            "study",
            "Runs every case of a study and answers its question; lists the ready ones without a"
            " name.",
        ),
    },
    "Look": {
        "runs": Listed("runs", "Lists runs, newest first."),
        "show": Listed("show", "Shows one run: its load, its verdict and each operation."),
        "compare": Listed(
            "compare",
            "Compares two sides of runs: each figure's ratio, and whether chance explains it.",
        ),
        "history": Listed(
            "history", "Shows a figure over the runs of each case, and where its level moved."
        ),
        "rank": Listed(
            "rank",
            "Ranks operations, workloads or stores by their cost, and says which pairs are"
            " ordered.",
        ),
        "scaling": Listed(
            "scaling",
            "Fits the Universal Scalability Law to runs, and says where they can't bear one.",
        ),
        "report": Listed("show", "Writes a report on one or several runs."),
        "export": Listed("show", "Writes a run as text that other programs read."),
        "import": Listed(
            "import_",
            "Makes runs of other tools' results, told from their content; all of the files or"
            " none.",
        ),
        "serve": Listed(
            "serve",
            "Shows the runs in a browser on this machine, until Ctrl-C; nothing is written.",
        ),
    },
    "Systems": {
        "up": Listed(
            "up",
            "Starts a system to measure, on this machine, or one again that is down; else lists"
            " all.",
        ),
        "down": Listed(
            "up",
            "Stops what `kvmark up` started, and nothing else; its data stays unless it is"
            " removed.",
        ),
        "doctor": Listed("doctor", "Says what this machine has and lacks for measuring."),
        "workloads": Listed(
            "workloads", "Lists the ready workloads, or prints one to copy and change."
        ),
    },
    "Documents": {
        "doc": Listed(
            "doc", "Makes the marked blocks of Markdown files anew, and leaves the rest as it is."
        ),
    },
}
"""Every command under its heading, in the order of the help."""
COMMANDS: Final = {name: one for group in GROUPS.values() for name, one in group.items()}
RENAMED: Final = {"order": "rank"}
"""What commands were called before; such a word works for one version more."""


class OneCommand(TyperCommand):
    """A command that tells of a word too many as others of its sentences tell of words."""

    allow_extra_args = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The words as values; those that belong to nothing are refused."""
        others = super().parse_args(ctx, args)
        if others and not ctx.resilient_parsing:
            raise SpecError(
                f"{shown(others[0])} is one word too many; see {ctx.command_path} --help"
            )
        return others


class LazyCommands(TyperGroup):
    """The list of commands without their modules: these bring libraries that take a while."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        listed = typer.Typer(rich_markup_mode=None, add_completion=False)
        for name, one in COMMANDS.items():
            listed.command(name, help=one.purpose)(_nothing)
        group = typer.main.get_command(listed)
        self.commands = dict(getattr(group, "commands", {}))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that words begin with, now with its module."""
        if args[0] in RENAMED:
            old, args = args[0], [RENAMED[args[0]], *args[1:]]
            typer.echo(f"kvmark: {old} is called {args[0]} now", err=True)
        name, found, others = super().resolve_command(ctx, args)
        return name, None if found is None or name is None else loaded(name), others

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - Typer's
        """The commands with their whole purposes, under headings."""
        for heading, group in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, one.purpose) for name, one in group.items()])


class WholeCommands(LazyCommands):
    """The commands with all their modules, for what is made of all their words."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: loaded(name) for name in COMMANDS}


def function_of(name: str) -> Any:
    """The function that a command calls; a word that Python keeps for itself can't be its name."""
    module = import_module(f"kvmark.cli.commands.{COMMANDS[name].module}")
    function = getattr(module, f"{name}_" if iskeyword(name) else name)
    with_options = getattr(module, "WITH_OPTIONS", {}).get(name)
    return function if with_options is None else with_options(function)


def _nothing() -> None:
    """What a command that is only listed would call."""


def loaded(name: str) -> Any:
    """A command with its module."""
    module = import_module(f"kvmark.cli.commands.{COMMANDS[name].module}")
    under = getattr(module, "UNDER", {}).get(name)
    app = typer.Typer(
        rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False,
        invoke_without_command=under is not None,
    )  # fmt: skip
    if under is None:
        settings = getattr(module, "CONTEXT_SETTINGS", None)
        app.command(name, cls=OneCommand, context_settings=settings)(function_of(name))
    else:
        app.callback()(function_of(name))
        for word, function in under.items():
            app.command(word, cls=OneCommand)(function)
    command = typer.main.get_command(app)
    command.name = name
    return command
