"""The guide's notebook, from its first cell to its last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent.parent.parent / "docs/guide/notebook.ipynb"


# The kernel's libraries have deprecation warnings.
@pytest.mark.filterwarnings("ignore")
def test_every_cell_runs_and_the_figures_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVMARK_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))
    notebook: Any = nbformat.read(NOTEBOOK, as_version=4)
    # It is stored without output.
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) >= 6
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    place = {"metadata": {"path": str(tmp_path)}}
    # The kernel uses sockets in a folder instead of ports.
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=place)
    client.create_kernel_manager()
    client.km.transport = "ipc"
    client.km.ip = str(tmp_path / "kernel")
    client.execute()
    shown = [
        kind
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        for kind in output.get("data", ())
    ]
    assert shown.count("image/svg+xml") == 3
    assert shown.count("text/html") >= 4
