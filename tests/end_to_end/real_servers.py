"""Real servers for the tests of this folder."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
import target_folder
from command_line import Kvmark

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed import cassandra, memcached, postgres, redis
from kvmark.testbed.console import Console, connect
from kvmark.testbed.control import take_down
from kvmark.testbed.network import HOST, choose_ports
from kvmark.testbed.state import Testbed
from programs import needs
from waiting import wait_until

DYNALITE: Final = "dynalite@4.0.0"
PATIENT = tuple(
    (f"{operation}_request_timeout", "5m") for operation in ("read", "range", "write", "truncate")
)
"""Settings of Cassandra with which a busy machine causes no timeout."""


def redis_up(user: Kvmark, **options: Any) -> Testbed:
    """Starts Redis on free loopback ports; skips where the machine can't isolate a network."""
    needs("redis-server")
    try:
        return redis.up(redis.RedisOptions(**options), user.testbeds)
    except UsageError as error:
        if "network" in options:
            pytest.skip(str(error))
        raise


def memcached_up(user: Kvmark, **options: Any) -> Testbed:
    """Starts memcached on free loopback ports."""
    needs("memcached")
    return memcached.up(memcached.MemcachedOptions(memory_bytes=2**26, **options), user.testbeds)


def postgres_up(user: Kvmark, **options: Any) -> Testbed:
    """Starts PostgreSQL on a free loopback port."""
    needs("postgres")
    settings = (("shared_buffers", "16MB"), ("fsync", "off"))
    return postgres.up(postgres.PostgresOptions(settings=settings, **options), user.testbeds)


def dynalite() -> tuple[subprocess.Popen[bytes], str]:
    """Starts dynalite on a free loopback port; the tests in Rust use the same package."""
    needs("npm", "node")
    folder = target_folder.place() / "tmp" / DYNALITE
    package = folder / "node_modules" / "dynalite"
    if not package.exists():
        install = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix"]
        subprocess.run([*install, folder, DYNALITE], check=True)
    (port,) = choose_ports(None)
    script = f"require('{package}')({{ createTableMs: 5 }}).listen({port}, '{HOST}')"
    server = subprocess.Popen(["node", "-e", script], stdin=subprocess.DEVNULL)
    console = Console("dynamodb", {"address": f"{HOST}:{port}"})
    wait_until(lambda: answers(console, "ListTables"), "dynalite answers")
    return server, f"{HOST}:{port}"


def ferretdb(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Starts FerretDB, which keeps documents in SQLite, on a free loopback port."""
    needs("ferretdb")
    (port,) = choose_ports(None)
    server = subprocess.Popen(
        ["ferretdb", "--handler=sqlite", f"--sqlite-url=file:{folder}/", f"--state-dir={folder}",
         f"--listen-addr={HOST}:{port}", "--debug-addr=-", "--telemetry=disable",
         "--log-level=ERROR"],
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    console = Console("mongodb", {"address": f"{HOST}:{port}"})
    wait_until(lambda: answers(console, "ping"), "FerretDB answers")
    return server, f"{HOST}:{port}"


def answers(console: Console, command: str) -> bool:
    """Whether a server answers a command without arguments."""
    with suppress(SystemUnderTestError):
        console.ask(command, "{}")
        return True
    return False


def key_count(testbed: Testbed) -> int:
    """The keys of the first Redis server, as it is now."""
    now = Testbed.read(testbed.folder)
    return int(connect(now, now.nodes[0]).ask("DBSIZE"))


@contextmanager
def cassandra_up(root: Path, **options: Any) -> Iterator[Testbed]:
    """Nodes of Cassandra, down at the end."""
    needs("java", "mvn")
    try:
        yield cassandra.up(cassandra.CassandraOptions(**options), root, lambda _: None)
    finally:
        take_down(root)


def redis_cli(port: int, *words: str, text: str | None = None) -> str:
    """The output of redis-cli."""
    command = ["redis-cli", "-p", str(port), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, input=text).stdout


@contextmanager
def monitored(port: int, log: Path) -> Iterator[None]:
    """Writes the output of MONITOR to a file, up to the last command of the body."""
    with log.open("w") as file:
        monitor = subprocess.Popen(["redis-cli", "-p", str(port), "monitor"], stdout=file)
        try:
            wait_until(lambda: log.read_text().startswith("OK"), "MONITOR begins")
            yield
            redis_cli(port, "echo", "the end")
            wait_until(lambda: '"the end"' in log.read_text(), "MONITOR prints the last command")
        finally:
            monitor.terminate()
            monitor.wait()


def command_counts(port: int) -> dict[str, int]:
    """The calls of each command that a Redis server has counted."""
    lines = redis_cli(port, "info", "commandstats").splitlines()
    fields = [line.removeprefix("cmdstat_").split(":calls=") for line in lines if "calls=" in line]
    return {name: int(rest.partition(",")[0]) for name, rest in fields}
