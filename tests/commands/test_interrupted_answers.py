"""A complete run is stored when its output is interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvmark.cli import main


def test_interrupted_output_names_the_stored_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kvmark.cli.commands.run._answer", interrupted)
    words = ("--system", "null:", "--operations", "10", "--records", "10", "--quiet")
    assert main(["run", "ycsb/c", *words, "--runs", str(tmp_path)]) == 130
    (run,) = tmp_path.glob("*-ycsb-c-*")
    assert f"kept as run {run.name}; kvmark show prints it" in capsys.readouterr().err
