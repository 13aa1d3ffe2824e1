"""`kvmark up` starts a system to measure, or one again, or lists them; `kvmark down` stops them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kvmark.cli import options
from kvmark.cli import up_options as words
from kvmark.cli.output import print_answer, print_json
from kvmark.errors import SpecError
from kvmark.testbed.folders import testbeds_root

if TYPE_CHECKING:
    from kvmark.cli.up_output import How
    from kvmark.testbed.state import Testbed

__all__ = ["down", "up"]


def up(
    context: typer.Context,
    system: words.System = None,
    name: words.Name = None,
    new: words.New = False,
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
    quiet: options.Quiet = False,
) -> None:
    """Starts a system to measure, on this machine, or one again that is down; else lists all."""
    from rich.text import Text

    from kvmark.cli import up_words
    from kvmark.cli.up_output import list_testbeds, started, telling, testbed_document
    from kvmark.testbed.control import bring_back

    if system is None:
        list_testbeds(json=json)
        return
    root, typed = testbeds_root(), up_words.said(context)
    how: How = "up"
    kept = up_words.kept_testbed(root, system, context)
    up_words.check_words(kept.system if kept else system, typed)
    if kept is None:
        testbed = _made(system, context.params, root, quiet=quiet)
    else:
        up_words.check_same(kept, context.params, typed)
        how = "up already" if kept.lives else "up again"
        with telling(quiet=quiet) as tell:
            testbed = bring_back(kept, tell)
    if json:
        print_json(testbed_document(testbed))
    else:
        print_answer(Text("\n").join(started(testbed, how)))


def down(
    name: words.DownName = None, remove: words.Remove = False, json: options.Json = False
) -> None:
    """Stops what `kvmark up` started, and nothing else; its data stays unless it is removed."""
    from rich.text import Text

    from kvmark.cli.up_output import ended
    from kvmark.testbed.control import take_down

    stopped = take_down(testbeds_root(), name, remove=remove)
    if json:
        print_json(stopped)
    else:
        print_answer(Text("\n").join(ended(stopped, named=name is not None)))


def _made(system: str, params: Mapping[str, Any], root: Path, *, quiet: bool) -> Testbed:
    """A new testbed."""
    from kvmark.cli import up_words
    from kvmark.cli.up_output import telling
    from kvmark.testbed import cassandra, proxy, redis

    if system == "proxy" and (params["kind"] is None or params["to"] is None):
        kinds = "|".join(proxy.KINDS)
        raise SpecError(f"a proxy needs its kind and a system: write --kind {kinds} --to URL")
    wished = up_words.wishes(system, params)
    if system == "redis":
        return redis.up(redis.Wanted(**wished), root)
    with telling(quiet=quiet) as tell:
        if system == "cassandra":
            return cassandra.up(cassandra.Wanted(**wished), root, tell)
        return proxy.up(proxy.Wanted(**wished), root, tell)
