"""A password that travels through Ray to the machines is in none of its logs."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kvmark.secret import Secret
from redis_testbeds import Up, root, up, with_redis
from waiting import PATIENCE_S, wait_until

__all__ = ["root", "up", "with_redis"]

pytest.importorskip("ray", reason="Ray isn't installed: pip install 'kvmark[fleet]'")

from cluster import Cluster, running

CANARY = "C4n4ryS1ngs"
INTERVALS = "runs/*/intervals.jsonl"


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One node, which asks for a token unless the parameter is None."""
    with running(1, **getattr(request, "param", {})) as made:
        yield made


def has_lines(log: Path) -> bool:
    return log.stat().st_size > 0


def holders(*folders: Path) -> list[Path]:
    """Files that have the secret in them; Ray's store of objects is its memory, not a file."""
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return [path for path in files if CANARY.encode() in path.read_bytes()]


def test_a_password_reaches_the_machines_and_nobody_else(
    cluster: Cluster, up: Up, tmp_path: Path
) -> None:
    place, address = tmp_path / "user", up(password=Secret(CANARY)).nodes[0].address
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
        wait_until(
            lambda: process.poll() is not None or any(map(has_lines, place.glob(INTERVALS))),
            "the run has an interval",
        )
        assert process.poll() is None, process.communicate()
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


@pytest.mark.parametrize("cluster", [{"token": None}], indirect=True)
def test_a_cluster_that_asks_for_no_token_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    tokens = ({}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 40})
    words = ("run", "ycsb/c", "--system", "null:", "--records", "50", "--operations", "100",
             "--fleet", cluster.address)  # fmt: skip

    def run(more: dict[str, str], *others: str) -> subprocess.CompletedProcess[str]:
        kvmark = Path(sys.executable).with_name("kvmark")
        own = {**cluster.environment, **more, "KVMARK_RUNS": str(tmp_path / "runs")}
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
