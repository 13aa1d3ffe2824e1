"""The kinds of systems that testbeds can hold: their options, and functions for their servers.

Options are the fields of a `TestbedOptions` class that `option` makes. They become options of
`kvmark up` and keys of a study's `testbed`. `password`, `tls`, `network` and `cores` need no spec.
"""

from __future__ import annotations

import json
import re
from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import partial
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args, get_type_hints

from kvmark.drivers import files_of
from kvmark.errors import SpecError, SystemUnderTestError, UsageError
from kvmark.secret import Secret
from kvmark.spec.owned_tables import TableRemoval
from kvmark.spec.quantity import size_bytes
from kvmark.testbed.state import Node, Testbed

YES_OR_NO: Final = Literal["yes", "no"]
"""The text of a truth value in some servers' settings; a study uses true and false."""
_SIZES: Final = {unit + end: 1024**n for n, unit in enumerate("kmg", 1) for end in ("", "b", "ib")}
_NOT_KEPT: Final = frozenset({"name", "password"})

Tell: TypeAlias = Callable[[str], None]
"""Reports progress in a few words."""
IsOwnKey: TypeAlias = Callable[[str], bool]
DriverOptions: TypeAlias = Mapping[str, str]
Settings: TypeAlias = tuple[tuple[str, str], ...]
"""Settings of a server by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestbedOptions:
    """The options that every kind of system has."""

    __test__: ClassVar[bool] = False

    name: str | None = None
    """None for the system's name, with a number if that is taken."""
    cores: tuple[int, ...] = ()
    """The cores that every server is bound to; none for any."""
    dataset: str | None = None
    """The name of the saved dataset with which the servers begin; None for empty servers."""


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One option."""

    field: str
    name: str
    """As users write it."""
    type: Any
    """Of the user's value."""
    default: Any
    """As users would write it; None for none."""
    is_required: bool
    help: str
    """Follows the system's name and a colon."""
    metavar: str | None = None
    read: Callable[[str], Any] | None = None
    """Converts the user's text to the field's value; raises `UsageError`."""
    least: int | None = None
    most: int | None = None
    in_studies: bool = True

    def parse(self, value: Any) -> Any:
        """The field's value."""
        return self.read(value) if self.read and isinstance(value, str) else value


def option(default: Any, help_text: str, metavar: str | None = None, **spec: Any) -> Any:
    """A field that is an option; `spec` has further fields of its `OptionSpec`.

    `name` and `type` are given if they differ from the field's. `MISSING` makes it required.
    """
    return field(default=default, metadata={"help": help_text, "metavar": metavar, **spec})


def size_option(default: int | None, help_text: str, name: str) -> Any:
    """An option that is a size in bytes."""
    read = partial(read_size, name.replace("_", "-"))
    return option(default, help_text, "SIZE", name=name, type=str, read=read)


def port_option(help_text: str) -> Any:
    """An option that is a port, which studies leave to kvmark."""
    return option(None, help_text, "PORT", in_studies=False)


def settings_option(help_text: str) -> Any:
    """An option for further settings; studies write them as a mapping."""
    return option((), help_text, "KEY=VALUE", name="set", type=list[str], in_studies=False)


def option_specs(options: type[TestbedOptions]) -> Mapping[str, OptionSpec]:
    """The options with a spec, by field."""
    hints, specs = get_type_hints(options), {}
    for each in fields(options):
        if "help" not in each.metadata:
            continue
        default = None if each.default in (MISSING, ()) else each.default
        if each.metadata.get("type") is YES_OR_NO:
            default = "yes" if default else "no"
        hint = hints[each.name]
        not_none = [kind for kind in get_args(hint) if kind is not NoneType]
        own = {
            "name": each.name,
            "type": not_none[0] if NoneType in get_args(hint) else hint,
            "default": default,
            "is_required": each.default is MISSING,
        }
        specs[each.name] = OptionSpec(field=each.name, **{**own, **each.metadata})
    return specs


def read_size(name: str, text: str) -> int:
    """A size in bytes as Java and memcached write it: `512K`, `64M`, `2G`, of 1024 each.

    Raises:
        SpecError: it can't be read; begins with the option's name.
    """
    try:
        return size_bytes(text, _SIZES, "512M or 2G")
    except SpecError as problem:
        raise SpecError(f"{name}: {problem}") from None


