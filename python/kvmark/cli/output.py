"""What commands print: an answer for people, or one JSON document."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from kvmark.errors import RunError
from kvmark.report.format.bars import writable

if TYPE_CHECKING:
    from rich.text import Text

__all__ = [
    "document",
    "print_answer",
    "print_json",
    "tell_report",
    "terminal_width",
    "write_report",
    "write_text",
]

_NARROW: Final = 40
_WIDE: Final = 160


def terminal_width() -> int:
    """Columns to write for: the terminal's within reason, and many in a pipe."""
    columns = shutil.get_terminal_size((_WIDE, 50)).columns
    return max(_NARROW, min(columns, _WIDE)) if sys.stdout.isatty() else _WIDE


def print_answer(answer: Text) -> None:
    """Prints for people: colours where a terminal shows them, signs where they can be written."""
    if not (sys.stdout.isatty() or os.environ.get("FORCE_COLOR")):
        print(writable(answer.plain, sys.stdout.encoding or "utf-8"))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(width=terminal_width(), highlight=False, soft_wrap=True)
    shown = writable(answer.plain, console.encoding)
    console.print(answer if shown == answer.plain else Text(shown))


def print_json(value: object) -> None:
    """Prints one JSON document and nothing else."""
    print(json.dumps(document(value), indent=2, ensure_ascii=False))


def write_report(make: Callable[[ModuleType], Any], path: Path, format: str | None = None) -> None:
    """Writes the page that `make` takes from `kvmark.report.model.page`.

    Without a format, `html`, `md` or one of a folder, the path's ending says it.

    Raises:
        RunError: the file or folder can't be written.
    """
    # Figures bring a library that takes a second to load: only reports pay for it.
    from kvmark.report.format import folder, html, markdown
    from kvmark.report.model import page

    writers = {"html": html.write_html, "md": markdown.write_markdown}
    form = format or path.suffix.removeprefix(".")
    # What fails here has nothing to do with the file that is written next.
    made = make(page)
    try:
        if form in folder.FOLDER_FORMATS:
            folder.write_folder(made, path, form)
        else:
            writers[form](made, path)
    except OSError as problem:
        place = problem.filename or path
        raise RunError(f"{place} can't be written because {problem.strerror}") from problem


def write_text(path: Path, text: str) -> None:
    """Writes an answer's text to a file.

    Raises:
        RunError: the file can't be written.
    """
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as problem:
        raise RunError(f"{path} can't be written because {problem.strerror}") from problem


def document(value: object) -> Any:
    """A value of the analysis as JSON values; histograms are left to the export."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((one.name, getattr(value, one.name)) for one in dataclasses.fields(value))
        return {name: document(part) for name, part in fields if not _are_counts(part)}
    if isinstance(value, Mapping):
        return {str(name): document(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [document(part) for part in value]
    if isinstance(value, Enum):
        return document(value.value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str | int | bool) or value is None:
        return value
    return str(value) if isinstance(value, Path) else _plain(value)


def _are_counts(value: object) -> bool:
    """Whether a value is a histogram; none is where nobody has loaded histograms yet."""
    stats = sys.modules.get("kvmark.stats")
    return stats is not None and isinstance(value, stats.Counts)


def _plain(value: object) -> Any:
    dump = getattr(value, "to_json", None)
    return document(dump()) if callable(dump) else str(value)


def tell_report(report: Path | None) -> None:
    """Says where a report was written, if one was."""
    if report is not None:
        print(f"\nThe report is in {report.resolve()}", file=sys.stderr)
