"""`kvmark up` starts a system to measure or lists what is up; `kvmark down` stops it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import typer
from rich.text import Text

from kvmark.cli import options
from kvmark.cli import up_options as words
from kvmark.cli.output import print_answer, print_json
from kvmark.cli.system import named_system
from kvmark.cli.up_output import ended, list_testbeds, started, telling, testbed_document
from kvmark.errors import SpecError
from kvmark.spec.quantity import count, listed
from kvmark.testbed import cassandra, proxy, redis
from kvmark.testbed.control import take_down
from kvmark.testbed.state import Testbed, testbeds_root

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
_OF_CASSANDRA: Final = ("nodes", "version", "heap", "memory")
_OF_PROXIES: Final = ("kind", "to", "threads", "build")
# What servers understand and proxies don't.
_OF_SERVERS: Final = ("password", "password_file", "tls", "network", "settings")
_OF_OTHERS: Final = {
    "redis": (*_OF_CASSANDRA, *_OF_PROXIES),
    "cassandra": (*_OF_REDIS, *_OF_PROXIES),
    "proxy": (*_OF_REDIS, *_OF_CASSANDRA, *_OF_SERVERS),
}
_WRITTEN: Final = {"settings": "set"}


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
    network: words.Network = False,
    io_threads: words.IoThreads = None,
    maxclients: words.Maxclients = 10_000,
    settings: words.Settings = None,
    core: words.Core = None,
    server: words.Server = "redis-server",
    nodes: words.Nodes = 1,
    version: words.Version = "5.0",
    heap: words.Heap = None,
    memory: words.Memory = None,
    kind: words.Kind = None,
    to: words.To = None,
    threads: words.Threads = None,
    build: words.Build = None,
    json: options.Json = False,
) -> None:
    """Starts a system to measure, on this machine; without a system lists what is up."""
    if system is None:
        list_testbeds(json=json)
        return
    _check_words(context, system)
    secret = _password(password_file, generate=password)
    cores = tuple(listed(core, count)) if core else ()
    shared: dict[str, Any] = {
        "name": name,
        "port": port,
        "password": secret,
        "tls": tls,
        "network": network,
        "settings": tuple(_setting(each) for each in settings or ()),
        "cores": cores,
    }
    if system == "cassandra":
        testbed = _cassandra(shared, nodes, version, heap, memory)
    elif system == "proxy":
        testbed = _proxy(kind, to, name=name, port=port, threads=threads, build=build, cores=cores)
    else:
        testbed = redis.up(
            redis.Wanted(
                **shared,
                appendonly=appendonly == "yes",
                appendfsync=appendfsync,
                save=save,
                replicas=replicas,
                cluster=cluster,
                io_threads=io_threads,
                maxclients=maxclients,
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


def _cassandra(
    shared: Mapping[str, Any], nodes: int, version: str, heap: str | None, memory: str | None
) -> Testbed:
    """Starts Cassandra, with what is said of every server and of Cassandra alone."""
    wanted = cassandra.Wanted(
        **shared,
        nodes=nodes,
        version=version,
        heap_bytes=None if heap is None else cassandra.read_size("heap", heap),
        memory_bytes=None if memory is None else cassandra.read_size("memory", memory),
    )
    with telling() as tell:
        return cassandra.up(wanted, testbeds_root(), tell)


def _check_words(context: typer.Context, system: str) -> None:
    """Refuses options of another system: they would have no effect."""
    for name in _OF_OTHERS[system]:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise SpecError(
                f"--{_WRITTEN.get(name, name).replace('_', '-')} is no option of {system}: leave"
                " it out, or see"
                " `kvmark up --help`"
            )


def _proxy(kind: proxy.Kind | None, to: str | None, **more: Any) -> Testbed:
    """Starts a proxy before the system that is named."""
    if kind is None or to is None:
        kinds = "|".join(proxy.KINDS)
        raise SpecError(f"a proxy needs its kind and a system: write --kind {kinds} --to URL")
    system = named_system(to)
    known = system.options
    if "address" not in known:
        raise SpecError(f"to: {system} runs inside kvmark; a proxy needs a server before it")
    target = proxy.Target(
        driver=system.driver,
        address=known["address"],
        text=system.text,
        encrypted=known.get("tls") == "true",
        password=bool({"password_env", "password_file"} & known.keys()),
        cluster=known.get("cluster") == "true",
    )
    with telling() as tell:
        return proxy.up(proxy.Wanted(kind, target, **more), testbeds_root(), tell)


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
