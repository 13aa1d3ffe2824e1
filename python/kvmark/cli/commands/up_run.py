"""What a user said after `kvmark up`, and what it and `kvmark down` say of testbeds."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import typer
from rich.console import Console
from rich.text import Text

from kvmark.cli.output import print_answer, print_json
from kvmark.cli.session import named_system
from kvmark.errors import SpecError, UsageError
from kvmark.secret import Secret
from kvmark.spec.quantity import count, listed
from kvmark.spec.url import SystemName
from kvmark.testbed import STUDY_PREFIX, names_of_testbeds, proxy, testbeds_root
from kvmark.testbed.control import Stopped
from kvmark.testbed.state import Node, Testbed, all_testbeds, known_testbed
from kvmark.testbed.system import System, option_specs
from kvmark.testbed.systems import SYSTEMS, system_of

How: TypeAlias = Literal["up", "up again", "up already"]
_PASSWORD_BYTES: Final = 24
_PASSWORDS: Final = ("password", "password_file")
# What several systems may have; where they differ a system says how.
_COMMON: Final = {"tls": "tls", "network": "network", "cores": "core"}


@contextmanager
def telling(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Shows what goes on, on standard error: one line that changes, or elsewhere one a step."""
    if quiet:
        yield lambda _: None
        return
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if console.is_terminal:
        with console.status("") as status:
            yield lambda text: status.update(Text(text))
        return
    told: set[str] = set()

    def tell(text: str) -> None:
        step, _, _ = text.partition(": ")
        if step not in told:
            told.add(step)
            console.print(Text(step))

    yield tell


def list_testbeds(*, json: bool) -> None:
    """Prints all testbeds and whether they are up."""
    found = all_testbeds(testbeds_root())
    if json:
        print_json("testbeds", {"testbeds": [testbed_document(testbed) for testbed in found]})
    elif found:
        width = max(len(testbed.name) for testbed in found)
        print_answer(Text("\n").join(_line(testbed, width) for testbed in found))
    else:
        print_answer(Text("Nothing is up; start a system with: kvmark up redis"))


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


def started(testbed: Testbed, how: How) -> Iterator[Text]:
    """What is said of a testbed that is up, up again or up already; its URL first, to be copied."""
    servers = ", ".join(f"{node.name} {node.address}" for node in testbed.nodes)
    yield Text(testbed.url, "bold")
    yield Text(f"{testbed.system} {testbed.version} is {how} as '{testbed.name}': {servers}")
    forgotten = system_of(testbed).forgets(testbed.made_with)
    if how == "up again" and forgotten:
        yield Text(forgotten)
    yield Text(f"Stop it with: kvmark down {testbed.name}", "dim")


def ended(stopped: list[Stopped], *, named: bool) -> Iterator[Text]:
    """What is said of testbeds that were taken down, all or the one that was named."""
    for one in stopped:
        if one.nodes:
            servers = ", ".join(f"{node.name} {node.address}" for node in one.nodes)
            yield Text(f"Stopped {one.name}: {servers}")
        elif named:
            yield Text(f"{one.name} was down already")
        if one.removed:
            yield Text(f"Removed the folder of {one.name}")
    if not named and not any(one.nodes or one.removed for one in stopped):
        yield Text("Nothing was up")


def testbed_document(testbed: Testbed) -> dict[str, Any]:
    """A testbed as values for JSON."""
    return {
        "name": testbed.name,
        "system": testbed.system,
        "version": testbed.version,
        "url": testbed.url,
        "folder": str(testbed.folder),
        "nodes": [_node_document(node) for node in testbed.nodes],
    }


def stopped_document(stopped: Stopped) -> dict[str, Any]:
    """A testbed that was taken down, likewise."""
    nodes = [_node_document(node) for node in stopped.nodes]
    return {"name": stopped.name, "nodes": nodes, "removed": stopped.removed}


def _node_document(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "role": node.role,
        "address": node.address,
        "pid": node.process.pid if node.process else None,
        "cores": node.cores,
        "up": node.lives,
    }


def _understood(system: System) -> dict[str, str]:
    """The options of a system as users write them, by field."""
    names = {field.name for field in fields(system.options)}
    found = {spec.field: spec.name for spec in option_specs(system.options).values()}
    found |= {name: written for name, written in _COMMON.items() if name in names}
    return found | {name: name for name in _PASSWORDS if "password" in names}


def kept_testbed(root: Path, system: str, context: typer.Context) -> Testbed | None:
    """The testbed that is to be brought back; None where a new one is to be made.

    Raises:
        UsageError: what is named is neither a system nor a testbed, or is of another system.
    """
    name, new = context.params["name"], context.params["new"]
    if system not in SYSTEMS:
        found = known_testbed(root, system)
        if found is None:
            known = ", ".join(names_of_testbeds(root)) or "none"
            raise UsageError(
                f"'{system}' is neither a system, which are {', '.join(SYSTEMS)}, nor a testbed in"
                f" {root}, where there is {known}"
            )
        if new or name:
            raise UsageError(
                f"'{system}' is a testbed: give --{'new' if new else 'name'} with a system, such as"
                f" kvmark up {found.system}, for another one"
            )
        return found
    if name is not None and name.startswith(STUDY_PREFIX):
        raise UsageError(
            f"name: a study removes testbeds whose names begin with '{STUDY_PREFIX}'; give another"
        )
    named_by = SYSTEMS[system].named_by
    usual = context.params[named_by] if named_by else system
    chosen = name or usual
    found = None if new or chosen is None else known_testbed(root, chosen)
    if found is not None and found.system != system:
        raise UsageError(
            f"the testbed '{chosen}' is {found.system} and not {system}: give another --name, or"
            " --new"
        )
    return found


