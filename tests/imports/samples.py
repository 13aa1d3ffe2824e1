"""Other tools' files: those that were published, one sample of each tool, and their variants."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kvmark.imports.reading import Collector
from kvmark.imports.recognition import read_file
from kvmark.records import FigureRecord, Run

HERE = Path(__file__).parent
DATA = HERE / "data"

Read = Callable[[str | bytes], Collector]
Keep = Callable[[Collector], Run]


def path_of(name: str) -> Path:
    """A file by its name."""
    return next(HERE.glob(f"**/{name}"))


def sample(name: str) -> Collector:
    """A file, read."""
    return read_file(path_of(name))


def figures(reading: Collector, case: int = 0) -> dict[tuple[str | None, str, str], FigureRecord]:
    """The figures of one case by operation, quantity and statistic."""
    own = (figure for figure in reading.figures if figure.case == case)
    return {(figure.operation, figure.quantity, figure.statistic): figure for figure in own}
