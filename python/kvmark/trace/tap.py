"""A tap between clients and a server: what goes by becomes a trace.

While it records, the trace's folder holds tapes (see `recording`); at its end they become the
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
from kvmark.trace.recording import ABOUT, about_tapes, seal, write_about
from kvmark.trace.run_log import is_log, seal_log


@dataclass(frozen=True, slots=True)
class TapSettings:
    """What a tap is to do, as the engine takes it."""

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
        """What of contents is kept."""
        return Keep(keys=self.keep_keys, values=self.keep_values)


@dataclass(frozen=True, slots=True)
class TapProgress:
    """How far a tap is."""

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
    """Forwards and records for as long as `goes_on` says so, and makes a trace of it.

    Raises:
        UsageError: the port or the folder can't be used.
        RunError: nothing was recorded, or the trace can't be written; then the tapes stay.
    """
    writer = TraceWriter(path, source, settings.keep)
    try:
        write_about(path, source, settings.keep)
        told = json.loads(
            _engine.tap(
                json.dumps(asdict(settings)),
                path,
                hash_key,
                lambda text: goes_on(TapProgress(**json.loads(text))),
            )
        )
    except KvmarkError:
        # Nothing was begun.
        discard_folder(path, OWN_FILES)
        raise
    try:
        seal(path, writer, settings.keep)
    except KvmarkError as problem:
        raise RunError(f"{problem}; what was recorded is kept in {path}") from problem
    info = writer.close(_sentences(told))
    if not info.operations:
        discard_folder(path, OWN_FILES)
        why = "; ".join(info.told)
        raise RunError(f"nothing was recorded{': ' if why else ''}{why}")
    for tape in (path / ABOUT, *path.glob("tape-[0-9][0-9].*")):
        remove_file(tape)
    return info


def import_tapes(folder: Path, writer: TraceWriter) -> TraceInfo:
    """Makes a trace of what a recording left that didn't come to its end.

    Raises:
        ImportFileError: a tape is damaged, or nothing is on any.
    """
    if is_log(folder):
        seal_log(folder, writer)
    else:
        seal(folder, writer, about_tapes(folder)[1])
    info = writer.close(("the recording didn't come to its end: what was on the way is missing",))
    if not info.operations:
        raise ImportFileError(f"{folder} has no operations")
    return info


_COUNTED: Final = (
    ("lost", "rows that the disk was too slow for are missing: {:,}"),
    ("unanswered", "operations that nobody answered in time: {:,}"),
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


def _sentences(told: Mapping[str, Any]) -> Sequence[str]:
    """What should be known of the trace."""
    found = [text.format(told[name]) for name, text in _COUNTED if told[name]]
    found += [
        f"connections that weren't recorded any more, because of {what}: {count:,}"
        for what, count in told["not_recorded"].items()
    ]
    if told["garbage"]:
        found.append(
            "connections whose bytes weren't the protocol, and weren't recorded any more:"
            f" {told['garbage']:,} ({told['first_garbage']})"
        )
    if told["unreachable"]:
        found.append(
            f"connections for which the server couldn't be reached: {told['unreachable']:,}"
            f" ({told['first_unreachable']})"
        )
    if told["ended"]:
        found.append(f"recording ended before forwarding did: {told['ended']}")
    return found
