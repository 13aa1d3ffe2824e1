"""`kvmark up` starts, restarts or lists testbeds; `kvmark down` stops them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_origin

import typer

from kvmark.cli import completion, options
from kvmark.cli.options import argument, flag, option
from kvmark.cli.output import print_result
from kvmark.spec.url import SystemName, system_name
from kvmark.testbed import testbeds_root

if TYPE_CHECKING:
    from kvmark.testbed.system import OptionSpec, System


@dataclass(frozen=True, kw_only=True)
class _NewTestbed:
    """Options about the testbed itself."""

    name: str | None = option("NAME", "Name (default: the system's, or a proxy's kind).")
    new: bool = flag("Start another testbed besides an existing one.", "--new")
    dataset: str | None = option(
        "NAME",
        "Begin with this saved dataset of kvmark down --save.",
        "--from",
        autocompletion=completion.dataset,
    )


@dataclass(frozen=True, kw_only=True)
class _Common:
    """Options that servers of several systems have, and those of all commands."""

    password: bool = flag("Require a generated password of clients.", "--password")
    password_file: Path | None = option("FILE", "Require the password in this file of clients.")
    tls: bool = flag("Encrypt, with generated certificates.", "--tls")
    network: bool = flag(
        "Give each server an address and a link for network faults; as root.", "--network"
    )
    cores: str | None = option("CORES", "Cores for the servers: 1, or 0,1.", "--core")
    json: options.Json = False
    quiet: options.Quiet = False


def _with_options(up: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of all systems, those of several systems first."""
    from kvmark.testbed.system import SYSTEMS, option_specs

    *most, last = SYSTEMS
    systems = f"{', '.join(most)} or {last}, or the name of a stopped testbed."
    by_field: dict[str, list[tuple[System, OptionSpec]]] = {}
    for system in SYSTEMS.values():
        for field, wish in option_specs(system.options).items():
            by_field.setdefault(field, []).append((system, wish))
    parameters = [
        Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context),
        options.typer_parameter(
            "system", str | None, argument("SYSTEM|NAME", systems, None, show_default=False)
        ),
        *options.parameters_of(_NewTestbed),
        *map(_parameter, sorted(by_field.values(), key=lambda wishes: len(wishes) == 1)),
        *options.parameters_of(_Common),
    ]
    return options.with_parameters(up, parameters)


def _parameter(wishes: Sequence[tuple[System, OptionSpec]]) -> Parameter:
    """The parameter for an option of one or several systems."""
    from kvmark.testbed.proxy import Target

    _, wish = wishes[0]
    systems_of: dict[str, list[str]] = {}
    for system, one in wishes:
        systems_of.setdefault(one.help, []).append(system.name.capitalize())
    helps = [f"{', '.join(systems)}: {text}" for text, systems in systems_of.items()]
    helps += ["Repeatable."] if get_origin(wish.type) is list else []
    reads_url = wish.type is Target
    # A default that some of the systems don't have would mislead.
    default = wish.default if all(one.default == wish.default for _, one in wishes) else None
    settings = option(
        wish.metavar,
        " ".join(helps),
        f"--{wish.name.replace('_', '-')}",
        default=default,
        min=wish.least,
        parser=system_name if reads_url else None,
        autocompletion=completion.system if reads_url else None,
    )
    kind = SystemName if reads_url else wish.type
    return options.typer_parameter(
        wish.field, kind if default is not None else kind | None, settings
    )


def up(context: typer.Context, *, system: str | None, json: bool, quiet: bool, **_: Any) -> None:
    """Starts a testbed, or restarts a stopped one. Without a name, lists them.

    Testbeds are kept in the folder testbeds of the current folder, or in $KVMARK_TESTBEDS. Other
    commands find them only from the same folder.
    """
    from kvmark.cli.commands import up_run

    if system is None:
        up_run.list_testbeds(json=json)
        return
    testbed, state = up_run.start(testbeds_root(), system, context, quiet=quiet)
    document = up_run.testbed_document(testbed)
    print_result("testbed", document if json else up_run.started_text(testbed, state))


def down(
    name: str | None = argument(
        "NAME", "Testbed (default: all).", None, autocompletion=completion.testbed
    ),
    remove: bool = flag("Remove the folder with logs and data.", "--remove"),
    save: str | None = option("NAME", "Save the data for kvmark up --from NAME."),
    json: options.Json = False,
) -> None:
    """Stops testbeds that kvmark up started.

    Data is saved here and not by kvmark up, because its files are complete only when the servers
    have stopped. saved:NAME with --remove removes a saved dataset.
    """
    from kvmark.cli.commands.up_run import removed_dataset, stopped_document, stopped_text
    from kvmark.testbed.control import take_down

    root = testbeds_root()
    named = name is not None
    if name is not None and name.startswith("saved:"):
        named, stopped = False, [removed_dataset(root, name, remove=remove, save=save)]
    else:
        stopped = take_down(root, name, remove=remove, save=save)
    document = {"stopped": [stopped_document(one) for one in stopped]}
    print_result("down", document if json else stopped_text(stopped, root, named=named))


WITH_OPTIONS: Final = {"up": _with_options}
"""Commands whose options depend on other modules."""
