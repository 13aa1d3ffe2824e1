"""The sample applications and the command line that is parsed with their flags.

`flags.toml` declares both.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar

from kvmark.errors import SpecError
from kvmark.secret import Secret
from kvmark.spec.observe import ServerSource, parse_source
from kvmark.spec.quantity import duration_ns, stall_limit_ns
from kvmark.spec.suggest import did_you_mean, shown, without_credentials
from kvmark.spec.url import SystemName

_T = TypeVar("_T")
_FlagValue = str | int | float | bool | Secret | ServerSource

_DECLARED: Final = tomllib.loads((files(__package__) / "flags.toml").read_text("utf-8"))

HELP: Final[Mapping[str, str]] = _DECLARED["help"]
"""Templates of the help of all applications, and of one."""


@dataclass(frozen=True, slots=True)
class App:
    """A sample application."""

    name: str
    description: str
    #: The default name of its table, in CQL.
    table: str = ""
    #: Whether each command of a batch or pipeline counts as an operation.
    counts_commands: bool = False

    @property
    def store(self) -> Literal["cql", "redis"]:
        """The protocol of its servers."""
        return "cql" if self.table else "redis"

    @property
    def port(self) -> int:
        """The default port of a node."""
        return 9042 if self.store == "cql" else 6379


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag: the type of its value, its help, and the applications that use it."""

    name: str
    takes: Literal[
        "nothing", "whole", "number", "text", "duration", "limit", "secret", "system", "source"
    ]  # fmt: skip
    apps: frozenset[str]
    help: str = ""
    least: int = 0
    most: int = 2**63 - 1
    choices: tuple[str, ...] = ()
    #: Why the flag has no effect in kvmark; empty for those that have one.
    no_effect: str = ""


APPS: Final = MappingProxyType(
    {name: App(name=name, **fields) for name, fields in _DECLARED["applications"].items()}
)
"""The applications, by name."""


def _flag(name: str, fields: Mapping[str, Any]) -> Flag:
    apps = _DECLARED["users"][fields["apps"]] if "apps" in fields else APPS
    text = fields.get("help") or f"Accepted; {fields['no_effect']}."
    return Flag(**{**fields, "name": name, "help": text, "apps": frozenset(apps)})


FLAGS: Final = MappingProxyType(
    {name: _flag(name, fields) for name, fields in _DECLARED["flags"].items()}
)
"""The flags, by name, in the order of the help."""
OF_THE_COMMAND: Final = frozenset(_DECLARED["of_the_command"])
"""Flags about execution and output: with other values it is still the same experiment."""
_SHORT: Final = {"-q": "--quiet", "-h": "--help"}
_REPEATABLE: Final = ("observe", "tag")
_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "whole": int,
    "number": float,
    "duration": duration_ns,
    "limit": stall_limit_ns,
    "secret": Secret,
    "system": SystemName,
    "source": parse_source,
}


@dataclass(frozen=True, slots=True)
class AppRequest:
    """The application and the flags of a command line. A flag that wasn't passed has no entry."""

    app: App
    flags: Mapping[str, _FlagValue]
    #: The values of repeatable flags.
    repeated: Mapping[str, tuple[_FlagValue, ...]]

    def has(self, name: str) -> bool:
        """Whether a flag was passed."""
        return name in self.flags

    def get(self, name: str, kind: type[_T]) -> _T | None:
        """The value of a flag of this type; None if it wasn't passed."""
        value = self.flags.get(name)
        return value if isinstance(value, kind) else None

    def all(self, name: str, kind: type[_T]) -> tuple[_T, ...]:
        """The values of a repeatable flag of this type."""
        return tuple(one for one in self.repeated.get(name, ()) if isinstance(one, kind))

    def whole(self, name: str) -> int | None:
        """The value of a flag with a whole number."""
        return self.get(name, int)

    def text(self, name: str) -> str | None:
        """The value of a flag with a text."""
        return self.get(name, str)

    def as_json(self) -> dict[str, str | int | float | bool]:
        """The flags as plain values, without secrets."""
        return {
            name: str(value) if isinstance(value, Secret | ServerSource) else value
            for name, value in self.flags.items()
        }

    @property
    def unused_flags(self) -> tuple[str, ...]:
        """A sentence for each flag without effect."""
        name = self.app.name
        reasons = [(flag, FLAGS[flag].no_effect) for flag in self.flags]
        unused = (flag for flag in self.flags if name not in FLAGS[flag].apps)
        reasons += [(flag, f"{name} doesn't use it") for flag in unused]
        return tuple(f"--{flag} has no effect: {reason}" for flag, reason in reasons if reason)


