"""The words of a command without its secrets: for the manifest, and for whoever lists processes.

Where a secret can stand is said by the grammar that reads it: a URL has user and password before
its @, and `app` and `stress` have words of their own that hold one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kvmark.frontends import front_ends
from kvmark.spec.suggest import without_credentials

# Fields of /proc/self/stat after the name in parentheses: where the command's words lie.
_WORDS_BEGIN: Final = 45
_WORDS_END: Final = 46


def command_line() -> tuple[str, ...]:
    """The command as it was typed, for the manifest, without its secrets."""
    return ("kvmark", *redacted_words(sys.argv[1:]))


def redacted_words(words: Sequence[str]) -> tuple[str, ...]:
    """The words behind `kvmark` without their secrets."""
    for front_end in front_ends():
        if list(words[:1]) == [front_end.command]:
            arguments = front_end.without_secrets(words[1:])
            if arguments is not None:
                return (front_end.command, *arguments)
    return tuple(map(without_credentials, words))


def hide_secrets() -> None:
    """Overwrites what was typed, where it has secrets, in what `ps` shows of this process.

    Anybody on the machine can read a command's words while it runs; a variable or a file, which
    `password_env` and `password_file` name, shows the password not even until this is called. Where
    the kernel doesn't allow it, or isn't Linux, the words stay as they are.
    """
    typed = sys.argv[1:]
    kept = redacted_words(typed)
    if kept == tuple(typed):
        return
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        begin, end = int(fields[_WORDS_BEGIN]), int(fields[_WORDS_END])
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            memory.seek(begin)
            found = memory.read(end - begin)
            before, own, _ = found.rpartition(_joined(typed))
            if own:
                memory.seek(begin + len(before))
                memory.write(_joined(kept)[: len(own) - 1].ljust(len(own), b"\0"))
    except (OSError, IndexError, ValueError):
        return


def _joined(words: Sequence[str]) -> bytes:
    """Words as they lie in a process's memory."""
    return b"".join(os.fsencode(word) + b"\0" for word in words)
