"""`kvmark up` starts a system to measure, or one again, or lists them; `kvmark down` stops them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_origin

import typer

from kvmark.cli import completion, options
from kvmark.cli.output import print_answer, print_json
from kvmark.spec.url import SystemName, system_name
from kvmark.testbed import testbeds_root

if TYPE_CHECKING:
    from kvmark.cli.commands.up_run import How
    from kvmark.testbed.state import Testbed
    from kvmark.testbed.system import OptionSpec, System

_Name: Final = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The testbed's name; else the system's, or a proxy's kind."),
]
_New: Final = Annotated[
    bool, typer.Option("--new", help="Another testbed beside the one that is there.")
]
# Options that servers have in common, by field.
_Password: Final = Annotated[
    bool, typer.Option("--password", help="Ask clients for a password, which is made up.")
]
_PasswordFile: Final = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Ask clients for the password in this file.")
]
_Tls: Final = Annotated[
    bool, typer.Option("--tls", help="Encrypt, with certificates that are made.")
]
_Network: Final = Annotated[
    bool,
    typer.Option(
        "--network", help="Give each server an address and a link that faults disturb; as root."
    ),
]
_Cores: Final = Annotated[
    str | None,
    typer.Option("--core", metavar="CORES", help="Bind the servers to these, such as 1 or 0,1."),
]

_DownName = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME", autocompletion=completion.testbed, help="A testbed; all when not said."
    ),
]
_Remove = Annotated[
    bool, typer.Option("--remove", help="Remove the folder with logs and data too.")
]


def _with_options(up: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each that it or a system has; it takes them by name."""
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation, default in (
            ("context", typer.Context, Parameter.empty),
            ("system", _system(), None),
            ("name", _Name, None),
            ("new", _New, False),
            *_of_systems(),
            ("password", _Password, False),
            ("password_file", _PasswordFile, None),
            ("tls", _Tls, False),
            ("network", _Network, False),
            ("cores", _Cores, None),
            ("json", options.Json, False),
            ("quiet", options.Quiet, False),
        )
    ]
    # Typer asks for one, others who look for secrets for the other.
    up.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    up.__annotations__ = {one.name: one.annotation for one in parameters}
    return up


def _system() -> Any:
    """The argument, which names all of them."""
    from kvmark.testbed.systems import SYSTEMS

    *most, last = SYSTEMS
    told = (
        f"{', '.join(most)} or {last}, or the name of a testbed that is down; without it all"
        " testbeds are listed."
    )
    return Annotated[
        str | None, typer.Argument(metavar="SYSTEM|NAME", help=told, show_default=False)
    ]


def _of_systems() -> Iterator[tuple[str, Any, Any]]:
    """The words of systems as parameters: first what several have, then what each has alone."""
    from kvmark.testbed.system import option_specs
    from kvmark.testbed.systems import SYSTEMS

    shared: dict[str, list[tuple[System, OptionSpec]]] = {}
    for system in SYSTEMS.values():
        for field, spec in option_specs(system.options).items():
            shared.setdefault(field, []).append((system, spec))
    for those in sorted(shared.values(), key=lambda those: len(those) == 1):
        yield _option(those)


def _option(those: Sequence[tuple[System, OptionSpec]]) -> tuple[str, Any, Any]:
    """The parameter for a word of one or several systems."""
    from kvmark.testbed.proxy import Target

    _, spec = those[0]
    helps = [f"{system.name.capitalize()}: {one.help}" for system, one in those]
    helps += ["Repeatable."] if get_origin(spec.type) is list else []
    reads_url = spec.type is Target
    option = typer.Option(
        f"--{spec.name.replace('_', '-')}",
        metavar=spec.metavar,
        min=spec.least,
        help=" ".join(helps),
        parser=system_name if reads_url else None,
        autocompletion=completion.system if reads_url else None,
    )
    kind = SystemName if reads_url else spec.type
    # A usual value that isn't that of all would mislead.
    default = spec.default if all(one.default == spec.default for _, one in those) else None
    return spec.field, Annotated[kind if default is not None else kind | None, option], default


# And after `kvmark down`.


def up(
    context: typer.Context, *, system: str | None, json: bool, quiet: bool, **typed: Any
) -> None:
    """Starts a system to measure, on this machine, or one again that is down; else lists all."""
    from rich.text import Text

    from kvmark.cli.commands import up_run
    from kvmark.cli.commands.up_run import list_testbeds, started, telling, testbed_document
    from kvmark.testbed.control import bring_back

    if system is None:
        list_testbeds(json=json)
        return
    root, said = testbeds_root(), up_run.said(context)
    how: How = "up"
    kept = up_run.kept_testbed(root, system, context)
    up_run.check_words(kept.system if kept else system, said)
    if kept is None:
        testbed = _made(system, typed, said, root, quiet=quiet)
    else:
        up_run.check_same(kept, typed, said)
        how = "up already" if kept.lives else "up again"
        with telling(quiet=quiet) as tell:
            testbed = bring_back(kept, tell)
    if json:
        print_json("testbed", testbed_document(testbed))
    else:
        print_answer(Text("\n").join(started(testbed, how)))


def down(name: _DownName = None, remove: _Remove = False, json: options.Json = False) -> None:
    """Stops what `kvmark up` started, and nothing else; its data stays unless it is removed."""
    from rich.text import Text

    from kvmark.cli.commands.up_run import ended, stopped_document
    from kvmark.testbed.control import take_down

    stopped = take_down(testbeds_root(), name, remove=remove)
    if json:
        print_json("down", {"stopped": [stopped_document(one) for one in stopped]})
    else:
        print_answer(Text("\n").join(ended(stopped, named=name is not None)))


def _made(
    name: str, typed: Mapping[str, Any], said: Sequence[str], root: Path, *, quiet: bool
) -> Testbed:
    """A new testbed."""
    from kvmark.cli.commands.up_run import telling, wishes
    from kvmark.testbed.systems import SYSTEMS

    system = SYSTEMS[name]
    options = system.options(**wishes(system, typed, said))
    with telling(quiet=quiet) as tell:
        return system.up(options, root, tell)


WITH_OPTIONS: Final = {"up": _with_options}
"""Commands that get their options when they are asked for."""
