"""The script that draws figures is made once for all pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvmark.report.format import vega_library


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What it was made of, each time."""
    found: list[str] = []

    def bundle(snippet: str) -> str:
        found.append(snippet)
        return "draw(); // é\r\n"

    monkeypatch.setattr("vl_convert.javascript_bundle", bundle)
    return found


def test_the_library_is_made_once_for_each_version_and_then_read(
    cache: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (vega_library.__wrapped__() for _ in range(2))
    assert (first, len(made)) == ("draw(); // é\r\n", 1)
    assert second == first
    assert [path.suffix for path in (cache / "kvmark").iterdir()] == [".js"]
    monkeypatch.setattr("kvmark.report.format.version", lambda _: "99.0")
    vega_library.__wrapped__()
    assert len(made) == 2


def test_a_cache_that_cannot_be_written_only_costs_time(cache: Path, made: list[str]) -> None:
    cache.write_text("a file and not a folder")
    assert [vega_library.__wrapped__() for _ in range(2)] == ["draw(); // é\r\n"] * 2
    assert len(made) == 2
