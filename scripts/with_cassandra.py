"""Runs a command with a node of Cassandra.

.venv/bin/python scripts/with_cassandra.py COMMAND [ARGUMENT…]

KVMARK_TEST_CQL has the node's address, and KVMARK_TEST_NODE the folder of its testbed. If no node
can be started, the reason is printed and the command doesn't run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

KVMARK = str(Path(sys.executable).with_name("kvmark"))
# On a busy machine no request may time out.
REQUESTS = ("read", "range", "write", "truncate")
SETTINGS = [word for name in REQUESTS for word in ("--set", f"{name}_request_timeout=5m")]
UP = [KVMARK, "up", "cassandra", "--heap", "512M", "--json", *SETTINGS]
DOWN = [KVMARK, "down", "--remove"]
ADDRESS, FOLDER = "KVMARK_TEST_CQL", "KVMARK_TEST_NODE"


class NoNode(Exception):
    """No node can be started here; the text is the reason."""


@contextmanager
def node(environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The variables of a node: those of the environment, or of one that is started for a while.

    Raises NoNode if none can be started.
    """
    if environment.get(ADDRESS):
        yield {name: environment[name] for name in (ADDRESS, FOLDER) if name in environment}
        return
    with tempfile.TemporaryDirectory() as folder:
        variables = {**environment, "KVMARK_TESTBEDS": folder}
        started = subprocess.run(UP, env=variables, capture_output=True, text=True, check=False)
        try:
            if started.returncode != 0:
                errors = started.stderr.strip().splitlines() or ["kvmark up gave no reason"]
                raise NoNode(errors[-1])
            address = urlsplit(json.loads(started.stdout)["url"]).netloc
            yield {ADDRESS: address, FOLDER: str(Path(folder) / "cassandra")}
        finally:
            subprocess.run(DOWN, env=variables, capture_output=True, check=False)


def main(command: list[str]) -> int:
    """Runs the command and returns its exit code, or 1 without a node."""
    try:
        with node(os.environ) as variables:
            both = {**os.environ, **variables}
            return subprocess.run(command, env=both, check=False).returncode
    except NoNode as problem:
        print(f"There is no node of Cassandra: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
