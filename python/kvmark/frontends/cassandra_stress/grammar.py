"""cassandra-stress's command line as parameters with values, and its help.

`grammar.toml` declares commands, options and their parameters. Parsing and help follow from it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any, Final, TypeVar

from kvmark.cli import options
from kvmark.cli.options import ExperimentOptions
from kvmark.errors import SpecError
from kvmark.secret import Secret
from kvmark.spec.suggest import did_you_mean, shown, without_credentials

_T = TypeVar("_T")

NODES: Final = "a list of nodes"
"""The name of the only parameter without a name: the nodes after -node."""
_LONGEST: Final = 4_000
"""Characters of an argument; Python can't parse numbers with many more digits."""
_GRAMMAR: Final = tomllib.loads((files(__package__) / "grammar.toml").read_text("utf-8"))
UNSUPPORTED_OPTIONS: Final[Mapping[str, str]] = _GRAMMAR["unsupported"]["options"]
_UNSUPPORTED_COMMANDS: Final[Mapping[str, str]] = _GRAMMAR["unsupported"]["commands"]


@dataclass(frozen=True, kw_only=True)
class StressOptions(ExperimentOptions):
    """kvmark's own options, before the command line."""

    pin: options.Pin = None
    repetitions: Annotated[
        int, options.option("N", "Number of executions of the command line.", min=1)
    ] = 1
    on_existing: options.OnExisting = "refuse"
    strict: Annotated[
        bool, options.flag("Exit 1 if the run is INVALID, as other commands do.", "--strict")
    ] = False
    report: options.RunReport = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a command or option."""

    name: str
    value: str = ""
    """A regular expression for the value; empty for parameters without one."""
    metavar: str = ""
    default: str | None = None
    help: str = ""
    unsupported: str = ""
    """Why it isn't supported, and what to use instead."""
    secret: bool = False

    @property
    def usage(self) -> str:
        """The parameter in the help."""
        return f"{self.name}{self.metavar}" + (")" if self.name.endswith("(") else "")

    def match(self, argument: str) -> str | None:
        """The value if the argument is this parameter; None if it isn't."""
        if self.name == NODES:
            is_url = argument.startswith(("sim:", "null:", "cql:"))
            return argument if "=" not in argument or is_url else None
        if not self.value:
            return "" if argument.lower() == self.name.lower() else None
        if not argument.lower().startswith(self.name.lower()):
            return None
        value = argument[len(self.name) :]
        if self.name.endswith("("):
            return value.removesuffix(")") if value.endswith(")") else ""
        return value


@dataclass(frozen=True, slots=True)
class Section:
    """A command or an option and its parameters."""

    help: str
    parameters: Mapping[str, Parameter]


def _section(content: Mapping[str, Any]) -> Section:
    tables = [_GRAMMAR["shared"][name] for name in content.get("shared", ())]
    parameters = {}
    for table in [*tables, content.get("parameters", {})]:
        for name, fields in table.items():
            value = fields.get("value", "")
            pattern = _GRAMMAR["patterns"].get(value, value)
            parameters[name] = Parameter(**{**fields, "name": name, "value": pattern})
    return Section(content["help"], parameters)


COMMANDS: Final = {name: _section(content) for name, content in _GRAMMAR["commands"].items()}
OPTIONS: Final = {name: _section(content) for name, content in _GRAMMAR["options"].items()}


@dataclass(frozen=True, slots=True)
class Arguments:
    """A command and the values of parameters, by option; the command's own are under its name."""

    command: str
    values: Mapping[str, Mapping[str, str | Secret]]

    def has(self, option: str, name: str) -> bool:
        """Whether the parameter was passed."""
        return name in self.values.get(option, {})

    def passed(self, option: str, name: str) -> str | None:
        """The parameter's value; empty for one without a value, None if it wasn't passed."""
        value = self.values.get(option, {}).get(name)
        return value if isinstance(value, str) else None

    def value(self, option: str, name: str) -> str:
        """The parameter's value or default; empty without either."""
        parameter = (COMMANDS.get(option) or OPTIONS[option]).parameters.get(name)
        return self.passed(option, name) or (parameter and parameter.default) or ""

    def parsed(self, option: str, name: str, parse: Callable[[str], _T]) -> _T:
        """The parsed value or default.

        Raises:
            SpecError: it can't be parsed; the message names the parameter.
        """
        try:
            return parse(self.value(option, name))
        except SpecError as problem:
            raise SpecError(f"{option}: {name} {problem}") from None


