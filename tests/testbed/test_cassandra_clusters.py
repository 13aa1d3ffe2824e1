"""Nodes that can't start, and wrong use: what one shared node can't show."""

import re
import socket
import sys
from pathlib import Path

import pytest

from kvmark.cli import main
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed import cassandra

HEAP_BYTES = 512 * 2**20
NEEDED_BYTES = 6 * 10**9
Output = pytest.CaptureFixture[str]


def test_a_setting_that_cassandra_refuses_is_told_and_nothing_is_left(
    root: Path, with_cassandra: None, capsys: Output
) -> None:
    command = ["up", "cassandra", "--heap", "512M", "--set", "read_request_timeout=5"]
    assert main(command) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("kvmark: Cassandra refused a setting: read_request_timeout: Invalid dur")
    assert not list(root.iterdir())


def test_a_node_that_ends_leaves_the_log_that_the_error_names(
    root: Path, with_cassandra: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A heap that the virtual machine can't lay out in its regions.
    module = sys.modules["kvmark.testbed.cassandra.up"]
    monkeypatch.setattr(module, "check_memory", lambda *_: None)
    with pytest.raises(SystemUnderTestError) as ended:
        cassandra.up(cassandra.Wanted(heap_bytes=2**50), root)
    found = re.fullmatch(
        r"cassandra/node-1 ended by itself; line (\d+) of (.*) says: .+", str(ended.value)
    )
    assert found is not None
    assert len(Path(found[2]).read_text().splitlines()) >= int(found[1])


def test_one_more_port_that_is_in_use_is_refused(root: Path, with_cassandra: None) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.2", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} of 127.0.0.2 is in use: give another"):
            cassandra.up(cassandra.Wanted(nodes=2, heap_bytes=HEAP_BYTES, port=port), root)
    assert not root.exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["cassandra", "--cluster", "3"], "kvmark: --cluster is no option of cassandra: leave"),
        (["redis", "--nodes", "3"], "kvmark: --nodes is no option of redis: leave it out"),
        (["cassandra", "--heap", "much"], "kvmark: heap: 'much' is not a size; write it like"),
        (["cassandra", "--memory", "much"], "kvmark: memory: 'much' is not a size; write it"),
        (
            ["cassandra", "--heap", "512M", "--memory", "600M"],
            "kvmark: memory: a node with a heap of 512 MiB and 420 MiB beside it doesn't fit",
        ),
        (["redis", "--memory", "1G"], "kvmark: --memory is no option of redis: leave it out"),
        (["cassandra", "--version", "2.1"], "kvmark: version: '2.1' of Cassandra can't be"),
        (["cassandra", "--heap", "900000G"], "kvmark: 1 node with a heap of"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(
    root: Path, with_cassandra: None, words: list[str], sentence: str, capsys: Output
) -> None:
    assert main(["up", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith(sentence)
    assert said.count("\n") == 1
