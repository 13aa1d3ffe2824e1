"""Runs a command while a node of Cassandra is up, whose address is in KVMARK_TEST_CQL.

.venv/bin/python scripts/with_cassandra.py COMMAND [ARGUMENT…]

Where no node can be started the reason is printed, and the command doesn't run.
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


class NoNode(Exception):
    """No node can be started here; the text says why."""


@contextmanager
def node(environment: Mapping[str, str]) -> Iterator[str]:
    """The address of a node: the one that is there already, or one that is there for a while.

    Raises NoNode where none can be started.
    """
    if environment.get(ADDRESS):
        yield environment[ADDRESS]
        return
    with tempfile.TemporaryDirectory() as folder:
        there = {**environment, "KVMARK_TESTBEDS": folder}
        started = kvmark(UP, there)
        try:
            if started.returncode != 0:
                why = started.stderr.strip().splitlines() or ["kvmark up cassandra said nothing"]
                raise NoNode(why[-1])
            yield urlsplit(json.loads(started.stdout)["url"]).netloc
        finally:
            kvmark(("down", "--remove"), there)


def main(command: list[str]) -> int:
    """Runs the command and returns its exit code, or 1 without a node."""
    environment = dict(os.environ)
    try:
        with node(environment) as address:
            there = {**environment, ADDRESS: address}
            return subprocess.run(command, env=there, check=False).returncode
    except NoNode as problem:
        print(f"There is no node of Cassandra: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
