"""`kvmark up` starts a system to measure or lists what is up; `kvmark down` stops it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from rich.text import Text

from kvmark.cli import options
from kvmark.cli.output import print_answer, print_json
from kvmark.errors import SpecError
from kvmark.spec.quantity import count, listed
from kvmark.testbed import redis
from kvmark.testbed.control import Stopped, take_down
from kvmark.testbed.state import Testbed, all_testbeds, testbeds_root

__all__ = ["down", "up"]

_PASSWORD_BYTES: Final = 24


# What a user types after `kvmark up`.

System = Annotated[
    Literal["redis"] | None, typer.Argument(help="Without a system, what is up is listed.")
]
Name = Annotated[
    str | None, typer.Option(metavar="NAME", help="The testbed's name; the system's if it is free.")
]
Port = Annotated[
    int | None, typer.Option(metavar="PORT", help="Of the first server; free ones when not said.")
]
Replicas = Annotated[int, typer.Option(metavar="N", min=0, help="Replicas of each primary.")]
Cluster = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="A Redis Cluster with so many primaries.")
]
Appendonly = Annotated[Literal["yes", "no"], typer.Option(help="Whether writes go to a log.")]
Appendfsync = Annotated[
    Literal["always", "everysec", "no"], typer.Option(help="When that log goes to the disk.")
]
Save = Annotated[
    str, typer.Option(metavar="TEXT", help="Snapshots, such as '3600 1'; none when not said.")
]
Password = Annotated[
    bool, typer.Option("--password", help="Ask clients for a password, which is made up.")
]
PasswordFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Ask clients for the password in this file.")
]
Tls = Annotated[bool, typer.Option("--tls", help="Encrypt, with certificates that are made.")]
IoThreads = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="The server's setting io-threads.")
]
Maxclients = Annotated[
    int, typer.Option(metavar="N", min=1, help="Connections for clients; a few more are kept.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any setting of redis.conf; repeatable."),
]
Core = Annotated[
    str | None, typer.Option(metavar="CORES", help="Bind the servers to these, such as 1 or 0,1.")
]
Server = Annotated[str, typer.Option(metavar="PROGRAM", help="The server's program.")]

# And after `kvmark down`.

DownName = Annotated[
    str | None, typer.Argument(metavar="NAME", help="A testbed; all when not said.")
]
Remove = Annotated[bool, typer.Option("--remove", help="Remove the folder with logs and data too.")]


def up(
    system: System = None,
    name: Name = None,
    port: Port = None,
    replicas: Replicas = 0,
    cluster: Cluster = None,
    appendonly: Appendonly = "no",
    appendfsync: Appendfsync = "everysec",
    save: Save = "",
    password: Password = False,
    password_file: PasswordFile = None,
    tls: Tls = False,
    io_threads: IoThreads = None,
    maxclients: Maxclients = 10_000,
    settings: Settings = None,
    core: Core = None,
    server: Server = "redis-server",
    json: options.Json = False,
) -> None:
    """Starts a system to measure, on this machine; without a system lists what is up."""
    if system is None:
        _list(json=json)
        return
    wanted = redis.Wanted(
        name=name,
        port=port,
        appendonly=appendonly == "yes",
        appendfsync=appendfsync,
        save=save,
        password=_password(password_file, generate=password),
        tls=tls,
        replicas=replicas,
        cluster=cluster,
        io_threads=io_threads,
        maxclients=maxclients,
        settings=tuple(_setting(each) for each in settings or ()),
        cores=tuple(listed(core, count)) if core else (),
        server=server,
    )
    testbed = redis.up(wanted, testbeds_root())
    if json:
        print_json(_document(testbed))
    else:
        print_answer(Text("\n").join(_started(testbed)))


def down(name: DownName = None, remove: Remove = False, json: options.Json = False) -> None:
    """Stops what `kvmark up` started, and nothing else."""
    stopped = take_down(testbeds_root(), name, remove=remove)
    if json:
        print_json(stopped)
    else:
        print_answer(Text("\n").join(_ended(stopped, named=name is not None)))


def _list(*, json: bool) -> None:
    found = all_testbeds(testbeds_root())
    if json:
        print_json([_document(testbed) for testbed in found])
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


def _started(testbed: Testbed) -> Iterator[Text]:
    servers = ", ".join(f"{node.name} {node.address}" for node in testbed.nodes)
    yield Text(testbed.url, "bold")
    yield Text(f"{testbed.system} {testbed.version} is up as '{testbed.name}': {servers}")
    yield Text(f"Stop it with: kvmark down {testbed.name}", "dim")


def _ended(stopped: list[Stopped], *, named: bool) -> Iterator[Text]:
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


def _document(testbed: Testbed) -> dict[str, Any]:
    nodes = [
        {
            "name": node.name,
            "role": node.role,
            "address": node.address,
            "pid": node.process.pid if node.process else None,
            "cores": list(node.cores),
            "up": node.lives,
        }
        for node in testbed.nodes
    ]
    return {
        "name": testbed.name,
        "system": testbed.system,
        "version": testbed.version,
        "url": testbed.url,
        "folder": str(testbed.folder),
        "nodes": nodes,
    }


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise SpecError(f"set: '{text}' has no value; write --set key=value")
    return name.strip(), value.strip()


def _password(file: Path | None, *, generate: bool) -> str | None:
    """The password that clients will need; a line's end in a file isn't part of it."""
    if file is None:
        return secrets.token_urlsafe(_PASSWORD_BYTES) if generate else None
    try:
        return file.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "it isn't UTF-8 text"
        raise SpecError(f"the password file {file} can't be read because {reason}") from problem