def parse_request(arguments: Sequence[str]) -> AppRequest | None:
    """Reads the arguments of `kvmark app`; None if they only request the general help.

    Raises:
        SpecError: a flag is unknown, lacks its value, or values contradict each other.
    """
    names: list[str] = []
    flags: dict[str, _FlagValue] = {}
    repeated: dict[str, tuple[_FlagValue, ...]] = {}
    remaining = list(arguments)
    while remaining:
        argument = remaining.pop(0)
        if not argument.startswith("-"):
            names.append(argument)
            continue
        flag, value = _parse_flag(_SHORT.get(argument, argument), remaining)
        if flag.name in _REPEATABLE:
            repeated[flag.name] = (*repeated.get(flag.name, ()), value)
        elif flag.name in flags:
            raise SpecError(f"--{flag.name} is given twice; leave one of them out")
        flags[flag.name] = value
    app = _named_app(names, flags)
    if app is not None:
        return AppRequest(app, flags, repeated)
    if "help" in flags:
        return None
    raise SpecError(f"app needs the name of an application: give one of {', '.join(APPS)}")


def without_secrets(arguments: Sequence[str]) -> tuple[str, ...]:
    """The arguments with stars for each secret, and without the credentials of systems."""
    masked: list[str] = []
    remaining = list(arguments)
    while remaining:
        argument = remaining.pop(0)
        name, equals, value = argument.lstrip("-").partition("=")
        flag = FLAGS.get(name) if argument.startswith("-") else None
        if flag is None or flag.takes == "nothing":
            masked.append(without_credentials(argument))
        elif equals:
            masked.append(argument.removesuffix(value) + _masked(flag, value))
        else:
            masked += [argument, *(_masked(flag, text) for text in remaining[:1])]
            remaining = remaining[1:]
    return tuple(masked)


def _masked(flag: Flag, text: str) -> str:
    return str(Secret(text)) if flag.takes == "secret" else without_credentials(text)


def _parse_flag(argument: str, remaining: list[str]) -> tuple[Flag, _FlagValue]:
    name, equals, value = argument.lstrip("-").partition("=")
    flag = FLAGS.get(name)
    if flag is None:
        hint = did_you_mean(name, FLAGS) or "; see kvmark app --help"
        raise SpecError(f"there is no flag {shown('--' + name)}{hint}")
    if flag.takes == "nothing":
        if equals:
            raise SpecError(f"--{name} takes no value; leave out {shown('=' + value)}")
        return flag, True
    if not equals:
        if not remaining:
            raise SpecError(f"--{name} needs a value; write --{name} VALUE")
        value = remaining.pop(0)
    return flag, _parse_value(flag, value)


def _parse_value(flag: Flag, text: str) -> _FlagValue:
    try:
        value: _FlagValue = _PARSERS.get(flag.takes, str)(text)
        if not text or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError
    except SpecError as problem:
        raise SpecError(f"--{flag.name}: {problem.message}") from None
    except ValueError:
        kind = {"whole": "a whole number", "number": "a number"}.get(flag.takes, "a text")
        raise SpecError(f"--{flag.name}: {shown(text)} is not {kind}") from None
    if flag.choices and value not in flag.choices:
        raise SpecError(f"--{flag.name}: {shown(text)} is none of {', '.join(flag.choices)}")
    if isinstance(value, int | float) and not flag.least <= value <= flag.most:
        limit = f"least {flag.least}" if value < flag.least else f"most {flag.most}"
        raise SpecError(f"--{flag.name}: must be at {limit}, not {text}")
    return value


def _named_app(names: list[str], flags: Mapping[str, _FlagValue]) -> App | None:
    if "workload" in flags and flags["workload"] not in names:
        names = [*names, str(flags["workload"])]
    if len(names) > 1:
        raise SpecError(f"unexpected argument {shown(names[1])}; name one application")
    if names and names[0] not in APPS:
        hint = did_you_mean(names[0], APPS)
        raise SpecError(f"there is no application {shown(names[0])}{hint}")
    return APPS[names[0]] if names else None
