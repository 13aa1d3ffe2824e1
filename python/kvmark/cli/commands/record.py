"""`kvmark record`: a tap between clients and a server, whose traffic becomes a trace."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kvmark.cli import options
from kvmark.cli.commands.trace import HashKey, KeepKeys, KeepValues, hash_key_in
from kvmark.cli.output import print_json
from kvmark.errors import UsageError
from kvmark.interrupts import listening
from kvmark.spec.quantity import count, duration_ns, size_bytes
from kvmark.spec.url import SystemName, parse_system_url, system_name

if TYPE_CHECKING:
    from kvmark.trace import Keep, TapProgress, TapSettings

_HOST: Final = "127.0.0.1"
_PORT_MAX: Final = 65535
_THREADS: Final = 4
_LEAST_MEMORY: Final = 1 << 20
_SIZES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TAKEN: Final = {"address", "tls", "ca_file", "cert_file", "key_file", "server_name"}


def _size(text: str) -> int:
    return size_bytes(text, _SIZES, "64M or 10G")


Listen = Annotated[
    str, typer.Option(metavar="[HOST:]PORT", help="Where clients are taken; HOST is 127.0.0.1.")
]
To = Annotated[
    SystemName,
    typer.Option(
        parser=system_name, metavar="URL", help="The server, such as redis://HOST or memcached://."
    ),
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="X.trace", help="The trace.")]
Threads = Annotated[
    int | None, options.quantity(count, "N", "Threads that forward; 4 or one a core.")
]
Duration = Annotated[
    int | None, options.quantity(duration_ns, "TIME", "End after this time; else by Ctrl-C.")
]
Memory = Annotated[
    int, options.quantity(_size, "SIZE", "What waits for answers and the disk; 256M.")
]
Disk = Annotated[int, options.quantity(_size, "SIZE", "What is recorded at most; 10G.")]


def record(
    listen: Listen,
    to: To,
    output: Output,
    hash_key: HashKey = None,
    threads: Threads = None,
    duration: Duration = None,
    memory: Memory = 256 << 20,
    disk: Disk = 10 << 30,
    keep_keys: KeepKeys = False,
    keep_values: KeepValues = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Forwards what clients ask of a server, and records it as a trace, until Ctrl-C."""
    from kvmark.trace import Keep

    keep = Keep(keys=keep_keys, values=keep_values)
    system, settings = _settings(listen, to, threads, memory, disk, keep)
    key = hash_key_in(hash_key)
    # What makes the trace at the end leaves other cores alone.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from kvmark.trace import record as record_trace
    from kvmark.trace import sentences

    told: list[TapProgress] = []
    with listening() as asked:

        def goes_on(progress: TapProgress) -> bool:
            if not told and not quiet:
                kept = f"; {keep.words()} are kept as they are" if keep.words() else ""
                typer.echo(f"Clients are taken at {progress.listens} until Ctrl-C{kept}", err=True)
            if told and told[-1].recording and not progress.recording:
                typer.echo("Recording has ended, and forwarding goes on until Ctrl-C", err=True)
            told[:] = [progress]
            return not asked.take() and (duration is None or progress.elapsed_ns < duration)

        info = record_trace(settings, output, f"a tap before {system}", key, goes_on)
        asked.forget()
    if json:
        print_json("recorded-trace", {"trace": output, "info": info})
        return
    if quiet:
        return
    clients = "client" if info.clients == 1 else "clients"
    typer.echo(f"{output} has {info.operations:,} operations of {info.clients:,} {clients}")
    for sentence in sentences(info.told):
        typer.echo(sentence)


def _settings(
    listen: str, to: SystemName, threads: int | None, memory: int, disk: int, keep: Keep
) -> tuple[str, TapSettings]:
    """The name of the system, and what the tap is to do."""
    url = parse_system_url(to.reveal())
    if "username" in url.options or url.password is not None:
        raise UsageError("--to: clients log in by themselves; leave user and password out")
    other = sorted(url.options.keys() - _TAKEN)
    if other:
        raise UsageError(f"--to: a tap has no use for {other[0]}; leave it out")
    address = url.options.get("address", "")
    if "," in address:
        raise UsageError("--to: a tap is before one server; start one before each")
    if threads == 0:
        raise UsageError("--threads: a tap needs 1 at least")
    if memory < _LEAST_MEMORY:
        raise UsageError("--memory: a tap needs 1M at least")
    from kvmark.drivers import drivers
    from kvmark.trace import TapSettings

    cores = len(os.sched_getaffinity(0))
    host, port = _place(listen)
    return url.driver, TapSettings(
        host=host,
        port=port,
        protocol=url.driver,
        address=address,
        default_port=drivers()[url.driver].port or 0,
        tls=url.options.get("tls") == "true",
        ca_file=url.options.get("ca_file"),
        cert_file=url.options.get("cert_file"),
        key_file=url.options.get("key_file"),
        server_name=url.options.get("server_name"),
        threads=threads or min(_THREADS, cores),
        keep_keys=keep.keys,
        keep_values=keep.values,
        memory_bytes=memory,
        disk_bytes=disk,
    )


def _place(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > _PORT_MAX or (colon and not host):
        raise UsageError(f"--listen: {listen!r} is no port, and no HOST:PORT; write it like 7000")
    return host.removeprefix("[").removesuffix("]") or _HOST, int(port)
