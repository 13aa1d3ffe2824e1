"""The options of `kvmark up` and `kvmark down`; one that belongs to one system says to which."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from kvmark.cli import complete
from kvmark.spec.url import SystemName, system_name

# What a user types after `kvmark up`.

System = Annotated[
    str | None,
    typer.Argument(
        metavar="SYSTEM|NAME",
        help="redis, cassandra or proxy, or the name of a testbed that is down; without it all"
        " testbeds are listed.",
        show_default=False,
    ),
]
Name = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The testbed's name; else the system's, or a proxy's kind."),
]
New = Annotated[bool, typer.Option("--new", help="Another testbed beside the one that is there.")]
Port = Annotated[
    int | None,
    typer.Option(
        metavar="PORT",
        help="Redis: of the first server; else free ones. Cassandra: of all nodes; else 9042 or a"
        " free one. Proxy: its own; else a free one.",
    ),
]
Replicas = Annotated[int, typer.Option(metavar="N", min=0, help="Redis: replicas of each primary.")]
Cluster = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Redis: a cluster with so many primaries.")
]
Appendonly = Annotated[
    Literal["yes", "no"], typer.Option(help="Redis: whether writes go to a log.")
]
Appendfsync = Annotated[
    Literal["always", "everysec", "no"], typer.Option(help="Redis: when that log goes to the disk.")
]
Save = Annotated[
    str, typer.Option(metavar="TEXT", help="Redis: snapshots, such as '3600 1'; else none.")
]
Password = Annotated[
    bool, typer.Option("--password", help="Ask clients for a password, which is made up.")
]
PasswordFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Ask clients for the password in this file.")
]
Tls = Annotated[bool, typer.Option("--tls", help="Encrypt, with certificates that are made.")]
Network = Annotated[
    bool,
    typer.Option(
        "--network", help="Give each server an address and a link that faults disturb; as root."
    ),
]
IoThreads = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Redis: the setting io-threads.")
]
Maxclients = Annotated[
    int, typer.Option(metavar="N", min=1, help="Redis: connections for clients.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any setting of redis.conf or cassandra.yaml, nested ones with dots; repeatable.",
    ),
]
Core = Annotated[
    str | None, typer.Option(metavar="CORES", help="Bind the servers to these, such as 1 or 0,1.")
]
Server = Annotated[str, typer.Option(metavar="PROGRAM", help="Redis: the server's program.")]
Nodes = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="Cassandra: nodes, at 127.0.0.1, 127.0.0.2 and so on."),
]
Version = Annotated[
    str, typer.Option(metavar="VERSION", help="Cassandra: 5.0, 6.0, or an exact version.")
]
Heap = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help="Cassandra: of each node, such as 512M; else as the machine has it."
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Cassandra: most of each node, its files in the page cache too, such as 1G; as root.",
    ),
]

Kind = Annotated[
    Literal["haproxy", "shotover", "cql-proxy"] | None,
    typer.Option(help="Proxy: which one. Shotover and cql-proxy are built once."),
]
To = Annotated[
    SystemName | None,
    typer.Option(
        parser=system_name,
        metavar="URL",
        autocompletion=complete.system,
        help="Proxy: the system to stand before, a URL or up:NAME.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(metavar="N", help="Proxy: its threads; else as many as there are cores."),
]
Build = Annotated[
    Literal["debug", "release"] | None,
    typer.Option(help="Proxy: how Shotover is compiled; else release."),
]

# And after `kvmark down`.

DownName = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME", autocompletion=complete.testbed, help="A testbed; all when not said."
    ),
]
Remove = Annotated[bool, typer.Option("--remove", help="Remove the folder with logs and data too.")]
