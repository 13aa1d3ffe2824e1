"""Output of commands: text, or one JSON document of a kind in `documents`."""

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

from kvmark.report.model.units import writable

if TYPE_CHECKING:
    from rich.text import Text

_VERSIONS: Final = {"doc": 2, "scaling": 2}
"""Versions of JSON documents above 1. A removed or changed field needs a new one."""
_NARROW: Final = 40
_WIDE: Final = 160


def terminal_width() -> int:
    """Columns of the terminal within limits; many in a pipe."""
    columns = shutil.get_terminal_size((_WIDE, 50)).columns
    return max(_NARROW, min(columns, _WIDE)) if sys.stdout.isatty() else _WIDE


def print_answer(answer: Text) -> None:
    """Prints text: colours on a terminal, and only characters that can be encoded."""
    if not (sys.stdout.isatty() or os.environ.get("FORCE_COLOR")):
        print(writable(answer.plain, sys.stdout.encoding or "utf-8"))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(width=terminal_width(), highlight=False, soft_wrap=True)
    safe = writable(answer.plain, console.encoding)
    console.print(answer if safe == answer.plain else Text(safe))


def print_result(name: str, result: Mapping[str, object] | Text) -> None:
    """Prints an answer as text, or with its fields as a JSON document of a known kind."""
    if isinstance(result, Mapping):
        print_json(name, result)
    else:
        print_answer(result)


def print_json(name: str, fields: Mapping[str, object]) -> None:
    """Prints one JSON document of a known kind."""
    print(json_text(name, fields))


def json_text(name: str, fields: Mapping[str, object], indent: int | None = 2) -> str:
    """A JSON document of a known kind, with its kind and version in `schema`."""
    return json.dumps(
        {"schema": schema_of(name), **document(fields)}, indent=indent, ensure_ascii=False
    )


def schema_of(name: str) -> str:
    """The `schema` of a kind of document, such as `kvmark/run/1`."""
    return f"kvmark/{name}/{_VERSIONS.get(name, 1)}"


def write_report(make: Callable[[ModuleType], Any], path: Path, format: str | None = None) -> None:
    """Writes the page that `make` builds with `kvmark.report.views.pages`.

    The format is `html`, `md` or a folder's; by default the path's ending.

    Raises:
        RunError: the file or folder can't be written.
    """
    # Figures load a library for a second.
    from kvmark.report import format as formats
    from kvmark.report.views import pages

    writers = {"html": formats.write_html, "md": formats.write_markdown}
    form = format or path.suffix.removeprefix(".")
    if form in formats.FOLDER_FORMATS:
        formats.write_folder(make(pages), path, form)
    else:
        writers[form](make(pages), path)


def save_report(
    make: Callable[[ModuleType], Any], path: Path | None, *, quiet: bool = False
) -> None:
    """Writes a requested report, and prints its path.

    Raises:
        RunError: the file can't be written.
    """
    if path is not None:
        write_report(make, path)
        if not quiet:
            print(f"\nThe report is in {path.resolve()}", file=sys.stderr)


def document(value: object) -> Any:
    """A value of the analysis as JSON values, without histograms."""
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
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value)} has no form in JSON")


def _are_counts(value: object) -> bool:
    """Whether a value is a histogram, without loading the module of histograms."""
    stats = sys.modules.get("kvmark.stats")
    return stats is not None and isinstance(value, stats.Counts)
