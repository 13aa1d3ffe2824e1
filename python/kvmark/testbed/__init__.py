"""Systems to measure and the measuring machine: one file or folder for each.

This module has the folders and names of testbeds, without importing their models.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

DESCRIPTION: Final = "testbed.json"
SAVED: Final = "_saved"
"""The folder of saved datasets below that of the testbeds; no testbed can have this name."""
STUDY_PREFIX: Final = "study-"
"""The prefix of testbeds that studies start and remove; users can't use it."""


def testbeds_root() -> Path:
    """The folder that `KVMARK_TESTBEDS` names, or else `testbeds` in the current folder.

    Messages show the absolute path.
    """
    return Path(os.environ.get("KVMARK_TESTBEDS") or "testbeds").absolute()


def names_of_testbeds(root: Path) -> list[str]:
    """The names of all testbeds below the root, up or down."""
    return [path.parent.name for path in sorted(root.glob(f"*/{DESCRIPTION}"))]