def parse_line(words: Sequence[str]) -> Arguments:
    """Parses a command line.

    Raises:
        SpecError: a parameter is unknown or unsupported, or its value is invalid.
    """
    arguments = _joined(words)
    if not arguments:
        raise SpecError(f"stress needs a command; give one of {', '.join(COMMANDS)}, or help")
    for argument in arguments:
        if len(argument) > _LONGEST:
            raise SpecError(f"stress: {shown(argument)} is longer than {_LONGEST:,} characters")
    option = command = _command(arguments[0])
    values: dict[str, dict[str, str | Secret]] = {command: {}}
    for argument in arguments[1:]:
        if argument.startswith("-"):
            option = _option(argument)
            if option in values:
                raise SpecError(f"{option} is given twice; put its parameters together")
            values[option] = {}
            continue
        parameter, value = _parameter(argument, option)
        if parameter.name in values[option]:
            raise SpecError(f"{option}: {parameter.name} is given twice; give it once")
        values[option][parameter.name] = Secret(value) if parameter.secret else value
    return Arguments(command, values)


def without_secrets(words: Sequence[str]) -> tuple[str, ...]:
    """The arguments with stars for each secret, and without the credentials of systems."""
    secrets: list[str] = []
    masked = []
    for argument in _joined(words):
        if argument.startswith("-"):
            section = OPTIONS.get(argument.lower())
            parameters = section.parameters.values() if section else ()
            secrets = [one.name for one in parameters if one.secret]
        name = next((name for name in secrets if argument.lower().startswith(name)), None)
        masked.append(without_credentials(argument) if name is None else f"{name}{Secret('')}")
    return tuple(masked)


def _joined(words: Sequence[str]) -> list[str]:
    """The arguments: blanks around commas, equals signs and parentheses don't separate."""
    line = re.sub(r"\s+([,=()])", r"\1", " ".join(words))
    return re.sub(r"([,=(])\s+", r"\1", line).split()


def _command(word: str) -> str:
    name = _GRAMMAR["aliases"].get(word.lower(), word.lower())
    if name in _UNSUPPORTED_COMMANDS:
        raise SpecError(f"stress: {name} is not supported: {_UNSUPPORTED_COMMANDS[name]}")
    if name not in COMMANDS:
        raise SpecError(f"stress: {shown(word)} is not a command{did_you_mean(word, COMMANDS)}")
    return str(name)


def _option(word: str) -> str:
    name = word.lower()
    if name in UNSUPPORTED_OPTIONS:
        raise SpecError(f"{name} is not supported: {UNSUPPORTED_OPTIONS[name]}")
    if name not in OPTIONS:
        raise SpecError(f"stress: {shown(word)} is not an option{did_you_mean(name, OPTIONS)}")
    return name


def _parameter(argument: str, option: str) -> tuple[Parameter, str]:
    """The parameter of an argument, and its value."""
    parameters = (COMMANDS.get(option) or OPTIONS[option]).parameters.values()
    # Longer names first; the list of nodes only if nothing else matches.
    for one in sorted(parameters, key=lambda one: (one.name == NODES, -len(one.name))):
        value = one.match(argument)
        if value is None:
            continue
        if one.unsupported:
            raise SpecError(f"{option}: {one.name} is not supported: {one.unsupported}")
        if one.value and not re.fullmatch(one.value, value):
            raise SpecError(f"{option}: {one.name} can't be {shown(value)}; give {one.usage}")
        return one, value
    # The value isn't at fault, and may be a secret. The suggestion compares names with their end.
    name = re.match(r"[^=(<>]*.?", argument, re.DOTALL)
    text = name[0] if name else ""
    hint = did_you_mean(text, [one.name for one in parameters if one.name != NODES])
    raise SpecError(f"{option}: unknown parameter {shown(text)}{hint}")


def help_text(topic: Sequence[str] = ()) -> str:
    """The help of a command or an option, or an overview.

    Raises:
        SpecError: the topic is unknown.
    """
    if not topic:
        commands, options = (
            "\n".join(f"  {name:<14} {section.help}" for name, section in sections.items())
            for sections in (COMMANDS, OPTIONS)
        )
        return str(_GRAMMAR["overview"]).format(commands=commands, options=options)
    name = topic[0].lower()
    if name in UNSUPPORTED_OPTIONS:
        return f"{name}\n  not supported: {UNSUPPORTED_OPTIONS[name]}\n"
    section = COMMANDS.get(name) or OPTIONS.get(name) or OPTIONS.get(f"-{name}")
    if section is None:
        hint = did_you_mean(name, [*COMMANDS, *OPTIONS])
        raise SpecError(f"stress help: unknown topic {shown(topic[0])}{hint}")
    width = max(len(one.usage) for one in section.parameters.values())
    lines = [name]
    for one in section.parameters.values():
        default = "" if one.default is None else f" [{one.default}]"
        meaning = f"not supported: {one.unsupported}" if one.unsupported else one.help + default
        lines.append(f"  {one.usage:<{width}}  {meaning}")
    return "\n".join(lines) + "\n"
