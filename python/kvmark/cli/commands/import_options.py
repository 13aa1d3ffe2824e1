"""The options of `kvmark runs import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", help="Results of other tools.", show_default=False),
]
Name = Annotated[
    str | None, typer.Option(metavar="NAME", help="The run's name; else that of the file.")
]
