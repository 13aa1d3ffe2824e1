"""Options of commands, and how their values are read.

An option is the default of a command's parameter, or of a field of a dataclass that the command
takes: each field becomes one option. A value that can't be read is rejected with the option's name
before anything else is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from kvmark.cli import completion
from kvmark.errors import SpecError
from kvmark.outputs import check_output
from kvmark.spec import quantity as quantities
from kvmark.spec.observe import ServerSource, parse_source
from kvmark.spec.quantity import count, duration_ns, listed
from kvmark.spec.replay import parse_speed
from kvmark.spec.suggest import shown
from kvmark.spec.url import SystemName, system_name

if TYPE_CHECKING:
    from kvmark.records import Records as RunRecords

REPORT_ENDINGS = (".html", ".md")


class CountList(tuple[int, ...]):
    """Several counts."""


def option(
    metavar: str | None, help: str, *names: str, default: Any = None, **settings: Any
) -> Any:
    """An option: the default of a parameter or a field, or in `Annotated` next to a default."""
    return _declared(default, typer.Option(*names, metavar=metavar, help=help, **settings))


def argument(metavar: str, help: str, default: Any = MISSING, **settings: Any) -> Any:
    """An argument; completed where `autocompletion` is given."""
    return _declared(default, typer.Argument(metavar=metavar, help=help, **settings))


def choice(default: Any, help: str, *names: str) -> Any:
    """An option with the values that its type names."""
    return option(None, help, *names, default=default)


def flag(help: str, *names: str) -> Any:
    """An option without a value."""
    return choice(False, help, *names)


def quantity(
    read: Callable[[str], Any], metavar: str, help: str, *names: str, default: Any = None
) -> Any:
    """An option whose value `read` parses; the help states its default."""

    def parse(value: Any) -> Any:
        # A default is a value already.
        if not isinstance(value, str):
            return value
        try:
            return read(value)
        except SpecError as problem:
            raise typer.BadParameter(problem.message) from problem

    return option(metavar, help, *names, default=default, parser=parse, show_default=False)


def number(help: str, *names: str) -> Any:
    """An option for a count, such as 10k or 1M."""
    return quantity(count, "N", help, *names)


def duration(help: str, *names: str, default: int | None = None) -> Any:
    """An option for a duration, such as 500ms or 1h."""
    return quantity(duration_ns, "TIME", help, *names, default=default)


def _declared(default: Any, settings: Any) -> Any:
    return field(default=default, metadata={"typer": settings})


def expand_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command as Typer reads it, in which options replace each dataclass parameter."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for name, one in signature(command).parameters.items():
        if is_dataclass(hints[name]):
            groups[name] = hints[name]
            parameters += parameters_of(groups[name])
        else:
            parameters.append(typer_parameter(name, hints[name], one.default))

    @wraps(command)
    def expanded(**values: Any) -> Any:
        for name, kind in groups.items():
            options = {one.name: values.pop(one.name) for one in fields(kind)}
            several = {one.name for one in fields(kind) if one.default == ()}
            values[name] = kind(**options | {key: tuple(options[key] or ()) for key in several})
        return command(**values)

    return with_parameters(expanded, parameters)


def with_parameters(
    command: Callable[..., Any], parameters: Sequence[Parameter]
) -> Callable[..., Any]:
    """The command with other parameters."""
    # Typer reads the signature, `get_type_hints` the annotations.
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def parameters_of(group: type[Any]) -> Iterator[Parameter]:
    """The options of a dataclass, those of all experiments last."""
    hints = get_type_hints(group, include_extras=True)
    shared = {one.name for one in fields(ExperimentOptions)}
    for one in sorted(fields(group), key=lambda one: one.name in shared):
        yield typer_parameter(one.name, hints[one.name], one)


def typer_parameter(name: str, hint: Any, default: Any) -> Parameter:
    """A parameter with its settings in the annotation, which Typer wants without a default."""
    kind, settings = hint, default
    if get_origin(hint) is Annotated:
        kind, settings = get_args(hint)
    if isinstance(default, Field):
        default = Parameter.empty if default.default is MISSING else default.default
    if default == ():
        # Typer knows lists only.
        kind, default = list[get_args(kind)[0]] | None, None  # type: ignore[misc]
    if isinstance(settings, Field):
        settings = settings.metadata["typer"]
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, settings]
    )


def counts(text: str) -> CountList:
    """Counts separated by commas."""
    return CountList(listed(text, count))


def cores(text: str) -> CountList:
    """Numbers of cores, separated by commas."""
    if not re.fullmatch(r"\s*\d+\s*(,\s*\d+\s*)*", text):
        raise SpecError(f"{shown(text)} is no list of cores, such as 0,1")
    return counts(text)


def report_path(text: str) -> Path | None:
    """The path of a report that may be written; None for `none`."""
    if text == "none":
        return None
    path = Path(text)
    if path.suffix not in REPORT_ENDINGS:
        raise SpecError(f"{shown(text)} ends in neither {' nor '.join(REPORT_ENDINGS)}")
    check_output(path)
    return path


def _speed(text: str) -> str:
    """A speed's text once it is parsed."""
    parse_speed(text)
    return text


