"""Programs of the machine that tests need, and scripts in their place."""

import os
import shutil
from pathlib import Path

import pytest


def needs(*programs: str) -> None:
    """Skips the test where a program isn't installed."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"])
    for program in programs:
        if shutil.which(program, path=path) is None:
            pytest.skip(f"{program} isn't installed")


def script(path: Path, text: str) -> Path:
    """Makes a script of the shell that can be executed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
