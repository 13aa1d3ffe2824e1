"""Runs a command with a node of Cassandra, whose address is in KVMARK_TEST_CQL.

.venv/bin/python scripts/with_cassandra.py COMMAND [ARGUMENT…]

If no node can be started, the reason is printed and the command doesn't run.
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
ADDRESS = "KVMARK_TEST_CQL"


class NoNode(Exception):
    """No node can be started here; the text is the reason."""


@contextmanager
def node(environment: Mapping[str, str]) -> Iterator[str]:
    """The address of a node: that of the environment, or of one that is started for a while.

    Raises NoNode if none can be started.
    """
    if environment.get(ADDRESS):
        yield environment[ADDRESS]
        return
    with tempfile.TemporaryDirectory() as folder:
        variables = {**environment, "KVMARK_TESTBEDS": folder}
        started = subprocess.run(UP, env=variables, capture_output=True, text=True, check=False)
        try:
            if started.returncode != 0:
                errors = started.stderr.strip().splitlines() or ["kvmark up gave no reason"]
                raise NoNode(errors[-1])
            yield urlsplit(json.loads(started.stdout)["url"]).netloc
        finally:
            subprocess.run(DOWN, env=variables, capture_output=True, check=False)


def main(command: list[str]) -> int:
    """Runs the command and returns its exit code, or 1 without a node."""
    try:
        with node(os.environ) as address:
            variables = {**os.environ, ADDRESS: address}
            return subprocess.run(command, env=variables, check=False).returncode
    except NoNode as problem:
        print(f"There is no node of Cassandra: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
