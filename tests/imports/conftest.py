"""Other tools' files: those that were published, one sample of each tool, and texts of tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kvmark.imports.reading import Reading
from kvmark.imports.recognition import ReadFile, read_file
from kvmark.imports.writing import keep
from kvmark.records import FigureRecord, Records, Run

DATA = Path(__file__).parent / "data"

Figures = Mapping[tuple[str | None, str, str], FigureRecord]


@pytest.fixture
def data() -> Path:
    return DATA


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "runs")


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str | bytes], ReadFile]:
    """Reads a text as the file of a name that says nothing."""

    def apply(content: str | bytes) -> ReadFile:
        path = tmp_path / "results"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_file(path)

    return apply


@pytest.fixture
def figures() -> Callable[..., Figures]:
    """The figures of one case by operation, quantity and statistic."""

    def apply(reading: Reading, case: int = 0) -> Figures:
        return {
            (figure.operation, figure.quantity, figure.statistic): figure
            for figure in reading.figures
            if figure.case == case
        }

    return apply


@pytest.fixture
def imported(records: Records) -> Callable[[ReadFile], Run]:
    """Keeps a file that was read."""

    def apply(file: ReadFile) -> Run:
        return keep(records, [file], name="theirs")[0]

    return apply
