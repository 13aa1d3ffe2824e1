"""Starts testbeds from the options of `kvmark up`, and prints them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import typer
from rich.console import Console
from rich.text import Text

from kvmark.cli.output import print_result
from kvmark.cli.session import named_system
from kvmark.errors import SpecError, UsageError
from kvmark.secret import Secret
from kvmark.spec.quantity import count, listed
from kvmark.spec.url import SystemName
from kvmark.testbed import STUDY_PREFIX, names_of_testbeds, proxy, testbeds_root
from kvmark.testbed.control import Stopped
from kvmark.testbed.launch import bring_back
from kvmark.testbed.saved import find_saved, options_for, remove_saved, saved_datasets
from kvmark.testbed.state import Node, Testbed, all_testbeds, known_testbed
from kvmark.testbed.system import SYSTEMS, System, option_specs, system_of

State: TypeAlias = Literal["up", "up again", "up already"]
_PASSWORD_BYTES: Final = 24
_PASSWORDS: Final = ("password", "password_file")
_NO_FIELDS: Final = frozenset({"system", "name", "new", "json", "quiet"})
"""Parameters of the command that are no fields of a system's options."""


def start(root: Path, system: str, context: typer.Context, *, quiet: bool) -> tuple[Testbed, State]:
    """Starts a new testbed, or restarts the existing one.

    Raises:
        SpecError: options are missing or wrong.
        UsageError: there is no such system or testbed, or the testbed has other options.
        KvmarkError: it doesn't start.
    """
    flags = {str(one.name): one.opts[0] for one in context.command.params}
    options = {
        name: value
        for name, value in context.params.items()
        if name not in _NO_FIELDS
        and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    }
    existing = _existing_testbed(root, system, context.params)
    kind = SYSTEMS[existing.system if existing else system]
    fields = kind.options.__dataclass_fields__
    for name in options:
        if ("password" if name in _PASSWORDS else name) not in fields:
            raise SpecError(
                f"{flags[name]} is no option of {kind.name}: leave it out, or see"
                " `kvmark up --help`"
            )
    if existing is None:
        wanted = kind.options(name=context.params["name"], **_values(kind, options))
        with _progress(quiet=quiet) as tell:
            return kind.up(wanted, root, tell), "up"
    for name, given in options.items():
        _check_same(existing, name, given, flags[name])
    state: State = "up already" if existing.lives else "up again"
    with _progress(quiet=quiet) as tell:
        return bring_back(existing, tell), state


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Prints steps on standard error: one changing line on a terminal, or else a line per step."""
    if quiet:
        yield lambda _: None
        return
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if console.is_terminal:
        with console.status("") as status:
            yield lambda text: status.update(Text(text))
        return
    printed: set[str] = set()

    def tell(text: str) -> None:
        step, _, _ = text.partition(": ")
        if step not in printed:
            printed.add(step)
            console.print(Text(step))

    yield tell


def list_testbeds(*, json: bool) -> None:
    """Prints all testbeds with their states."""
    root = testbeds_root()
    testbeds, datasets = all_testbeds(root), saved_datasets(root)
    width = max((len(testbed.name) for testbed in testbeds), default=0)
    place = Text(f"In {root}:", "dim")
    lines = [_line(testbed, width) for testbed in testbeds]
    lines += [Text(f"saved:{one.name}  {one.text}") for one in datasets]
    document = {
        "testbeds": [testbed_document(testbed) for testbed in testbeds],
        "datasets": datasets,
    }
    nothing = Text(f"Nothing is up in {root}; start a system with: kvmark up redis")
    print_result(
        "testbeds", document if json else Text("\n").join([place, *lines]) if lines else nothing
    )


def _line(testbed: Testbed, width: int) -> Text:
    living = sum(node.lives for node in testbed.nodes)
    if living == len(testbed.nodes):
        state, style, where = "up", "green", testbed.url
    else:
        state = f"{living} of {len(testbed.nodes)} up" if living else "down"
        style, where = "yellow" if living else "dim", str(testbed.folder)
    line = Text(f"{testbed.name:<{width}}  ")
    line.append(f"{state:<11}", style)
    return line.append(f"  {testbed.system} {testbed.version}  {where}")


def started_text(testbed: Testbed, state: State) -> Text:
    """The lines about a started testbed; its URL first, to be copied."""
    servers = _servers(testbed.nodes)
    lines = [
        Text(testbed.url, "bold"),
        Text(f"{testbed.system} {testbed.version} is {state} as '{testbed.name}': {servers}"),
    ]
    lost = system_of(testbed).forgets(testbed.made_with)
    if state == "up again" and lost:
        lines.append(Text(lost))
    if testbed.dataset is not None and state == "up":
        lines.append(
            Text(f"It begins with dataset '{testbed.dataset.name}': {testbed.dataset.text}")
        )
    last = f"It is in {testbed.folder}; stop it with: kvmark down {testbed.name}"
    return Text("\n").join([*lines, Text(last, "dim")])


def stopped_text(stopped: Sequence[Stopped], root: Path, *, named: bool) -> Text:
    """The lines about stopped testbeds of a folder, all or the named one."""
    lines = []
    for one in stopped:
        if one.nodes:
            lines.append(f"Stopped {one.name}: {_servers(one.nodes)}")
        elif named:
            lines.append(f"{one.name} was down already")
        if one.saved is not None:
            options = options_for(find_saved(root, one.saved.name))
            lines.append(
                f"Saved {one.saved.records or 'its data'}; start another testbed with it: kvmark up"
                f" {one.saved.system} --new --from {one.saved.name}{options}"
            )
        if one.removed:
            lines.append(f"Removed {one.folder}")
    return Text("\n".join(lines or [f"Nothing was up in {root}"]))


def _servers(nodes: Sequence[Node]) -> str:
    return ", ".join(f"{node.name} {node.address}" for node in nodes)


def testbed_document(testbed: Testbed) -> dict[str, Any]:
    """A testbed as values for JSON."""
    fields = ("name", "system", "version", "url", "folder", "dataset")
    return {**{name: getattr(testbed, name) for name in fields}, "nodes": _documents(testbed.nodes)}


def removed_dataset(root: Path, name: str, *, remove: bool, save: str | None) -> Stopped:
    """Removes the saved dataset that is named like `saved:NAME`.

    Raises:
        UsageError: there is none, or this isn't the request.
    """
    if not remove or save is not None:
        raise UsageError(f"{name} is a saved dataset, not a testbed: remove it with --remove alone")
    folder = remove_saved(root, name.removeprefix("saved:"))
    return Stopped(name, folder, (), removed=True)


def stopped_document(stopped: Stopped) -> dict[str, Any]:
    """A stopped testbed as values for JSON."""
    fields = {name: getattr(stopped, name) for name in ("name", "removed", "saved")}
    return {**fields, "nodes": _documents(stopped.nodes)}


def _documents(nodes: Sequence[Node]) -> list[dict[str, Any]]:
    return [
        {
            **{name: getattr(node, name) for name in ("name", "role", "address")},
            "pid": node.process.pid if node.process else None,
            "cores": node.cores,
            "up": node.lives,
        }
        for node in nodes
    ]


def _existing_testbed(root: Path, system: str, params: Mapping[str, Any]) -> Testbed | None:
    """The testbed to restart; None for a new one.

    Raises:
        UsageError: the name is neither a system's nor a testbed's, or the testbed's system differs.
    """
    name, new = params["name"], params["new"]
    if system not in SYSTEMS:
        testbed = known_testbed(root, system)
        if testbed is None:
            known = ", ".join(names_of_testbeds(root)) or "none"
            raise UsageError(
                f"'{system}' is neither a system, which are {', '.join(SYSTEMS)}, nor a testbed in"
                f" {root}, where there is {known}"
            )
        if new or name:
            raise UsageError(
                f"'{system}' is a testbed: give --{'new' if new else 'name'} with a system, such as"
                f" kvmark up {testbed.system}, for another one"
            )
        return testbed
    if name is not None and name.startswith(STUDY_PREFIX):
        raise UsageError(
            f"name: a study removes testbeds whose names begin with '{STUDY_PREFIX}'; give another"
        )
    named_by = SYSTEMS[system].named_by
    chosen = name or (params[named_by] if named_by else system)
    testbed = None if new or chosen is None else known_testbed(root, chosen)
    if testbed is not None and testbed.system != system:
        raise UsageError(
            f"the testbed '{chosen}' is {testbed.system} and not {system}: give another --name, or"
            " --new"
        )
    return testbed


def _values(system: System, options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a new testbed.

    Raises:
        SpecError: an option is missing, or can't be parsed.
    """
    required = (wish.field for wish in option_specs(system.options).values() if wish.is_required)
    if not options.keys() >= set(required):
        raise SpecError(system.required)
    values = {
        name: _value(system, name, text) for name, text in options.items() if name not in _PASSWORDS
    }
    if options.keys() & set(_PASSWORDS):
        values["password"] = _password(
            options.get("password_file"), generate=options.get("password", False)
        )
    return values


