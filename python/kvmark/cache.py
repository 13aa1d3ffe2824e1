"""The folder in which what was fetched, built or made once is kept for all runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Where it lies: `$XDG_CACHE_HOME/kvmark`, or `~/.cache/kvmark`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvmark"
