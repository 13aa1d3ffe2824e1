"""How tests wait: for a condition, never for a time."""

import time
from collections.abc import Callable
from typing import Final

import pytest

PATIENCE_S: Final = 1200.0


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Waits for a condition; a deadline only ends a wait that is in vain."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"waited in vain until {what}", pytrace=False)
        time.sleep(0.01)
