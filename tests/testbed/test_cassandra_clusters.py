"""Nodes of Cassandra that can't start, and wrong use."""

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed import cassandra

HEAP_BYTES = 512 * 2**20
NEEDED_BYTES = 6 * 10**9
Run = Callable[..., tuple[int, str, str]]


def test_a_setting_that_cassandra_refuses_is_reported_and_nothing_is_left(
    root: Path, with_cassandra: None, kvmark: Run
) -> None:
    options = ["--heap", "512M", "--set", "read_request_timeout=5"]
    code, _, err = kvmark("up", "cassandra", *options)
    sentence = "kvmark: Cassandra refused a setting: read_request_timeout: Invalid dur"
    assert (code, err.splitlines()[-1].startswith(sentence)) == (2, True)
    assert not list(root.iterdir())


def test_a_node_that_ends_leaves_the_log_that_the_error_names(
    root: Path, with_cassandra: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A heap that the virtual machine can't lay out in its regions.
    monkeypatch.setattr(cassandra, "check_memory", lambda *_: None)
    with pytest.raises(SystemUnderTestError) as ended:
        cassandra.up(cassandra.CassandraOptions(heap_bytes=2**50), root)
    pattern = r"cassandra/node-1 ended by itself; line (\d+) of (.*): .+"
    found = re.fullmatch(pattern, str(ended.value))
    assert found is not None
    assert len(Path(found[2]).read_text().splitlines()) >= int(found[1])


def test_a_port_in_use_on_another_address_is_refused(root: Path, with_cassandra: None) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.2", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} of 127.0.0.2 is in use: give another"):
            cassandra.up(
                cassandra.CassandraOptions(nodes=2, heap_bytes=HEAP_BYTES, port=port), root
            )
    assert not root.exists()
