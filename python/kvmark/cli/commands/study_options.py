"""The options of `kvmark study`."""

from __future__ import annotations

from typing import Annotated

import typer

from kvmark.cli.completion import complete
from kvmark.spec.url import SystemName, system_name

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="STUDY",
        autocompletion=complete.study,
        help="A name such as hcassandra, or a YAML file; without one, all names.",
    ),
]
System = Annotated[
    SystemName | None,
    typer.Option(
        parser=system_name,
        metavar="URL",
        autocompletion=complete.system,
        help="Measure this system and not the one that the study names.",
    ),
]
Through = Annotated[
    list[SystemName] | None,
    typer.Option(
        parser=system_name,
        metavar="URL",
        autocompletion=complete.system,
        help="Measure through this proxy too, a URL or up:NAME, LEVEL= before it for another name;"
        " repeatable.",
    ),
]
Scale = Annotated[
    float | None,
    typer.Option(metavar="X", help="Multiply the counts and durations that the study says."),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FACTOR=LEVEL,…",
        help="Only cases with these levels, or with published figures: published; repeatable.",
    ),
]
Repetitions = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="How often each case is run; else as the study says."),
]
Seed = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, help="Fixes order and seeds; else as the study says."),
]
Cases = Annotated[bool, typer.Option("--cases", help="List the cases and run none.")]
Text = Annotated[bool, typer.Option("--text", help="Print the study's file, to copy and change.")]
