"""What a log of a run that goes gains, for who follows it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["Tail"]


class Tail:
    """The whole lines that a log gets, each read once; none when the log is gone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0

    @property
    def has_new(self) -> bool:
        """Whether there is more than was read."""
        try:
            return self._path.stat().st_size > self._read_bytes
        except FileNotFoundError:
            return False

    def whole(self, most_bytes: int | None = None) -> bytes:
        """The lines since the last call, as they were written.

        With a bound only the last so many bytes are read, and what lies before is passed over.
        """
        try:
            with self._path.open("rb") as log:
                unread = log.seek(0, os.SEEK_END) - self._read_bytes
                skipped = max(unread - most_bytes, 0) if most_bytes is not None else 0
                log.seek(self._read_bytes + skipped)
                text = log.read()
        except FileNotFoundError:
            return b""
        whole = text[: text.rfind(b"\n") + 1]
        self._read_bytes += skipped + len(whole)
        # Where something was passed over the first line may have lost its beginning.
        return whole[whole.find(b"\n") + 1 :] if skipped else whole

    def new(self, most_bytes: int | None = None) -> Iterator[dict[str, Any]]:
        """The objects of these lines."""
        for line in self.whole(most_bytes).splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value
