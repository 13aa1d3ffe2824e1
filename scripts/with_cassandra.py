"""Runs a command while a node of Cassandra is up, whose address is in KVMARK_TEST_CQL.

python3 scripts/with_cassandra.py python3 scripts/cargo.py test --release --workspace

Where no node can be started the reason is printed, and the command runs without one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

KVMARK = Path(sys.executable).with_name("kvmark")
# Nothing is given up because the machine is busy.
PATIENT = ("read", "range", "write", "truncate")
SETTINGS = tuple(word for what in PATIENT for word in ("--set", f"{what}_request_timeout=5m"))
UP = ("up", "cassandra", "--heap", "512M", "--json", *SETTINGS)
ADDRESS = "KVMARK_TEST_CQL"


def kvmark(
    words: Sequence[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Carries out a command of this clone's kvmark."""
    return subprocess.run(
        [str(KVMARK), *words], env=environment, capture_output=True, text=True, check=False
    )


@contextmanager
def node(environment: Mapping[str, str]) -> Iterator[str | None]:
    """The address of a node that is there for a while; None where none can be started."""
    with tempfile.TemporaryDirectory() as folder:
        there = {**environment, "KVMARK_TESTBEDS": folder}
        started = kvmark(UP, there)
        try:
            if started.returncode != 0:
                why = started.stderr.strip().splitlines() or ["it said nothing"]
                print(f"Without a node of Cassandra: {why[-1]}", file=sys.stderr, flush=True)
                yield None
                return
            yield urlsplit(json.loads(started.stdout)["url"]).netloc
        finally:
            kvmark(("down", "--remove"), there)


def main(command: list[str]) -> int:
    """Runs the command and returns its exit code."""
    environment = dict(os.environ)
    if ADDRESS in environment:
        return subprocess.run(command, check=False).returncode
    with node(environment) as address:
        more = {} if address is None else {ADDRESS: address}
        return subprocess.run(command, env={**environment, **more}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
