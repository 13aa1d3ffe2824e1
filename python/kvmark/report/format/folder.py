"""A report as a folder of files: its figures as pictures, or its tables and figures as CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Final, Literal

from kvmark.foreign_text import cell_text
from kvmark.outputs import own_folder, write_output
from kvmark.report.format.grid import Grid
from kvmark.report.model.page import Page

FolderFormat = Literal["png", "svg", "pdf", "csv"]
FOLDER_FORMATS: Final[tuple[FolderFormat, ...]] = ("png", "svg", "pdf", "csv")


def write_folder(page: Page, folder: Path, format: FolderFormat) -> list[Path]:  # noqa: A002
    """Writes a file per figure, and for CSV per table too, and returns them.

    Raises:
        RunError: a file can't be written, or the folder holds something else.
    """
    own_folder(folder)
    written = []
    if format == "csv":
        for part in page.parts:
            for number, grid in enumerate(part.grids, 1):
                written.append(folder / f"table-{part.name}-{number}.csv")
                _write_grid(grid, written[-1])
    for figure in (figure for part in page.parts for figure in part.figures):
        written.append(folder / f"{figure.name}.{format}")
        figure.save(written[-1])
    return written


def _write_grid(grid: Grid, path: Path) -> None:
    """The table's texts; a column's band, which may hold a unit, stands in its heading."""
    text = io.StringIO(newline="")
    rows = csv.writer(text)
    rows.writerow(f"{column.band} {column.heading}".strip() for column in grid.columns)
    rows.writerows([cell_text(cell.text.strip()) for cell in row] for row in grid.rows)
    write_output(path, text.getvalue())
