"""How many files a benchmark and what it starts may open."""

from __future__ import annotations

import resource

SPARE_FILES = 200
"""Files that a process needs beside its connections."""


def raise_file_limit(wanted: int) -> bool:
    """Lets this process and what it starts open so many files; False if that isn't allowed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most == resource.RLIM_INFINITY or most >= wanted
