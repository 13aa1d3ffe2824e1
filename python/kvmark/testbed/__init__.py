"""Systems to measure and the measuring machine: one file or folder a system, one for the host.

Where testbeds lie, and their names, is told here without the models of what is in them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

DESCRIPTION: Final = "testbed.json"
OF_STUDIES: Final = "study-"
"""How the names of testbeds begin that studies make and remove; no user's does."""


def testbeds_root() -> Path:
    """The folder that `KVMARK_TESTBEDS` names, or else `testbeds` in the current folder."""
    return Path(os.environ.get("KVMARK_TESTBEDS") or "testbeds")


def names_of_testbeds(root: Path) -> list[str]:
    """The names of all testbeds below the root, up or down."""
    return [path.parent.name for path in sorted(root.glob(f"*/{DESCRIPTION}"))]