def made_with(options: TestbedOptions, **decided: Any) -> dict[str, Any]:
    """The options as JSON values, to compare when the testbed is started again; no secret in them.

    `decided` has the values of options that the user left open.
    """
    values = {name: value for name, value in asdict(options).items() if name not in _NOT_KEPT}
    if "settings" in values:
        values["settings"] = dict(values["settings"])
    kept: dict[str, Any] = json.loads(json.dumps({**values, **decided}))
    return kept


def check_bounds(options: TestbedOptions) -> None:
    """Refuses numbers outside the bounds of their specs.

    Raises:
        UsageError: names the option.
    """
    for spec in option_specs(type(options)).values():
        value, least = getattr(options, spec.field), 1 if spec.least is None else spec.least
        if value is None or (spec.least is None and spec.most is None):
            continue
        if value < least or (spec.most is not None and value > spec.most):
            bounds = f"at least {least}" if spec.most is None else f"from {least} to {spec.most}"
            raise UsageError(f"{spec.name.replace('_', '-')}: must be {bounds}, not {value}")


def check_options(
    options: Any, names: re.Pattern[str], decided: Mapping[str, str], longest_password_bytes: int
) -> None:
    """Refuses invalid numbers, settings and passwords.

    Args:
        options: with the fields `settings` and `password`.
        names: valid names of settings.
        decided: settings that the testbed decides itself, by the advice.
        longest_password_bytes: the server's limit.

    Raises:
        UsageError: names the option.
    """
    check_bounds(options)
    # Options with the same name decide settings as well.
    written = (spec.name.replace("_", "-") for spec in option_specs(type(options)).values())
    advice = {name: f"give --{name}" for name in written}
    advice |= {name: text for text, several in decided.items() for name in several.split()}
    for name, value in options.settings:
        if not names.fullmatch(name):
            raise UsageError(f"set: '{name}' is not the name of a setting; write --set key=value")
        if not value.isprintable():
            raise UsageError(f"set: the value of {name} must be one line of printable characters")
        first = name.partition(".")[0].lower()
        if first in advice:
            raise UsageError(f"set: {first} is the testbed's own; {advice[first]}")
    if options.password is None:
        return
    password = options.password.reveal()
    length_bytes, most = len(password.encode()), longest_password_bytes
    if not 0 < length_bytes <= most:
        raise UsageError(f"the password must have 1 to {most} bytes, not {length_bytes}")
    if not password.isprintable():
        raise UsageError("the password must be one line of printable characters")


Counters: TypeAlias = dict[str, int | float | None]
NO_COUNTERS: Final[Counters] = dict.fromkeys(
    ("network_sent_bytes", "network_received_bytes", "gc_count", "gc_time_s")
)
"""Counters of a server since it started, and the time spent in garbage collections; None where it
reports none."""


class Meter:
    """Reads the counters of one server; this one of a server without any."""

    def read(self) -> Counters:
        """The counters; `NO_COUNTERS` when the server doesn't answer at once."""
        return NO_COUNTERS

    def close(self) -> None:
        """Closes the connection to the server."""


@dataclass(frozen=True, slots=True)
class Promotion:
    """Makes a replica, by name, the primary, and the former primary again."""

    check: Callable[[Testbed, str], None]
    """Refuses a server that can't be promoted."""
    begin: Callable[[Testbed, str], None]
    end: Callable[[Testbed, str], None]


@dataclass(frozen=True, slots=True)
class Contents:
    """The records of a system that anyone may have started, and their owner.

    Only `kvmark.run.existing` may call `remove`.
    """

    found: str | None
    """A description of the records; None for an empty system."""
    others: str
    """Advice which system to name instead."""
    claim: str | None
    """The claim in the mark that kvmark left when the system was empty; None without a mark."""
    foreign: Callable[[IsOwnKey], str | None]
    """A description of a record whose key isn't one's own; None without one. Reads all keys."""
    remove: Callable[[], None]
    """Removes all records, the mark last."""
    mark: Callable[[str], None]
    """Marks an empty system with a claim."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one system. Only `kvmark.run.existing` may call `remove`."""

    comment: Callable[[TableRemoval], str | None]
    """The comment of a table; None if it doesn't exist."""
    remove: Callable[[TableRemoval], None]
    """Drops or empties a table."""


@dataclass(frozen=True, slots=True)
class Saving:
    """The data of a system's servers, as saved datasets have it."""

    places: tuple[str, ...]
    """The files and folders in a node's folder that are its data."""
    options: tuple[str, ...] = ()
    """The fields of options that must not change, because the data depends on them."""
    has_password: bool = False
    """Whether the data includes the testbed's password."""
    flush: Callable[[Testbed], None] = lambda _: None
    """Lets servers write the data that they don't write when they stop."""
    remove_flushed: Callable[[Testbed], None] = lambda _: None
    """Removes what `flush` wrote, once it is copied."""
    adapt: Callable[[Testbed, Testbed], None] = lambda _, __: None
    """Adapts the data of a new testbed, which was copied from a saved one, to its addresses."""


