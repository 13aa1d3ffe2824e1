"""The commands by name. The list is available at once; a command's module is loaded on use."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.resources import files
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from kvmark.cli.options import expand_options
from kvmark.errors import SpecError
from kvmark.frontends import front_ends
from kvmark.interrupts import at_once
from kvmark.spec.suggest import shown


class CommandEntry(NamedTuple):
    """A command in the list of commands."""

    function: str
    #: The function's module, in `cli.commands` if it begins with a dot.
    module: str
    #: The first paragraph of the function's docstring.
    purpose: str
    #: Whether it only reads, so that Ctrl-C ends it at once.
    reads: bool = False


_LIST: Final = tomllib.loads((files(__package__) / "command_list.toml").read_text("utf-8"))
OPTION_HEADINGS: Final[Mapping[str, Sequence[str]]] = _LIST["options"]
"""The headings below which `--help` lists options, and the options' long names."""
_MANY_OPTIONS: Final = 16
"""A command with fewer options has one heading."""
_OF_FRONT_ENDS: Final = {
    one.command: {"module": one.module, "purpose": one.purpose} for one in front_ends()
}


def _entries(commands: Mapping[str, Any]) -> dict[str, CommandEntry]:
    return {name.rstrip("_"): CommandEntry(name, **entry) for name, entry in commands.items()}


GROUPS: Final[Mapping[str, Mapping[str, CommandEntry]]] = {
    heading: _entries({**commands, **(_OF_FRONT_ENDS if heading == "Measure" else {})})
    for heading, commands in _LIST["first"].items()
}
"""The commands and groups of commands by heading, in the order of the help."""
_FIRST: Final = {name: entry for group in GROUPS.values() for name, entry in group.items()}
_UNDER: Final = {group: _entries(commands) for group, commands in _LIST["under"].items()}
"""The commands of the groups."""
COMMANDS: Final = {
    **{name: entry for name, entry in _FIRST.items() if name not in _UNDER},
    **{f"{group} {name}": one for group, under in _UNDER.items() for name, one in under.items()},
}
"""Every command by its words."""
FIRST_WORDS: Final = frozenset(_FIRST)
"""The names of commands and of groups of commands."""


class StrictCommand(TyperCommand):
    """Rejects extra arguments with a consistent message."""

    allow_extra_args = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments."""
        extra = super().parse_args(ctx, args)
        if extra and not ctx.resilient_parsing:
            is_url = ":" in extra[0] and any("--system" in one.opts for one in self.params)
            advice = "give it with --system" if is_url else f"see {ctx.command_path} --help"
            raise SpecError(f"{shown(extra[0])} is one word too many; {advice}")
        return extra

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the arguments, and the options below their headings."""
        described = [
            (one, row) for one in self.get_params(ctx) if (row := one.get_help_record(ctx))
        ]
        rows = {id(one): row for one, row in described}
        options = [one for one, _ in described if one.param_type_name == "option"]
        arguments = [row for one, row in described if one.param_type_name == "argument"]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        for heading, found in options_by_heading(options):
            with formatter.section(heading):
                formatter.write_dl([rows[id(one)] for one in found])


class LazyGroup(TyperGroup):
    """Commands of which a module is loaded when its command is used."""

    loads_all = False

    def __init__(self, *, prefix: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self.prefix = prefix
        self.headings = {"Commands": _UNDER[prefix.strip()]} if prefix else GROUPS
        entries = {name: one for group in self.headings.values() for name, one in group.items()}
        self.commands = {
            name: self._load(name) if self.loads_all else TyperCommand(name, help=one.purpose)
            for name, one in entries.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Finds the command that arguments begin with, and loads its module."""
        under = next((one for one in COMMANDS if one.endswith(f" {args[0]}")), None)
        if not (self.prefix or args[0] in self.commands or ctx.resilient_parsing) and under:
            raise SpecError(f"no such command {shown(args[0])}: write kvmark {under}")
        name, command, others = super().resolve_command(ctx, args)
        if name is None or command is None:
            return name, command, others
        entry = COMMANDS.get(f"{self.prefix}{name}")
        if entry is not None and entry.reads and not ctx.resilient_parsing:
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
    function = getattr(module, entry.function)
    return getattr(module, "WITH_OPTIONS", {}).get(name, expand_options)(function)


def options_by_heading(options: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Headings and their options, in the order of the help."""
    if len(options) < _MANY_OPTIONS:
        yield "Options", list(options)
        return
    named = {name.lstrip("-"): option for option in options for name in option.opts}
    placed = {id(named[one]) for names in OPTION_HEADINGS.values() for one in names if one in named}
    for heading, names in OPTION_HEADINGS.items():
        others = [option for option in options if id(option) not in placed]
        if heading == "Output" and others:
            yield "Options of this command", others
        if found := [named[name] for name in names if name in named]:
            yield heading, found