def _check_same(testbed: Testbed, name: str, given: Any, flag: str) -> None:
    """Rejects an option that differs from the one with which a testbed was made.

    Raises:
        UsageError: names it.
    """
    file = testbed.facts.get("password_file")
    made_with = {"dataset": None, **testbed.made_with}
    if name in _PASSWORDS:
        made_with = {name: "none" if file is None else "another password"}
        password = _password(given, generate=False) if name == "password_file" else None
        same = file is not None and password in (None, _password(Path(file), generate=False))
    elif name in made_with:
        value = _value(SYSTEMS[testbed.system], name, given)
        if name == "settings":
            same = {*value} <= {*made_with[name].items()}
        else:
            value = value.text if isinstance(value, proxy.Target) else value
            same = made_with[name] == (list(value) if isinstance(value, tuple) else value)
    else:
        return
    if not same:
        raise UsageError(
            f"{flag} says something else than testbed '{testbed.name}' was made with"
            f" ({_text(name, made_with[name])}): leave it out to have '{testbed.name}' as it is, or"
            f" give --new for another, or forget it with kvmark down {testbed.name} --remove"
        )


def _text(name: str, value: Any) -> str:
    """The value of a testbed's field as users write it."""
    match value:
        case True | False:
            return "yes" if value else "no"
        case dict():
            return " ".join(f"{key}={text}" for key, text in value.items()) or "none"
        case list():
            return ",".join(map(str, value)) or "none"
        case int() if name.endswith("_bytes"):
            return f"{value // 2**20}M"
        case None | "":
            return "none"
    return str(value)