@dataclass(frozen=True, slots=True)
class System:
    """One kind of system."""

    name: str
    options: type[TestbedOptions]
    up: Callable[[Any, Path, Tell], Testbed]
    """Starts a testbed in a new folder below that one."""
    wait_for_answer: Callable[[Testbed, Node, float], None]
    """Waits, up to a limit in seconds, until a server answers."""
    wait_for_node: Callable[[Testbed, Node, float], None]
    """Waits, up to a limit in seconds, until a server works together with the others."""
    describe: Callable[[Testbed], Mapping[str, Any]]
    """Version, effective settings and their fingerprint, for a manifest; no secret in it."""
    meter: Callable[[Testbed, Node], Meter]
    own_files: re.Pattern[str]
    """Paths in a testbed's folder that its servers or kvmark write."""
    healthy_within_s: float
    """The time in which its servers start."""
    refusal: Callable[[Path], str | None] = lambda _: None
    """The reason in a log why its server ended, if the user can correct it."""
    version_of: Callable[[Testbed], str] = lambda testbed: testbed.version
    """The version of a testbed that is up."""
    keeps_log: bool = False
    """Whether a failed start leaves the folder with the log that its error names."""
    driver: str | None = None
    """None where another system's driver connects to it."""
    contents: Callable[[DriverOptions, Secret | None], Contents | None] = lambda _, __: None
    """Takes a password that isn't among the options. None where the system reports nothing."""
    tables: Callable[[DriverOptions, Secret | None], Tables] | None = None
    """Takes a password that isn't among the options."""
    named_by: str | None = None
    """The option whose value is a testbed's default name; None for the system's own name."""
    required: str = ""
    """The error when an option without a default is missing."""
    forgets: Callable[[Mapping[str, Any]], str | None] = lambda _: None
    """A note for servers with such options that are started again without their data."""
    promotion: Promotion | None = None
    """None where replicas can't be promoted from outside."""
    check_again: Callable[[Testbed, Tell], None] = lambda _, __: None
    """Checks the requirements of servers before they are started again."""
    saving: Saving | None = None
    """None where servers have no data of their own on the disk."""


_DRIVERS: Final[Mapping[str, str | None]] = {
    "cassandra": "cql",
    "memcached": "memcached",
    "postgres": "postgres",
    "proxy": None,
    "redis": "redis",
    "valkey": None,
}
"""The modules of this folder that have a `SYSTEM`, and the systems' drivers."""

_CONTENTS_ONLY: Final = ("dynamodb", "mongodb")
"""The drivers with a module of this folder for servers that kvmark can't start."""


class _Systems(UserDict[str, Any]):
    """The systems by name. A module is loaded when its system is used."""

    def __getitem__(self, name: str) -> System:
        if name not in self.data:
            raise KeyError(name)
        system: System = import_module(f"kvmark.testbed.{name}").SYSTEM
        return system


SYSTEMS: Final[Mapping[str, System]] = _Systems(_DRIVERS)


def system_of(testbed: Testbed) -> System:
    """The kind of system of a testbed.

    Raises:
        SystemUnderTestError: this kvmark has no such kind.
    """
    if testbed.system not in SYSTEMS:
        raise SystemUnderTestError(
            f"testbed {testbed.name} holds {testbed.system}, which this kvmark doesn't know: stop"
            " it with the kvmark that started it"
        )
    return SYSTEMS[testbed.system]


def driven_by(driver: str) -> System | None:
    """The kind of system that a driver connects to; None without one."""
    return next((SYSTEMS[name] for name, own in _DRIVERS.items() if own == driver), None)


def contents_of(driver: str, options: DriverOptions, password: Secret | None) -> Contents | None:
    """The contents of a server, or of an embedded store's folder; None if it reports nothing.

    Raises:
        UsageError: the folder is a file.
        SystemUnderTestError: the server doesn't answer.
    """
    files = files_of(driver)
    if files is not None:
        embedded = import_module("kvmark.testbed.embedded")
        contents: Contents = embedded.contents(driver, files, options["path"])
        return contents
    if driver in _CONTENTS_ONLY:
        of_server: Contents = import_module(f"kvmark.testbed.{driver}").contents(options, password)
        return of_server
    kind = driven_by(driver)
    return None if kind is None else kind.contents(options, password)
