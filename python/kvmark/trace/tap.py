"""A tap between clients and a server, which records their traffic as a trace.

During the recording the trace's folder contains tapes (see `recording`); at its end they become the
trace.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from kvmark import _engine
from kvmark.errors import ImportFileError, KvmarkError, RunError
from kvmark.removal import discard_folder, remove_file
from kvmark.trace.folder import OWN_FILES, Keep, TraceInfo, TraceWriter
from kvmark.trace.recording import (
    ABOUT,
    about_tapes,
    is_log,
    write_about,
    write_logged_operations,
    write_operations,
)


@dataclass(frozen=True, slots=True)
class TapSettings:
    """The settings of a tap, in the engine's form."""

    host: str
    port: int
    protocol: str
    address: str
    default_port: int
    tls: bool
    ca_file: str | None
    cert_file: str | None
    key_file: str | None
    server_name: str | None
    threads: int
    keep_keys: bool
    keep_values: bool
    memory_bytes: int
    disk_bytes: int

    @property
    def keep(self) -> Keep:
        """The contents that are kept."""
        return Keep(keys=self.keep_keys, values=self.keep_values)


@dataclass(frozen=True, slots=True)
class TapProgress:
    """The progress of a tap."""

    listens: str
    elapsed_ns: int
    connections: int
    operations: int
    bytes: int
    recording: bool


def record(
    settings: TapSettings,
    path: Path,
    source: str,
    hash_key: bytes,
    goes_on: Callable[[TapProgress], bool],
) -> TraceInfo:
    """Forwards and records while `goes_on` returns true, and makes a trace of it.

    Raises:
        UsageError: the port or the folder can't be used.
        RunError: nothing was recorded, or the trace can't be written; the tapes are kept then.
    """
    writer = TraceWriter(path, source, settings.keep)
    try:
        write_about(path, source, settings.keep)
        counts = json.loads(
            _engine.tap(
                json.dumps(asdict(settings)),
                path,
                hash_key,
                lambda text: goes_on(TapProgress(**json.loads(text))),
            )
        )
    except KvmarkError:
        # The recording didn't begin.
        discard_folder(path, OWN_FILES)
        raise
    try:
        write_operations(path, writer, settings.keep)
    except KvmarkError as problem:
        raise RunError(f"{problem}; what was recorded is kept in {path}") from problem
    info = writer.close(_notes(counts))
    if not info.operations:
        discard_folder(path, OWN_FILES)
        why = "; ".join(info.told)
        raise RunError(f"nothing was recorded{': ' if why else ''}{why}")
    for tape in (path / ABOUT, *path.glob("tape-[0-9][0-9].*")):
        remove_file(tape)
    return info


def import_tapes(folder: Path, writer: TraceWriter) -> TraceInfo:
    """Makes a trace of an interrupted recording.

    Raises:
        ImportFileError: a tape is damaged, or all are empty.
    """
    if is_log(folder):
        write_logged_operations(folder, writer)
    else:
        write_operations(folder, writer, about_tapes(folder)[1])
    info = writer.close(("the recording was interrupted: pending operations are missing",))
    if not info.operations:
        raise ImportFileError(f"{folder} has no operations")
    return info


_COUNTED: Final = (
    ("lost", "rows that the disk was too slow for are missing: {:,}"),
    ("unanswered", "operations without a reply in time: {:,}"),
    ("not_carried_out", "commands of transactions that weren't carried out are left out: {:,}"),
    ("unknown_commands", "commands that the server doesn't know are left out: {:,}"),
    ("cut_keys", "keys beyond the first 512 of an operation are left out: {:,}"),
    (
        "cut_contents",
        "keys and values that aren't kept, for they were too long or memory was full: {:,}",
    ),
    ("moved", "replies that sent clients past the tap (MOVED): {:,}; put one before each node"),
    ("asked", "replies that sent clients past the tap for once (ASK): {:,}"),
)


def _notes(counts: Mapping[str, Any]) -> Sequence[str]:
    """Notes for readers of the trace."""
    notes = [text.format(counts[name]) for name, text in _COUNTED if counts[name]]
    notes += [
        f"connections that weren't recorded any more, because of {reason}: {count:,}"
        for reason, count in counts["not_recorded"].items()
    ]
    if counts["garbage"]:
        notes.append(
            "connections whose bytes weren't the protocol, and weren't recorded any more:"
            f" {counts['garbage']:,} ({counts['first_garbage']})"
        )
    if counts["unreachable"]:
        notes.append(
            f"connections for which the server couldn't be reached: {counts['unreachable']:,}"
            f" ({counts['first_unreachable']})"
        )
    if counts["ended"]:
        notes.append(f"recording ended before forwarding did: {counts['ended']}")
    return notes
