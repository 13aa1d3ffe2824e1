"""Programs and rights that tests need on their machine, and scripts in place of programs."""

import os
import shutil
import uuid
from pathlib import Path

import pytest

from kvmark.errors import UsageError
from kvmark.testbed.process import make_group, remove_group

POSTGRES = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")))


def needs(*programs: str) -> None:
    """Skips the test where a program isn't installed."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/usr/local/sbin", *POSTGRES])
    for program in programs:
        if shutil.which(program, path=path) is None:
            pytest.skip(f"{program} isn't installed")


def can_bound_memory() -> bool:
    """Whether this user and machine can bound a server's memory."""
    try:
        remove_group(make_group(f"kvmark-test-{uuid.uuid4().hex}", 2**30))
    except UsageError:
        return False
    return True


def script(path: Path, text: str) -> Path:
    """Makes a script of the shell that can be executed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
