"""The commands by name: the list is there at once, a command is loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from kvmark.errors import SpecError
from kvmark.frontends import front_ends
from kvmark.interrupts import at_once
from kvmark.spec.suggest import shown


@dataclass(frozen=True, slots=True)
class Listed:
    """A command in the list of all."""

    #: The module that has the function of the command's last word, in `cli.commands` if it begins
    #: with a dot. Where its
    #: `WITH_OPTIONS` has that word, what stands there gives the function its options.
    module: str
    #: The first line of that function's docstring.
    purpose: str


_SHOW: Final = Listed(".show", "Shows one run: its load, its verdict and each operation.")
_COMPARE: Final = Listed(
    ".compare",
    "Compares two sides of runs: each figure's ratio, and whether chance explains it.",
)
_OF_RUNS: Final[Mapping[str, Listed]] = {
    "list": Listed(".runs", "Lists runs, newest first."),
    "show": _SHOW,
    "compare": _COMPARE,
    "history": Listed(
        ".history", "Shows a figure over the runs of each case, and where its level moved."
    ),
    "scaling": Listed(
        ".scaling",
        "Fits the Universal Scalability Law to runs, and says where they can't bear one.",
    ),
    "report": Listed(".show", "Writes a report on one or several runs."),
    "export": Listed(".show", "Writes a run as text that other programs read."),
    "archive": Listed(
        ".archive", "Keeps whole runs in one file, with the studies that they are all of."
    ),
    "import": Listed(
        ".import_",
        "Makes runs of other tools' results, told from their content; all of the files or none.",
    ),
    "rm": Listed(".runs", "Removes runs by name."),
    "prune": Listed(".runs", "Removes runs by age, tag or number."),
}
GROUPS: Final[Mapping[str, Mapping[str, Listed]]] = {
    "Measure": {
        "run": Listed(
            ".run", "Benchmarks one system under one workload, and says what can be believed."
        ),
        "replay": Listed(".run", "Issues a trace's operations when they were due, on any system."),
        **{one.command: Listed(one.module, one.purpose) for one in front_ends()},
    },
    "Experiment": {
        "ab": Listed(
            ".ab",
            "Compares two sides A and B, measured in turn in blocks until the difference is known.",
        ),
        "capacity": Listed(
            ".capacity", "Finds the maximum throughput within an SLO, at which nothing is dropped."
        ),
        "study": Listed(
            ".study",
            "Runs every case of a study and answers its question; lists the ready ones without a"
            " name.",
        ),
    },
    "Look": {
        "runs": Listed(
            ".runs",
            "Lists runs, newest first; under it: history, scaling, report, export, archive, import,"
            " rm and prune.",
        ),
        "show": _SHOW,
        "compare": _COMPARE,
        "serve": Listed(
            ".serve",
            "Shows the runs in a browser on this machine, until Ctrl-C; nothing is written.",
        ),
    },
    "Traces": {
        "record": Listed(
            ".record",
            "Forwards what clients ask of a server, and records it as a trace, until Ctrl-C.",
        ),
        "import": Listed(".trace", "Makes a trace of a file of operations, whose keys are hashed."),
        "trace": Listed(
            ".trace",
            "Says what is in a trace: rate, kinds, keys, sizes, and what a cache would hit.",
        ),
        "learn": Listed(
            ".learn", "Makes a workload that is like a trace, and says how like it one is."
        ),
    },
    "Systems": {
        "up": Listed(
            ".up",
            "Starts a system to measure, on this machine, or one again that is down; else lists"
            " all.",
        ),
        "down": Listed(
            ".up",
            "Stops what `kvmark up` started, and nothing else; its data stays unless it is"
            " removed.",
        ),
        "doctor": Listed(".doctor", "Says what this machine has and lacks for measuring."),
        "workloads": Listed(
            ".workloads", "Lists the ready workloads, or prints one to copy and change."
        ),
    },
    "Documents": {
        "doc": Listed(
            ".doc", "Fills the marked blocks of Markdown files from runs; the rest stays as it is."
        ),
    },
}
"""The first words of all commands under their headings, in the order of the help."""
_ENDED_AT_ONCE: Final = frozenset(
    {"show", "compare", "trace", "workloads", "list", "history", "scaling", "report"}
)
"""What only reads: nothing has to be left in order when it is interrupted."""
_FIRST: Final = {name: one for group in GROUPS.values() for name, one in group.items()}
COMMANDS: Final = {
    **{name: one for name, one in _FIRST.items() if name != "runs"},
    **{f"runs {word}": one for word, one in _OF_RUNS.items()},
}
"""Every command by its words."""


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
        for name, one in _FIRST.items():
            listed.command(name, help=one.purpose)(_nothing)
        group = typer.main.get_command(listed)
        self.commands = dict(getattr(group, "commands", {}))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that words begin with, now with its module."""
        name, found, others = super().resolve_command(ctx, args)
        _hold_nothing(ctx, name)
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
        self.commands = {name: loaded(name) for name in _FIRST}


class _RunsWords(TyperGroup):
    """What stands under `runs`. Without a word of its own, before options too, it lists."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The words as values; a list is what is meant where none of them says what."""
        listing = args[0].startswith("-") if args else not ctx.resilient_parsing
        if listing and args[:1] != ["--help"]:
            args = ["list", *args]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that words begin with."""
        found = super().resolve_command(ctx, args)
        _hold_nothing(ctx, found[0])
        return found

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - Typer's
        """The words with their whole purposes."""
        with formatter.section("Commands"):
            formatter.write_dl([(word, one.purpose) for word, one in _OF_RUNS.items()])


def _hold_nothing(ctx: Any, name: str | None) -> None:
    """Lets Ctrl-C end a command at once that only reads."""
    if name in _ENDED_AT_ONCE and not ctx.resilient_parsing:
        ctx.with_resource(at_once())


def function_of(name: str) -> Any:
    """The function that a command calls; a word that means something in Python has a _ behind."""
    module = import_module(COMMANDS[name].module, "kvmark.cli.commands")
    word = name.rpartition(" ")[2]
    function = getattr(module, f"{word}_", None) or getattr(module, word)
    with_options = getattr(module, "WITH_OPTIONS", {}).get(name)
    return function if with_options is None else with_options(function)


def _nothing() -> None:
    """What a command that is only listed would call."""


def loaded(first: str) -> Any:
    """A command with its module."""
    if first == "runs":
        app = _empty(cls=_RunsWords, help=_FIRST[first].purpose)
        for word in _OF_RUNS:
            app.command(word, cls=OneCommand)(function_of(f"runs {word}"))
    else:
        module = import_module(COMMANDS[first].module, "kvmark.cli.commands")
        settings = getattr(module, "CONTEXT_SETTINGS", None)
        app = _empty()
        app.command(first, cls=OneCommand, context_settings=settings)(function_of(first))
    command = typer.main.get_command(app)
    command.name = first
    return command


def _empty(**settings: Any) -> typer.Typer:
    return typer.Typer(
        rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False, **settings
    )
