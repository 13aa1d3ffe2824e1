"""Names that several models share."""

from __future__ import annotations

from typing import Final, Literal

TimeName = Literal["service", "response", "wait"]

GENERATOR: Final = "generator"
"""What the process that generates load is called in samples; a fleet's have numbers behind it."""
COORDINATOR: Final = "coordinator"
"""What the process of the command is called in samples."""

FIXED_WORK: Final = "fixed_work_ns"
"""The column of samples that says how fast the machine was: see `run.fixed_work`."""


def is_ours(node: str) -> bool:
    """Whether a sample is of kvmark itself and not of a server."""
    return node == COORDINATOR or node.partition("-")[0] == GENERATOR
