"""Tapes on the machines of a fleet: sent there once, by who made them, and kept in the cache.

A tape is named after what it was made of, so that one of the same name and size is the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kvmark.plan.model import OnTape, Plan
from kvmark.removal import remove_file
from kvmark.trace import tapes_folder

__all__ = ["Piece", "lacks", "pieces", "take", "tapes_of", "with_own_tapes"]

_PIECE_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a tape."""

    name: str
    """Of the tape's file."""
    offset: int
    data: bytes
    is_last: bool


def tapes_of(plan: Plan) -> tuple[Path, ...]:
    """The tapes that a plan needs."""
    arrivals = (group.arrival for group in plan.groups)
    return tuple(Path(one.path) for one in arrivals if isinstance(one, OnTape))


def pieces(tape: Path) -> Iterator[Piece]:
    """A tape in pieces, one at least."""
    with tape.open("rb") as file:
        size, offset = os.fstat(file.fileno()).st_size, 0
        while offset < size or not offset:
            data = file.read(_PIECE_BYTES)
            yield Piece(tape.name, offset, data, is_last=offset + len(data) >= size)
            offset += max(len(data), 1)


def lacks(name: str, size_bytes: int) -> bool:
    """Whether this machine has no such tape."""
    try:
        return _own(name).stat().st_size != size_bytes
    except OSError:
        return True


def take(piece: Piece) -> None:
    """Writes the next piece of a tape, which has its name once it is whole.

    Raises:
        OSError: it can't be written.
    """
    own = _own(piece.name)
    # Several agents of one machine may be sent the same.
    beside = own.with_suffix(f".{os.getpid()}")
    try:
        own.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("r+b" if piece.offset else "wb") as file:
            file.seek(piece.offset)
            file.write(piece.data)
        if piece.is_last:
            beside.rename(own)
    except OSError:
        with suppress(OSError):
            remove_file(beside)
        raise


def with_own_tapes(plan: Plan) -> Plan:
    """The plan with the tapes of this machine in the place of those of who made it."""
    groups = tuple(
        group.model_copy(update={"arrival": _with_own(group.arrival)})
        if isinstance(group.arrival, OnTape)
        else group
        for group in plan.groups
    )
    return plan.model_copy(update={"groups": groups})


def _with_own(arrival: OnTape) -> OnTape:
    own = _own(Path(arrival.path).name)
    return arrival.model_copy(update={"path": str(own)}) if own.exists() else arrival


def _own(name: str) -> Path:
    return tapes_folder() / Path(name).name
