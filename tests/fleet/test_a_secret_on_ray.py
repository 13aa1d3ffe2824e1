"""A password that travels through Ray to the machines is in none of its logs."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from kvmark.secret import Secret
from kvmark.testbed import redis
from kvmark.testbed.control import take_down

pytest.importorskip("ray", reason="Ray isn't installed: pip install 'kvmark[fleet]'")

from cluster import Cluster

CANARY = "C4n4ryS1ngs"
PATIENCE_S = 300.0


@contextmanager
def one_node(**given: str | None) -> Iterator[Cluster]:
    """One node; the path of Ray's sockets must be shorter than pytest's folders are."""
    with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        made = Cluster(Path(folder), **given)
        try:
            made.start(1)
            yield made
        finally:
            made.stop()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster that asks for a token."""
    with one_node() as made:
        yield made


@pytest.fixture
def open_cluster() -> Iterator[Cluster]:
    """A cluster that anybody can join."""
    with one_node(token=None) as made:
        yield made


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A server that asks for the secret."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server isn't installed: apt-get install redis-server")
    root = tmp_path / "testbeds"
    yield redis.up(redis.RedisOptions(password=Secret(CANARY)), root).nodes[0].address
    take_down(root)


def goes_on(process: subprocess.Popen[str], folder: Path) -> bool:
    """Waits for the first interval of a run."""
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        if any(log.stat().st_size for log in folder.glob("runs/*/intervals.jsonl")):
            return True
        time.sleep(0.05)
    return False


def holders(*folders: Path) -> list[Path]:
    """Files that have the secret in them; Ray's store of objects is its memory, not a file."""
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return [path for path in files if CANARY.encode() in path.read_bytes()]


def test_a_password_reaches_the_machines_and_nobody_else(
    cluster: Cluster, address: str, tmp_path: Path
) -> None:
    place = tmp_path / "user"
    place.mkdir()
    words = ("run", "ycsb/c", "--system", f"redis://default:{CANARY}@{address}", "--fleet",
             cluster.address, "--duration", "1h", "--records", "50", "--clients", "2")  # fmt: skip
    process = subprocess.Popen(
        [Path(sys.executable).with_name("kvmark"), *words],
        cwd=place,
        env={**cluster.environment, "KVMARK_RUNS": str(place / "runs")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert goes_on(process, place), process.communicate()
        found = psutil.process_iter(["cmdline"])
        assert not [one for one in found if CANARY in " ".join(one.info["cmdline"] or [])]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130, err
    assert CANARY not in out + err
    assert list(cluster.folder.rglob("*.log"))
    assert holders(place, cluster.folder) == []


def test_a_cluster_that_asks_for_no_token_is_refused(open_cluster: Cluster, tmp_path: Path) -> None:
    tokens = ({}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 40})
    words = ("run", "ycsb/c", "--system", "null:", "--records", "50", "--operations", "100",
             "--fleet", open_cluster.address)  # fmt: skip

    def run(more: dict[str, str], *others: str) -> subprocess.CompletedProcess[str]:
        kvmark = Path(sys.executable).with_name("kvmark")
        own = {**open_cluster.environment, **more, "KVMARK_RUNS": str(tmp_path / "runs")}
        return subprocess.run(
            [kvmark, *words, *others],
            check=False, cwd=tmp_path, env=own, capture_output=True, text=True,
        )  # fmt: skip

    for more in tokens:
        refused = run(more)
        assert refused.returncode == 2, refused.stderr
        assert "asks for no token" in refused.stderr
        assert "--insecure-fleet" in refused.stderr
    assert run({}, "--insecure-fleet").returncode == 0
