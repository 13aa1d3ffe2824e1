"""A command without its secrets, for manifests and for lists of processes.

A URL has user and password before its @; front ends find the secrets in their own arguments.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kvmark.frontends import front_ends
from kvmark.secret import Secret
from kvmark.spec.suggest import without_credentials

# Fields of /proc/self/stat after the name in parentheses: the addresses of the arguments.
_WORDS_BEGIN: Final = 45
_WORDS_END: Final = 46
_AUDIT: Final = "audit"
# Names of options and variables of any tool that have a secret.
_SECRET: Final = re.compile(
    r"-a|-{0,2}[\w.-]*(pass|pwd|secret|token|auth|credential|api[_-]?key)[\w.-]*", re.IGNORECASE
)
_LEAST_SECRET: Final = 3
"""The shortest secret that is looked for in other texts."""


def command_line() -> tuple[str, ...]:
    """The command as typed, for the manifest, without its secrets."""
    return ("kvmark", *redacted_words(sys.argv[1:]))


def redacted_words(words: Sequence[str]) -> tuple[str, ...]:
    """The arguments of `kvmark` without their secrets."""
    for front_end in front_ends():
        if list(words[:1]) == [front_end.command]:
            arguments = front_end.without_secrets(words[1:])
            if arguments is not None:
                return (front_end.command, *arguments)
    if list(words[:1]) == [_AUDIT]:
        own = list(words).index("--") + 1 if "--" in words else 1
        return (*map(without_credentials, words[:own]), *redacted_command(words[own:]))
    return tuple(map(without_credentials, words))


def redacted_command(words: Sequence[str]) -> tuple[str, ...]:
    """The command of any tool without its secrets.

    These are the values of options and variables with such names, and passwords of URLs, also in a
    command inside a word.
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
    stars, is_value = str(Secret("")), False
    for word in words:
        name, equals, value = word.partition("=")
        inner = _inner_words(word)
        if is_value:
            secrets.append(word)
            masked.append(stars)
        elif equals and _SECRET.fullmatch(name):
            # The value may have blanks, or a command may follow it.
            secrets += [value, *_masked(inner)[1]]
            masked.append(f"{name}={stars}")
        elif word[:2] == "-a" and len(word) > 2:
            secrets.append(word[2:])
            masked.append(f"-a{stars}")
        elif inner and (found := _masked(inner))[1]:
            secrets += found[1]
            masked.append(" ".join(found[0]))
        else:
            masked.append(word)
        is_value = not is_value and word.startswith("-") and bool(_SECRET.fullmatch(word))
        user, _, password = word.partition("://")[2].rpartition("@")[0].partition(":")
        secrets += [password] if user or password else []
    return masked, [one for one in secrets if one]


def _inner_words(word: str) -> list[str]:
    """The words of a command inside a word; none without blanks, or if it can't be split."""
    try:
        return shlex.split(word) if any(map(str.isspace, word)) else []
    except ValueError:
        return []


def hide_secrets() -> None:
    """Overwrites secrets in the command line that `ps` prints for this process.

    Other users can read it while the command runs, and until this call; `password_env` and
    `password_file` avoid that. Where the kernel doesn't allow it, the command line is unchanged.
    """
    typed = sys.argv[1:]
    redacted = redacted_words(typed)
    if redacted == tuple(typed):
        return
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        begin, end = int(fields[_WORDS_BEGIN]), int(fields[_WORDS_END])
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            memory.seek(begin)
            before, own, _ = memory.read(end - begin).rpartition(_joined(typed))
            if own:
                memory.seek(begin + len(before))
                memory.write(_joined(redacted)[: len(own) - 1].ljust(len(own), b"\0"))
    except (OSError, IndexError, ValueError):
        return


def _joined(words: Sequence[str]) -> bytes:
    """Arguments as in a process's memory."""
    return b"".join(os.fsencode(word) + b"\0" for word in words)
