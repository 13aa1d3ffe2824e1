"""The process in which runs are closed, judged and decided about, beside the one that measures.

It doesn't hear the user's interrupt, which a terminal sends to every process: the one that measures
has to. And it ends with that one, however that one ends.
"""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process

__all__ = ["apart"]


def apart() -> ProcessPoolExecutor:
    """One such process, started when it is first asked something."""
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_begin)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        # Nobody is there to ask anything any more, and nothing here is worth finishing.
        os._exit(1)
