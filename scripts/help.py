"""Prints the Makefile's targets and what each is for, from the text after `##`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

TARGET = re.compile(r"^([a-z][\w-]*):[^#\n]*## (.+)$", re.MULTILINE)


def listing(makefile: str) -> str:
    """One line for each target that says what it is for."""
    targets = TARGET.findall(makefile)
    width = max(len(name) for name, _ in targets)
    return "\n".join(f"make {name:<{width}}  {purpose}" for name, purpose in targets)


if __name__ == "__main__":
    print(listing(Path(sys.argv[1]).read_text()))
