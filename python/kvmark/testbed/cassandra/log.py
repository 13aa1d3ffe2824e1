"""What the log of a node says about why the node isn't there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["ServerLogLine", "reason_in", "refused_setting"]

_STARTS: Final = re.compile(r"CassandraDaemon\.java:\d+ - Hostname: ")
_REFUSED: Final = re.compile(
    r"^Exception \(\S+\.ConfigurationException\) encountered during startup: (.+)", re.MULTILINE
)
# What is behind "Invalid yaml": the settings from the outermost to the innermost, and the cause.
_SETTING: Final = re.compile(r"Cannot create property=(\w+) for")
_CAUSE: Final = re.compile(r"^Caused by: [\w.$]+: (.+)", re.MULTILINE)
# Reasons why a node isn't there, the most telling first.
_REASONS: Final = (
    re.compile(r"^Exception \((?:\w+\.)*\w+\) encountered during startup: (.+)"),
    re.compile(r"^(?:[\w$]+\.)*ConfigurationException: (.+)"),
    re.compile(r"^(Terminating due to java\.lang\.OutOfMemoryError.*)"),
    re.compile(r"^Caused by: (java\.net\.BindException.*)"),
    re.compile(r"^(?:Error|Invalid): (.+)|^(Error occurred during initialization of VM.*)"),
    re.compile(r"^(?:ERROR|FATAL) \[.*?\] \S+ \S+ \S+ - (.+)"),
    re.compile(r"^\s*(\S.*)"),
)
_LONGEST: Final = 300
_READ_BYTES: Final = 4 * 2**20


@dataclass(frozen=True, slots=True)
class ServerLogLine:
    """A line of a log, counted from 1, and what it says."""

    number: int
    text: str


def reason_in(log: Path) -> ServerLogLine | None:
    """The line of a node's log that says why it isn't there, or the last one; None if it's empty.

    Lines from before its last start don't count.
    """
    lines = _lines(log)
    starts = (number for number, line in reversed(lines) if _STARTS.search(line))
    last_start = next(starts, 0)
    since = [(number, line) for number, line in reversed(lines) if number >= last_start]
    for reason in _REASONS:
        for number, line in since:
            if found := reason.search(line):
                return ServerLogLine(number, next(filter(None, found.groups()))[:_LONGEST])
    return None


def refused_setting(log: Path) -> str | None:
    """What a node that was started once says of a setting it doesn't take, or None."""
    text = "\n".join(line for _, line in _lines(log))
    refused = _REFUSED.search(text)
    if refused is None:
        return None
    names = ".".join(dict.fromkeys(_SETTING.findall(text)))
    causes = _CAUSE.findall(text)
    told = f"{names}: {causes[-1]}" if names and causes else refused[1]
    return told[:_LONGEST]


def _lines(log: Path) -> list[tuple[int, str]]:
    """The lines of a log with their numbers; of a very long one the last."""
    try:
        with log.open("rb") as file:
            skipped = max(0, log.stat().st_size - _READ_BYTES)
            before = file.read(skipped).count(b"\n")
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return list(enumerate(text.splitlines(), before + 1))
