"""Figures and pictures of simulated runs in the documents match these runs."""

import re
import runpy
from pathlib import Path

import pytest

from runs_on_disk import histogram

pytest.importorskip("kvmark._engine")

ROOT = Path(__file__).resolve().parents[2]


PICTURES = runpy.run_path(str(ROOT / "scripts" / "pictures.py"), run_name="pictures")


def test_the_text_has_the_quantiles_of_the_run_and_the_run_all_operations(tmp_path: Path) -> None:
    run = PICTURES["stalled"](tmp_path)
    total = next(total for total in run.totals(run.counted[0].index) if total.operation == "READ")
    text = (ROOT / "docs" / "method" / "how-it-measures.md").read_text()
    assert total.count == 10_000
    assert f"**p99 is {total.response.p99 / 1e9:.2f} s**" in text
    assert f"p95 is {total.response.p95 / 1e9:.2f} s" in text
    assert f"**p99 is {total.service.p99 / 1e6:.1f} ms**" in text
    # Every operation that fell due in the stall is there.
    waited = histogram(run, run.counted[0].index)
    stalled = int(waited.count[waited.low > 200_000].sum())
    assert stalled == pytest.approx(1000 / 0.9, abs=2)


def test_terminal_pictures_are_current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    drawn = tmp_path / "drawn"
    PICTURES["terminal"](tmp_path, drawn)
    kept = {path.name: path.read_text() for path in (ROOT / "docs/guide/terminal").iterdir()}
    assert kept == {path.name: path.read_text() for path in drawn.iterdir()}, "run make docs"


def test_the_pictures_of_the_terminal_refer_to_nothing_outside() -> None:
    for path in (ROOT / "docs/guide/terminal").iterdir():
        text = path.read_text()
        assert set(re.findall(r"https?://[^\"')\s]+", text)) == {"http://www.w3.org/2000/svg"}
        assert "@import" not in text