def _value(system: System, name: str, given: Any) -> Any:
    """The value of a field from its option."""
    if name == "settings":
        return tuple(map(_setting, given))
    if name == "cores":
        return tuple(listed(given, count)) if given else ()
    if isinstance(given, SystemName):
        return _target(given)
    wish = option_specs(system.options).get(name)
    return given if wish is None else wish.parse(given)


def _target(to: SystemName) -> proxy.Target:
    """The system behind a proxy."""
    system = named_system(to)
    options = system.options
    if "address" not in options:
        raise SpecError(f"to: {system} runs inside kvmark; a proxy needs a server before it")
    return proxy.Target(
        driver=system.driver,
        address=options["address"],
        text=system.text,
        encrypted=options.get("tls") == "true",
        password=bool({"password_env", "password_file"} & options.keys()),
        cluster=options.get("cluster") == "true",
    )


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise SpecError(f"set: '{text}' has no value; write --set key=value")
    return name.strip(), value.strip()


def _password(file: Path | None, *, generate: bool) -> Secret | None:
    """The password for clients; a final line end of a file isn't part of it."""
    if file is None:
        return Secret(secrets.token_urlsafe(_PASSWORD_BYTES)) if generate else None
    try:
        text = file.read_text(encoding="utf-8")
        return Secret(text.removesuffix("\n").removesuffix("\r"))
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "it isn't UTF-8 text"
        raise SpecError(f"the password file {file} can't be read because {reason}") from problem
