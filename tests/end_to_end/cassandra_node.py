"""A real node of Cassandra for the tests of a file."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvmark.testbed import cassandra
from kvmark.testbed.control import take_down
from kvmark.testbed.state import Testbed

PATIENT = tuple(
    (f"{what}_request_timeout", "5m") for what in ("read", "range", "write", "truncate")
)
"""Settings with which nothing is given up because the machine is busy."""


@contextmanager
def cassandra_up(root: Path, wanted: cassandra.CassandraOptions) -> Iterator[Testbed]:
    """The testbed while it is needed; a skip where it can't be made."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} isn't installed")
    try:
        yield cassandra.up(wanted, root, lambda _: None)
    finally:
        take_down(root)
