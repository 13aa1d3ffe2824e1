"""`kvmark workloads`: the ready workloads."""

from __future__ import annotations

from typing import Annotated

import typer

from kvmark import catalog
from kvmark.cli import completion, options
from kvmark.cli.options import argument
from kvmark.cli.output import print_json


def workloads(
    name: Annotated[
        str | None, argument("NAME", "Workload to print.", autocompletion=completion.workload)
    ] = None,
    json: options.Json = False,
) -> None:
    """Lists the ready workloads, or prints one."""
    if json and name:
        print_json("workload", {"name": name, "text": catalog.text(name)})
    elif json:
        descriptions = {one: catalog.load(one).description for one in catalog.names()}
        listed = [
            {"name": one, "description": " ".join(text.split())}
            for one, text in descriptions.items()
        ]
        print_json("workloads", {"workloads": listed})
    else:
        typer.echo(catalog.text(name) if name else "\n".join(catalog.names()), nl=name is None)