def said(context: typer.Context) -> list[str]:
    """The wishes that were typed; the others have their usual values."""
    known = {name for system in SYSTEMS.values() for name in _understood(system)}
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return [
        name
        for name, source in sources.items()
        if name in known and source is not None and source.name == "COMMANDLINE"
    ]


def check_words(system: str, typed: Sequence[str]) -> None:
    """Refuses options of another system: they would have no effect."""
    understood = _understood(SYSTEMS[system])
    for name in typed:
        if name not in understood:
            raise SpecError(
                f"{_option(name)} is no option of {system}: leave it out, or see `kvmark up --help`"
            )


def wishes(system: System, params: Mapping[str, Any], typed: Sequence[str]) -> dict[str, Any]:
    """What is wished of a new testbed of a system.

    Raises:
        SpecError: a wish is missing, or can't be read.
    """
    required = (spec.field for spec in option_specs(system.options).values() if spec.is_required)
    if not set(typed).issuperset(required):
        raise SpecError(system.required)
    found = {name: _wish(system, name, params[name]) for name in typed if name not in _PASSWORDS}
    if set(typed) & set(_PASSWORDS):
        found["password"] = _password(params["password_file"], generate=params["password"])
    return {"name": params["name"], **found}


def check_same(testbed: Testbed, params: Mapping[str, Any], typed: Sequence[str]) -> None:
    """Refuses words that say something else than what a testbed was made with.

    Raises:
        UsageError: names the first of them.
    """
    for word in typed:
        kept = _kept(testbed, word)
        if kept is not None and not _agrees(testbed, word, params[word]):
            name = testbed.name
            raise UsageError(
                f"{_option(word)} says something else than testbed '{name}' was made with ({kept}):"
                f" leave it out to have '{name}' as it is, or give --new for another, or forget it"
                f" with kvmark down {name} --remove"
            )


def _agrees(testbed: Testbed, word: str, typed: Any) -> bool:
    if word in _PASSWORDS:
        file = testbed.facts.get("password_file")
        wanted = _password(typed, generate=False) if word == "password_file" else None
        return file is not None and wanted in (None, _password(Path(file), generate=False))
    kept, wish = testbed.made_with[word], _wish(SYSTEMS[testbed.system], word, typed)
    if word == "settings":
        return all(kept.get(name) == value for name, value in wish)
    if isinstance(wish, proxy.Target):
        return bool(kept == wish.text)
    return bool(kept == (list(wish) if isinstance(wish, tuple) else wish))


def _kept(testbed: Testbed, word: str) -> str | None:
    """What a testbed was made with, for a sentence; None where that isn't known."""
    if word in _PASSWORDS:
        return "another password" if "password_file" in testbed.facts else "none"
    if word not in testbed.made_with:
        return None
    value = testbed.made_with[word]
    match value:
        case True | False:
            return "yes" if value else "no"
        case dict():
            return " ".join(f"{name}={text}" for name, text in value.items()) or "none"
        case list():
            return ",".join(map(str, value)) or "none"
        case int() if word.endswith("_bytes"):
            return f"{value // 2**20}M"
        case None | "":
            return "none"
    return str(value)


def _wish(system: System, word: str, value: Any) -> Any:
    """The value of a wish that is written so."""
    if word == "settings":
        return tuple(_setting(each) for each in value or ())
    if word == "cores":
        return tuple(listed(value, count)) if value else ()
    if isinstance(value, SystemName):
        return _target(value)
    spec = option_specs(system.options).get(word)
    return value if spec is None else spec.parse(value)


def _target(to: SystemName) -> proxy.Target:
    """The system that a proxy stands before."""
    system = named_system(to)
    known = system.options
    if "address" not in known:
        raise SpecError(f"to: {system} runs inside kvmark; a proxy needs a server before it")
    return proxy.Target(
        driver=system.driver,
        address=known["address"],
        text=system.text,
        encrypted=known.get("tls") == "true",
        password=bool({"password_env", "password_file"} & known.keys()),
        cluster=known.get("cluster") == "true",
    )


def _option(word: str) -> str:
    written = {
        name: as_ for system in SYSTEMS.values() for name, as_ in _understood(system).items()
    }
    return f"--{written[word].replace('_', '-')}"


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise SpecError(f"set: '{text}' has no value; write --set key=value")
    return name.strip(), value.strip()


def _password(file: Path | None, *, generate: bool) -> Secret | None:
    """The password that clients will need; a line's end in a file isn't part of it."""
    if file is None:
        return Secret(secrets.token_urlsafe(_PASSWORD_BYTES)) if generate else None
    try:
        text = file.read_text(encoding="utf-8")
        return Secret(text.removesuffix("\n").removesuffix("\r"))
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "it isn't UTF-8 text"
        raise SpecError(f"the password file {file} can't be read because {reason}") from problem
