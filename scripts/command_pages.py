"""Prints the pages of docs/reference/commands/ as a JSON object: their texts by file name."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer

from kvmark.cli.registry import COMMANDS, GROUPS, CompleteGroup, options_by_heading

FOLDER: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "commands"
INDEX: Final = """\
# Commands

In a usage line, `{X}` is required and `[X]` optional. [Shared options](shared.md) are those of
several commands. `kvmark COMMAND --help` prints what these pages contain."""
SHARED: Final = """\
# Shared options

Each command's page lists which of these options the command accepts.
"""
SHARED_FROM: Final = 6
"""An option of as many commands is described on the page of shared options."""
EVERYTHING: Final = CompleteGroup()
GUIDES: Final = {
    "run": "method/how-it-measures.md",
    "replay": "guide/traces.md",
    "ycsb": "guide/from-ycsb.md",
    "stress": "guide/from-cassandra-stress.md",
    "app": "guide/from-yb-sample-apps.md",
    "ab": "method/comparing.md",
    "capacity": "method/capacity.md",
    "study": "guide/studies.md",
    "runs": "guide/runs.md",
    "show": "guide/terminal.md",
    "compare": "method/comparing.md",
    "serve": "guide/serve.md",
    "import": "guide/importing.md",
    "trace": "guide/traces.md",
    "up": "method/servers.md",
    "down": "method/servers.md",
    "workloads": "guide/own-commands.md",
}


@dataclass(frozen=True)
class Described:
    """An option or argument as the help describes it."""

    names: str
    text: str

    def line(self) -> str:
        """Its line in a list."""
        return f"- `{self.names}`: {self.text}"

    def name(self) -> str:
        """Its long name."""
        return next(word for word in self.names.split() if word.startswith("--"))


@dataclass(frozen=True)
class Command:
    """A command's words, purpose, usage and parameters; its options are below headings."""

    words: str
    text: str
    usage: str
    arguments: tuple[Described, ...]
    options: Mapping[str, tuple[Described, ...]]

    def all_options(self) -> Iterator[Described]:
        """Its options in the order of the help."""
        for found in self.options.values():
            yield from found


def read(words: str) -> Command:
    """A command as the program defines it."""
    command: Any = EVERYTHING
    for word in words.split():
        command = command.commands[word]
    context = typer.Context(command, info_name=f"kvmark {words}")
    records = {id(one): one.get_help_record(context) for one in command.get_params(context)}
    described = {
        key: Described(
            names.partition(" <")[0] if names[0].isupper() else names,
            text.removesuffix("[required]").rstrip().replace("  [", " ["),
        )
        for key, (names, text) in ((key, row) for key, row in records.items() if row)
    }
    params = [one for one in command.get_params(context) if id(one) in described]
    options = [one for one in params if one.param_type_name == "option" and one.name != "help"]
    return Command(
        words,
        inspect.cleandoc(command.help),
        command.get_usage(context).partition(": ")[2],
        tuple(described[id(one)] for one in params if one.param_type_name == "argument"),
        {
            heading: tuple(described[id(one)] for one in found)
            for heading, found in options_by_heading(options)
        },
    )


@dataclass(frozen=True)
class Pages:
    """Every command by its words, and the options that several commands share."""

    commands: Mapping[str, Command]
    shared: Sequence[Described]

    def section(self, words: str, title: str) -> Iterator[str]:
        """The lines on one command."""
        command = self.commands[words]
        run = set() if words == "run" else set(self.commands["run"].all_options())
        yield f"{title} kvmark {words}\n\n{command.text}\n\n    {command.usage}"
        if command.arguments:
            yield ""
            yield from (one.line() for one in command.arguments)
        elsewhere = run | set(self.shared)
        parts = {
            heading: own
            for heading, options in command.options.items()
            if (own := [one for one in options if one not in elsewhere])
        }
        for heading, own in parts.items():
            if len(parts) > 1:
                yield f"\n#{title} {heading}\n"
            elif not command.arguments:
                yield ""
            yield from (one.line() for one in own)
        for link, others in (
            ("Options of [kvmark run](run.md)", run - set(self.shared)),
            ("[Shared options](shared.md)", set(self.shared)),
        ):
            if found := [one for one in command.all_options() if one in others]:
                names = ", ".join(f"`{one.name()}`" for one in found)
                yield f"\n{link}: {'all' if len(found) == len(others) else names}."

    def group(self, name: str, purpose: str) -> Iterator[str]:
        """The lines on a group of commands."""
        yield f"# kvmark {name}\n\n{purpose}"
        for words in (words for words in COMMANDS if words.startswith(f"{name} ")):
            other = words.partition(" ")[2]
            if COMMANDS.get(other) == COMMANDS[words]:
                yield f"\n## kvmark {words}\n\nThe same as [kvmark {other}]({other}.md)."
            else:
                yield ""
                yield from self.section(words, "##")

    def page(self, name: str, purpose: str) -> str:
        """The page of a command or a group."""
        single = name in self.commands
        lines = self.section(name, "#") if single else self.group(name, purpose)
        return "\n".join([*lines, *guide(name)])


def read_all() -> Pages:
    """All commands. An option is shared if many have it with the same text."""
    commands = {words: read(words) for words in COMMANDS}
    uses = Counter(option for one in commands.values() for option in one.all_options())
    return Pages(commands, [one for one, count in uses.items() if count >= SHARED_FROM])


def guide(name: str) -> Iterator[str]:
    """The link to the guide of a command."""
    if name in GUIDES:
        path = FOLDER.parents[1] / GUIDES[name]
        title = path.read_text().partition("\n")[0].removeprefix("# ")
        yield f"\nGuide: [{title}](../../{GUIDES[name]})"


def index() -> Iterator[str]:
    """The lines of the index: one for each command."""
    yield INDEX
    for heading, group in GROUPS.items():
        yield f"\n## {heading}\n"
        for name, entry in group.items():
            yield f"- [kvmark {name}]({name}.md): {entry.purpose}"


def pages() -> dict[str, str]:
    """The texts of all pages by file name."""
    everything = read_all()
    return {
        "README.md": "\n".join(index()),
        "shared.md": "\n".join([SHARED, *(one.line() for one in everything.shared)]),
        **{
            f"{name}.md": everything.page(name, entry.purpose)
            for group in GROUPS.values()
            for name, entry in group.items()
        },
    }


if __name__ == "__main__":
    print(json.dumps(pages()))