def _runs(text: str) -> Path:
    path = Path(text)
    if not text or (path.exists() and not path.is_dir()):
        raise SpecError(f"{shown(text)} is no folder; name one for runs")
    return path


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise SpecError(f"there is no folder {path}; name one that holds runs")
    return path


System = Annotated[
    SystemName | None,
    option(
        "URL",
        "System: rocksdb:PATH, redis://HOST, cql://HOST, up:TESTBED, null: or sim:.",
        parser=system_name,
        autocompletion=completion.system,
    ),
]
Clients = Annotated[
    int | None, number("Closed-loop clients; with --rate, limit of operations in flight.")
]
Duration = Annotated[int | None, duration("Length of measurement: 500ms, 30s, 1h.", "--duration")]
Records = Annotated[int | None, number("Records of the dataset, such as 1M.")]
Seed = Annotated[int, option("N", "Seed of all random choices.")]
Timeout = Annotated[int | None, duration("Limit of service time, such as 500ms.", "--timeout")]
Pin = Annotated[
    CountList | None, quantity(cores, "CORES", "Cores to bind workers to in turn, such as 0,1.")
]
OnExisting = Annotated[
    Literal["refuse", "keep", "remove"],
    choice("refuse", "Action when the system has records before the first load."),
]
_TAG = option("TAG", "Tag to find runs by; repeatable.", "--tag", autocompletion=completion.tag)
Tag = Annotated[list[str] | None, _TAG]
Json = Annotated[bool, flag("One JSON document on standard output.", "--json")]
Quiet = Annotated[bool, flag("Only errors on standard error.", "--quiet", "-q")]
Force = Annotated[bool, flag("Replace an existing file.", "--force")]
Runs = Annotated[
    Path | None,
    quantity(_runs, "FOLDER", "Folder of runs (default: $KVMARK_RUNS, or runs).", "--runs"),
]
KeptRuns = Annotated[
    Path | None,
    quantity(_folder, "FOLDER", "Folder of runs (default: $KVMARK_RUNS, or runs).", "--runs"),
]
RunReport = Annotated[
    Path | None, quantity(report_path, "FILE", "Report to write, .html or .md.", "--report")
]
Speed = Annotated[
    str | None, quantity(_speed, "FACTOR", "Speed of the replay: 1, 10 or max (default: 1).")
]
StatementMap = Annotated[
    Path | None, option("FILE", "Statements for the trace's operations, a YAML file.", "--map")
]
RunNames = Annotated[
    list[str],
    argument(
        "RUN",
        "Runs: ids, last, tag:NAME, study:ID or commit:ID; repeatable.",
        autocompletion=completion.several_runs,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions:
    """Options of all commands that measure.

    Raises:
        SpecError: options of a fleet are given without a fleet.
    """

    tags: Annotated[tuple[str, ...], _TAG] = ()
    commit: str | None = option("ID", "Commit of the measured code.")
    resume: bool = flag(
        "Continue the newest such command: measure missing and INVALID runs.", "--resume"
    )
    prometheus: int | None = option(
        "PORT", "Port of 127.0.0.1 for live metrics; 0: any free port.", min=0, max=65535
    )
    observe: tuple[ServerSource, ...] = quantity(
        parse_source,
        "[NAME=]SOURCE",
        "Server to observe: http://HOST:9100/metrics, ssh:HOST, redis:// or memcached:// URL;"
        " repeatable.",
        default=(),
    )
    fleet: str | None = option(
        "ADDRESS", "Ray cluster that generates load: HOST:PORT of its head, or auto."
    )
    machines: int | None = option("N", "Number of fleet machines (default: all).", min=1)
    insecure_fleet: bool = flag(
        "Accept a fleet without a token, which anyone can join.", "--insecure-fleet"
    )
    stall_limit_ns: int | None = quantity(
        quantities.stall_limit_ns,
        "TIME",
        "Limit of the time without an answer to outstanding requests, or off (default: 30s).",
        "--stall-limit",
    )
    folder: Runs = None
    json: Json = False
    quiet: Quiet = False

    def __post_init__(self) -> None:
        """Checks options that need another."""
        if self.fleet is not None:
            return
        if self.machines is not None:
            raise SpecError("--machines counts the machines of a fleet: give --fleet ADDRESS too")
        if self.insecure_fleet:
            raise SpecError("--insecure-fleet is for a fleet: give --fleet ADDRESS too")

    def open_records(self) -> RunRecords:
        """The folder of runs."""
        # It takes a while to load, and usage errors come first.
        from kvmark.records import Records

        return Records.at(self.folder)
