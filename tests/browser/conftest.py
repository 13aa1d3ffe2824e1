"""The browser, and the answers that its tests share with others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(Path(__file__).parent), str(_TESTS / "report")]

from chromium import Chromium  # noqa: E402


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """One browser for the tests of a file, each with pages of its own."""
    with Chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser
