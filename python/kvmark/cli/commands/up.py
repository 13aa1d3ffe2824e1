"""`kvmark up` starts, restarts or lists testbeds; `kvmark down` stops them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_origin

import typer

from kvmark.cli import completion, options
from kvmark.cli.options import argument, flag, option
from kvmark.cli.output import print_answer, print_json
from kvmark.spec.url import SystemName, system_name
from kvmark.testbed import testbeds_root

if TYPE_CHECKING:
    from kvmark.testbed.system import OptionSpec, System

_OF_ALL: Final[tuple[tuple[str, Any, Any], ...]] = (
    (
        "password",
        Annotated[bool, flag("Require a generated password of clients.", "--password")],
        False,
    ),
    (
        "password_file",
        Annotated[Path | None, option("FILE", "Require the password in this file of clients.")],
        None,
    ),
    ("tls", Annotated[bool, flag("Encrypt, with generated certificates.", "--tls")], False),
    (
        "network",
        Annotated[
            bool,
            flag(
                "Give each server an address and a link for network faults; as root.", "--network"
            ),
        ],
        False,
    ),
    (
        "cores",
        Annotated[str | None, option("CORES", "Cores for the servers: 1, or 0,1.", "--core")],
        None,
    ),
    ("json", options.Json, False),
    ("quiet", options.Quiet, False),
)
"""Options that servers of several systems have, and those of all commands."""


def _with_options(up: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of all systems."""
    from kvmark.testbed.system import SYSTEMS

    *most, last = SYSTEMS
    systems = f"{', '.join(most)} or {last}, or the name of a stopped testbed."
    system = typer.Argument(metavar="SYSTEM|NAME", help=systems, show_default=False)
    name = option("NAME", "Name of the testbed (default: the system's, or a proxy's kind).")
    new = flag("Start another testbed besides an existing one.", "--new")
    parameters = [
        Parameter(field, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for field, annotation, default in (
            ("context", typer.Context, Parameter.empty),
            ("system", Annotated[str | None, system], None),
            ("name", Annotated[str | None, name], None),
            ("new", Annotated[bool, new], False),
            *_of_systems(),
            *_OF_ALL,
        )
    ]
    # Typer reads the signature, `get_type_hints` the annotations.
    up.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    up.__annotations__ = {one.name: one.annotation for one in parameters}
    return up


def _of_systems() -> Iterator[tuple[str, Any, Any]]:
    """The options of systems as parameters, those of several systems first."""
    from kvmark.testbed.system import SYSTEMS, option_specs

    by_field: dict[str, list[tuple[System, OptionSpec]]] = {}
    for system in SYSTEMS.values():
        for field, wish in option_specs(system.options).items():
            by_field.setdefault(field, []).append((system, wish))
    for wishes in sorted(by_field.values(), key=lambda wishes: len(wishes) == 1):
        yield _parameter(wishes)


def _parameter(wishes: Sequence[tuple[System, OptionSpec]]) -> tuple[str, Any, Any]:
    """The parameter for an option of one or several systems."""
    from kvmark.testbed.proxy import Target

    _, wish = wishes[0]
    helps = [f"{system.name.capitalize()}: {one.help}" for system, one in wishes]
    helps += ["Repeatable."] if get_origin(wish.type) is list else []
    reads_url = wish.type is Target
    settings = option(
        wish.metavar,
        " ".join(helps),
        f"--{wish.name.replace('_', '-')}",
        min=wish.least,
        parser=system_name if reads_url else None,
        autocompletion=completion.system if reads_url else None,
    )
    kind = SystemName if reads_url else wish.type
    # A default that some of the systems don't have would mislead.
    default = wish.default if all(one.default == wish.default for _, one in wishes) else None
    return wish.field, Annotated[kind if default is not None else kind | None, settings], default


def up(context: typer.Context, *, system: str | None, json: bool, quiet: bool, **_: Any) -> None:
    """Starts a testbed, or restarts a stopped one. Without a name, lists them."""
    from kvmark.cli.commands import up_run

    if system is None:
        up_run.list_testbeds(json=json)
        return
    testbed, state = up_run.start(testbeds_root(), system, context, quiet=quiet)
    if json:
        print_json("testbed", up_run.testbed_document(testbed))
    else:
        print_answer(up_run.started_text(testbed, state))


def down(
    name: Annotated[
        str | None, argument("NAME", "Testbed (default: all).", autocompletion=completion.testbed)
    ] = None,
    remove: Annotated[bool, flag("Remove the folder with logs and data.", "--remove")] = False,
    json: options.Json = False,
) -> None:
    """Stops testbeds that kvmark up started."""
    from kvmark.cli.commands.up_run import stopped_document, stopped_text
    from kvmark.testbed.control import take_down

    stopped = take_down(testbeds_root(), name, remove=remove)
    if json:
        print_json("down", {"stopped": [stopped_document(one) for one in stopped]})
    else:
        print_answer(stopped_text(stopped, named=name is not None))


WITH_OPTIONS: Final = {"up": _with_options}
"""Commands whose options depend on other modules."""
