"""The user's interrupts while a run goes: counted, because what was measured is to be kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

__all__ = ["MOST_PATIENT", "Interrupts", "counted"]

MOST_PATIENT: Final = 2
"""The first interrupt lets operations end, the second drops them, another waits for nobody."""


@dataclass
class Interrupts:
    """How often the user has asked to stop."""

    count: int = 0


@contextmanager
def counted() -> Iterator[Interrupts]:
    """Counts interrupts while within; elsewhere than on the main thread none comes.

    Raises:
        KeyboardInterrupt: the user is out of patience.
    """
    asked = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def interrupted(*_: object) -> None:
        asked.count += 1
        if asked.count > MOST_PATIENT:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
