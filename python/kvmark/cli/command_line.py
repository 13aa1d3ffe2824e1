"""A command without its secrets, for manifests and for lists of processes.

A URL has user and password before its @; front ends find the secrets in their own arguments.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kvmark.frontends import front_ends
from kvmark.spec.other_commands import redacted_command
from kvmark.spec.suggest import without_credentials

# Fields of /proc/self/stat after the name in parentheses: the addresses of the arguments.
_WORDS_BEGIN: Final = 45
_WORDS_END: Final = 46
_AUDIT: Final = "audit"


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
