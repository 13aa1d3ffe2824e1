"""Measures what the README shows, stores the runs, and makes all documents of what is stored.

The quickstart's sequence on RocksDB, and a Redis that is killed for a while.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / ".venv/bin/kvmark"
RECORDS = "docs/records"
BEGUN = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
SERVER = "readme-failover"
LOAD = ("--rate", "5000", "--clients", "64", "--duration", "20s", "--interval", "250ms")


def main() -> int:
    """Measures, stores, then writes the documents."""
    commit = ("--commit", head())
    code = kvmark("ycsb", "--report", "none", "--tag", tag("ycsb"), *commit)
    code = code or failover(commit)
    for name, stored in (("ycsb", "ycsb-rocksdb"), ("failover", "failover")):
        place = f"{RECORDS}/{stored}.tar.xz"
        code = code or kvmark("runs", "archive", f"tag:{tag(name)}", "--output", place)
    return code or kvmark("doc")


def head() -> str:
    """The commit of this clone."""
    words = ["git", "rev-parse", "HEAD"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout[:-1]


def tag(name: str) -> str:
    """The tag of what is measured now, and of nothing that was measured before at this commit."""
    return f"readme-{name}-{BEGUN}"


def failover(commit: tuple[str, str]) -> int:
    """Kills a Redis of its own for two seconds under a fixed rate."""
    up = kvmark("up", "redis", "--name", SERVER, "--appendonly", "yes")
    if up:
        return up
    try:
        fault = ("--fault", "8s kill primary-1 for 2s", "--verify")
        words = ("--system", f"up:{SERVER}", "--tag", tag("failover"), *commit)
        code = kvmark("run", "redis/set", *LOAD, *fault, *words)
    finally:
        kvmark("down", SERVER, "--remove")
    # A killed server makes operations fail, so that the verdict may well be a no.
    return 0 if code == 1 else code


def kvmark(*words: str) -> int:
    """The exit code of a command of this clone."""
    return subprocess.run([str(PROGRAM), *words], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
