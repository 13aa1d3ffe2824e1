"""The folder of cached downloads, builds and tapes."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/kvmark`, or `~/.cache/kvmark`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvmark"


def tapes_folder() -> Path:
    """The folder of cached tapes and lines, which a fleet's machines get from the coordinator."""
    return cache_folder() / "tapes"
