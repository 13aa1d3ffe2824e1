"""Secrets in commands of other programs."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from typing import Final

from kvmark.secret import Secret
from kvmark.spec.suggest import without_credentials

# Names of options and variables of any tool that have a secret.
_SECRET: Final = re.compile(
    r"-{0,2}[\w.-]*(pass|pwd|secret|token|auth|credential|api[_-]?key)[\w.-]*", re.IGNORECASE
)
_OF_ANY: Final = "-a"
# The short option with a password of each program, which is empty if there is none. Programs that
# run others aren't here.
_SHORT: Final = {
    "cp": "", "curl": "-u", "ls": "", "mariadb": "-p", "mongosh": "-p", "mysql": "-p",
    "mysqladmin": "-p", "ps": "", "rsync": "", "ssh": _OF_ANY, "sshpass": "-p", "uname": "",
}  # fmt: skip
_NEXT_COMMAND: Final = frozenset("&;|")
# Words of Redis's commands and configuration that a password follows.
_BEFORE_SECRET: Final = {"auth", "requirepass", "masterauth"}
_LEAST_SECRET: Final = 3
"""The shortest secret that is looked for in other texts."""


def redacted_command(words: Sequence[str]) -> tuple[str, ...]:
    """The command of any tool without its secrets.

    These are the values of options, variables and headers with such names, passwords that Redis's
    `AUTH` and settings and known short options are given, and those of URLs, also in a command
    inside a word.
    """
    return tuple(without_credentials(word) for word in _masked(words)[0])


def without_secrets(text: str, words: Sequence[str]) -> str:
    """A text without the secrets that a command, or this process's environment, has."""
    variables = (f"{name}={value}" for name, value in os.environ.items())
    for secret in sorted(_masked([*words, *variables])[1], key=len, reverse=True):
        if len(secret) >= _LEAST_SECRET:
            text = text.replace(secret, str(Secret("")))
    return text


def _masked(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words with stars for secrets, and the secrets."""
    masked: list[str] = []
    secrets: list[str] = []
    stars, is_value, options = str(Secret("")), False, {_OF_ANY}
    for word in words:
        if (short := _SHORT.get(word.rpartition("/")[2])) is not None:
            options = {short} - {""}
        if _NEXT_COMMAND & set(word):
            options |= {_OF_ANY}
        name, equals, value = word.partition("=")
        header, colon, content = word.partition(": ")
        inner = _inner_words(word)
        if is_value:
            secrets.append(word)
            masked.append(stars)
        elif equals and _SECRET.fullmatch(name):
            # The value may have blanks, or a command may follow it.
            secrets += [value, *_masked(inner)[1]]
            masked.append(f"{name}={stars}")
        elif colon and _SECRET.fullmatch(header):
            secrets += [content, *content.split()[-1:]]
            masked.append(f"{header}: {stars}")
        elif word[:2] in options and len(word) > 2:
            secrets.append(word[2:])
            masked.append(f"{word[:2]}{stars}")
        elif inner and (found := _masked(inner))[1]:
            secrets += found[1]
            masked.append(" ".join(found[0]))
        else:
            masked.append(word)
        names_secret = word.startswith("-") and _SECRET.fullmatch(word)
        comes = names_secret or word in options or word.lower() in _BEFORE_SECRET
        is_value = not is_value and bool(comes)
        user, _, password = word.partition("://")[2].rpartition("@")[0].partition(":")
        secrets += [password] if user or password else []
    return masked, [one for one in secrets if one]


def _inner_words(word: str) -> list[str]:
    """The words of a command inside a word; none without blanks, or if it can't be split."""
    try:
        return shlex.split(word) if any(map(str.isspace, word)) else []
    except ValueError:
        return []
