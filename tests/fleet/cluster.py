"""A Ray cluster of three nodes on the loopback address, of which any can be killed."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from waiting import wait_until

TRIES = 3
# The smallest that Ray takes.
STORE_BYTES = 78_643_200


@dataclass
class Cluster:
    """Nodes as processes of this test, stopped by their numbers."""

    folder: Path
    token: str | None = field(default_factory=lambda: secrets.token_hex(20))
    nodes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    port: int = 0

    @property
    def address(self) -> str:
        return f"{_own_address(0)}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What every process of the cluster and every driver must have in its environment."""
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token} if self.token else {}
        return {
            **os.environ,
            **token,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": str(self.folder),
            # A busy machine takes its time to start three of everything.
            "RAY_worker_register_timeout_seconds": "120",
        }

    def kill(self, node: int) -> None:
        """Kills everything of a node at once, as a machine that loses its power."""
        _end(self.nodes[node])

    def start_node(self) -> None:
        """Starts the head, or another member; again if Ray gave up, as on a very busy machine."""
        number, folder = len(self.nodes), Path(sys.executable).parent
        role = ("--head", "--include-dashboard=false", "--no-monitor", f"--port={self.port}")
        command = [
            *(folder / "ray", "start", *(role if number == 0 else (f"--address={self.address}",))),
            f"--node-ip-address={_own_address(number)}",
            f"--object-store-memory={STORE_BYTES}",
            *("--num-cpus=1", "--disable-usage-stats", "--block"),
        ]
        path = self.folder / f"node-{number}.log"
        for _ in range(TRIES):
            with path.open("wb") as log:
                node = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
            if _is_up(node, path):
                self.nodes.append(node)
                return
            _end(node)
        raise AssertionError(f"node {number} doesn't start:\n{path.read_text()}")


@contextmanager
def running(nodes: int, **options: str | None) -> Iterator[Cluster]:
    """A cluster; the path of Ray's sockets must be shorter than pytest's folders are."""
    with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        made = Cluster(Path(folder), **options)
        with socket.socket() as free:
            free.bind((_own_address(0), 0))
            made.port = free.getsockname()[1]
        try:
            for _ in range(nodes):
                made.start_node()
            yield made
        finally:
            for node in reversed(made.nodes):
                _end(node)


def _is_up(node: subprocess.Popen[bytes], log: Path) -> bool:
    """Waits until a node says that it is up, or ends."""
    said = "Ray runtime started"
    wait_until(lambda: node.poll() is not None or said in log.read_text(), "a node starts or ends")
    return node.poll() is None


def _own_address(node: int) -> str:
    """Each node has a loopback address of its own; Ray would replace 127.0.0.1 by the machine's."""
    return f"127.0.0.{node + 2}"


def _end(node: subprocess.Popen[bytes]) -> None:
    """Kills a node's processes by their numbers."""
    with suppress(psutil.NoSuchProcess):
        whole = psutil.Process(node.pid)
        for process in [whole, *whole.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
    node.wait()
