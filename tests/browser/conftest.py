"""The mark of tests that need a browser, and the answers they share with tests/report."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "report"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: opens pages in chromium, skipped without it")
