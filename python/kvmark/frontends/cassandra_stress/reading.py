"""A command line as words with values, before anything is made of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kvmark.errors import SpecError
from kvmark.frontends.cassandra_stress.words import ANYWHERE, COMMANDS, GROUPS, REFUSED_GROUPS, Word
from kvmark.secret import Secret
from kvmark.spec.suggest import did_you_mean, shown, without_credentials

_ALIASES: Final = {
    "insert": "write",
    "counterwrite": "counter_write",
    "counter_add": "counter_write",
    "counteradd": "counter_write",
    "counterread": "counter_read",
    "counter_get": "counter_read",
    "counterget": "counter_read",
}
_REFUSED_COMMANDS: Final = {
    "print": "kvmark doesn't draw a law's values on their own",
    "legacy": "write the words of today's cassandra-stress",
}


@dataclass(frozen=True, slots=True)
class CommandWords:
    """What was said: the command, its words, and those of each group of options."""

    command: str
    groups: Mapping[str, Mapping[str, str | Secret]]
    """By group, the command's own under its name: words and their values."""

    def text(self, group: str, name: str) -> str | None:
        """A word's value as it was given; empty for a word without one, None if it wasn't."""
        value = self.groups.get(group, {}).get(name)
        return value if isinstance(value, str) else None

    def secret(self, group: str, name: str) -> Secret | None:
        """The value of a word whose value is a secret; None if it wasn't given."""
        value = self.groups.get(group, {}).get(name)
        return value if isinstance(value, Secret) else None

    def said(self, group: str, name: str) -> bool:
        """Whether the word was given."""
        return name in self.groups.get(group, {})

    def own(self, name: str) -> str | None:
        """One of the command's own words."""
        return self.text(self.command, name)


_LONGEST: Final = 4_000
"""Characters of a word: Python reads no number of many more digits."""


def read_line(arguments: Sequence[str]) -> CommandWords:
    """Reads a command line.

    Raises:
        SpecError: a word isn't known, can't be honoured or has a value that can't be.
    """
    words = _joined(arguments)
    if not words:
        raise SpecError(f"stress needs a command; give one of {', '.join(COMMANDS)}, or help")
    for word in words:
        if len(word) > _LONGEST:
            raise SpecError(f"stress: {shown(word)} is longer than {_LONGEST:,} characters")
    command = _command(words[0])
    groups: dict[str, dict[str, str | Secret]] = {command: {}}
    group, table = command, COMMANDS[command]
    for word in words[1:]:
        if word.startswith("-"):
            group, table = _group(word, groups)
            continue
        found, value = _found(word, table, group)
        if found.name in groups[group]:
            raise SpecError(f"{group}: {found.name} is given twice; give it once")
        groups[group][found.name] = Secret(value) if found.secret else value
    return CommandWords(command, groups)


def without_secrets(arguments: Sequence[str]) -> tuple[str, ...]:
    """The arguments with stars for each secret, and without the credentials of systems."""
    table: Sequence[Word] = ()
    found = []
    for word in _joined(arguments):
        if word.startswith("-"):
            table = GROUPS.get(word.lower(), ())
        names = (one.name for one in table if one.secret)
        name = next((name for name in names if word.lower().startswith(name)), None)
        found.append(without_credentials(word) if name is None else f"{name}{Secret(word)}")
    return tuple(found)


def _joined(arguments: Sequence[str]) -> list[str]:
    """The words: spaces around commas, equals signs and parentheses separate nothing."""
    line = re.sub(r"\s+([,=()])", r"\1", " ".join(arguments))
    return re.sub(r"([,=(])\s+", r"\1", line).split()


def _command(word: str) -> str:
    name = _ALIASES.get(word.lower(), word.lower())
    if name in _REFUSED_COMMANDS:
        raise SpecError(f"stress: {name} is not carried out: {_REFUSED_COMMANDS[name]}")
    if name not in COMMANDS:
        hint = did_you_mean(word, COMMANDS)
        raise SpecError(f"stress: {shown(word)} is not a command{hint}")
    return name


def _group(word: str, groups: dict[str, dict[str, str | Secret]]) -> tuple[str, tuple[Word, ...]]:
    name = word.lower()
    if name in REFUSED_GROUPS:
        raise SpecError(f"{name} is not carried out: {REFUSED_GROUPS[name]}")
    if name not in GROUPS:
        raise SpecError(f"stress: {shown(word)} is not an option{did_you_mean(name, GROUPS)}")
    if name in groups:
        raise SpecError(f"{name} is given twice; put its words together")
    groups[name] = {}
    return name, GROUPS[name]


def _found(text: str, table: Sequence[Word], group: str) -> tuple[Word, str]:
    """The word of a table that a text is, and its value."""
    # The longer word first, and what is only a value when nothing else fits.
    for word in sorted(table, key=lambda one: (one.name == ANYWHERE, -len(one.name))):
        value = _value(text, word)
        if value is None:
            continue
        if word.refused:
            raise SpecError(f"{group}: {word.name} is not carried out: {word.refused}")
        if word.value and not re.fullmatch(word.value, value):
            raise SpecError(f"{group}: {word.name} can't be {shown(value)}; give {word.usage}")
        return word, value
    bare = re.split(r"[=(<>]", text)[0]
    # Without the characters that end them, so that the nearest is found by what people type.
    known = [word.name for word in table if word.name != ANYWHERE]
    hint = did_you_mean(bare + text[len(bare) : len(bare) + 1], known)
    # Its value isn't at fault, and may be a secret.
    raise SpecError(f"{group}: {shown(text[: len(bare) + 1])} is not one of its words{hint}")


def _value(text: str, word: Word) -> str | None:
    """The value if the text is that word; None if it isn't."""
    if word.name == ANYWHERE:
        # What has no equals sign and isn't a word of its own.
        return text if "=" not in text or text.startswith(("sim:", "null:", "cql:")) else None
    if not word.value:
        return "" if text.lower() == word.name.lower() else None
    if not text.lower().startswith(word.name.lower()):
        return None
    value = text[len(word.name) :]
    if word.name.endswith("("):
        return value.removesuffix(")") if value.endswith(")") else ""
    return value
