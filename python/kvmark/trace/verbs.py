"""What a command of Redis says, as rows of a trace. What names mean is known to the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvmark import _engine

__all__ = ["CommandRow", "redis_command"]


class CommandRow(NamedTuple):
    """A row of an operation, as texts; none is what it doesn't say."""

    key: str
    kind: str
    key_size: str
    value_size: str | None
    ttl: str | None
    items: int
    key_content: bytes
    value_content: bytes | None


def redis_command(words: Sequence[bytes]) -> Sequence[CommandRow]:
    """The rows of a command of Redis: one for each of its keys, and at least one."""
    places, values, value, ttl_ms = _engine.redis_command(words)
    keys = [words[place] for place in places] or [b""]
    written = b"".join(words[place] for place in values) if values else None
    return [
        CommandRow(
            # Bytes that are no text are told apart by their code.
            key.decode(errors="backslashreplace"),
            words[0].decode(errors="replace").upper(),
            str(len(key)),
            None if value is None else str(value),
            None if ttl_ms is None else str(ttl_ms / 1000),
            len(keys) if place == 0 else 0,
            key,
            written if place == 0 else None,
        )
        for place, key in enumerate(keys)
    ]
