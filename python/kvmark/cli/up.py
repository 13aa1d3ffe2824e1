"""`kvmark up` starts a system to measure or lists what is up; `kvmark down` stops it."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

import typer
from rich.text import Text

from kvmark.cli import options
from kvmark.cli import up_options as words
from kvmark.cli.output import print_answer, print_json
from kvmark.cli.up_output import ended, list_testbeds, started, telling, testbed_document
from kvmark.errors import SpecError
from kvmark.spec.quantity import count, listed
from kvmark.testbed import cassandra, redis
from kvmark.testbed.control import take_down
from kvmark.testbed.state import testbeds_root

__all__ = ["down", "up"]

_PASSWORD_BYTES: Final = 24

# The words that one system alone understands.
_OF_REDIS: Final = (
    "replicas",
    "cluster",
    "appendonly",
    "appendfsync",
    "save",
    "io_threads",
    "maxclients",
    "server",
)
_OF_CASSANDRA: Final = ("nodes", "version", "heap")


def up(
    context: typer.Context,
    system: words.System = None,
    name: words.Name = None,
    port: words.Port = None,
    replicas: words.Replicas = 0,
    cluster: words.Cluster = None,
    appendonly: words.Appendonly = "no",
    appendfsync: words.Appendfsync = "everysec",
    save: words.Save = "",
    password: words.Password = False,
    password_file: words.PasswordFile = None,
    tls: words.Tls = False,
    io_threads: words.IoThreads = None,
    maxclients: words.Maxclients = 10_000,
    settings: words.Settings = None,
    core: words.Core = None,
    server: words.Server = "redis-server",
    nodes: words.Nodes = 1,
    version: words.Version = "5.0",
    heap: words.Heap = None,
    json: options.Json = False,
) -> None:
    """Starts a system to measure, on this machine; without a system lists what is up."""
    if system is None:
        list_testbeds(json=json)
        return
    _check_words(context, system)
    secret = _password(password_file, generate=password)
    given = tuple(_setting(each) for each in settings or ())
    cores = tuple(listed(core, count)) if core else ()
    if system == "cassandra":
        wanted = cassandra.Wanted(
            name=name,
            nodes=nodes,
            version=version,
            heap_bytes=None if heap is None else cassandra.read_heap(heap),
            port=port,
            password=secret,
            tls=tls,
            settings=given,
            cores=cores,
        )
        with telling() as tell:
            testbed = cassandra.up(wanted, testbeds_root(), tell)
    else:
        testbed = redis.up(
            redis.Wanted(
                name=name,
                port=port,
                appendonly=appendonly == "yes",
                appendfsync=appendfsync,
                save=save,
                password=secret,
                tls=tls,
                replicas=replicas,
                cluster=cluster,
                io_threads=io_threads,
                maxclients=maxclients,
                settings=given,
                cores=cores,
                server=server,
            ),
            testbeds_root(),
        )
    if json:
        print_json(testbed_document(testbed))
    else:
        print_answer(Text("\n").join(started(testbed)))


def down(
    name: words.DownName = None, remove: words.Remove = False, json: options.Json = False
) -> None:
    """Stops what `kvmark up` started, and nothing else."""
    stopped = take_down(testbeds_root(), name, remove=remove)
    if json:
        print_json(stopped)
    else:
        print_answer(Text("\n").join(ended(stopped, named=name is not None)))


def _check_words(context: typer.Context, system: str) -> None:
    """Refuses options of another system: they would have no effect."""
    others = {"redis": _OF_CASSANDRA, "cassandra": _OF_REDIS}[system]
    for name in others:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise SpecError(
                f"--{name.replace('_', '-')} is no option of {system}: leave it out, or see"
                " `kvmark up --help`"
            )


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
