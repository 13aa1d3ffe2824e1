"""Texts of tests are read like files, and files become runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from imports.samples import Keep, Read
from kvmark.imports.reading import Collector
from kvmark.imports.recognition import read_file
from kvmark.imports.writing import keep
from kvmark.records import Records


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a text as the file of a name that says nothing."""

    def apply(content: str | bytes) -> Collector:
        path = tmp_path / "results"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_file(path)

    return apply


@pytest.fixture
def imported(records: Records) -> Keep:
    """Keeps a file that was read."""
    return lambda file: keep(records, [file], name="theirs")[0]
