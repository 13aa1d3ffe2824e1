"""One real node of Cassandra: failed starts, then observed, described, broken, and stopped."""

import json
import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from kvmark.cli import main
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.secret import Secret
from kvmark.testbed import cassandra, control
from kvmark.testbed.cassandra.server import connect
from kvmark.testbed.console import Console
from kvmark.testbed.observe import Observer
from kvmark.testbed.state import Node, Testbed, owner_of
from programs import can_bound_memory
from redis_testbeds import PATIENCE_S, Run

FIRST = "node-1"
GIB = 2**30
# Nothing is given up because the machine is busy.
SETTINGS = ("concurrent_reads=64", "commitlog_sync=batch", "read_request_timeout=5m",
            "range_request_timeout=5m", "write_request_timeout=5m")  # fmt: skip
LOCAL = "SELECT cluster_name FROM system.local"
ONE_COPY = "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
SECRET = "it's open #1"

Started = tuple[Path, subprocess.CompletedProcess[str]]
"""The folder of a testbed, and the `kvmark up` that made it."""


@pytest.fixture(scope="module")
def started(with_cassandra: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """One node with password, TLS and settings, which the last test stops."""
    place = tmp_path_factory.mktemp("cassandra")
    root, secret = place / "testbeds", place / "secret"
    secret.write_text(f"{SECRET}\n")
    words = ["--heap", "512M", "--password-file", str(secret), "--tls", "--json"]
    words += ["--memory", "1G"] * can_bound_memory()
    words += [word for setting in SETTINGS for word in ("--set", setting)]
    command = [Path(sys.executable).with_name("kvmark"), "up", "cassandra", *words]
    environment = {**os.environ, "KVMARK_TESTBEDS": str(root)}
    made = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    try:
        assert made.returncode == 0, made.stderr
        yield root / "cassandra", made
    finally:
        control.take_down(root)


@pytest.fixture
def node(started: Started) -> Testbed:
    """That node, with its current process."""
    return Testbed.read(started[0])


def test_a_refused_setting_is_reported(root: Path, with_cassandra: None, kvmark: Run) -> None:
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
    with socket.create_server(("127.0.0.2", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} of 127.0.0.2 is in use: give another"):
            cassandra.up(cassandra.CassandraOptions(nodes=2, heap_bytes=GIB // 2, port=port), root)
    assert not root.exists()


def test_up_prints_json_and_bounds_memory(started: Started, node: Testbed) -> None:
    _, made = started
    shown, (first,) = json.loads(made.stdout), node.nodes
    assert "Starting Cassandra 5.0.9, 1 node with a heap of 512 MiB" in made.stderr
    assert shown["url"] == node.url
    assert [each["address"] for each in shown["nodes"]] == [first.address]
    assert (first.group is not None) == can_bound_memory()
    if first.group is not None:
        assert has_joined(first)
        assert control.describe(node)["memory_bytes"] == GIB


def has_joined(node: Node) -> bool:
    """Whether a node's process is in its control group."""
    assert node.process is not None
    groups = Path(f"/proc/{node.process.pid}/cgroup").read_text()
    return node.group is not None and node.group.name in groups


def test_a_node_answers_and_is_found_by_its_address(node: Testbed) -> None:
    control.wait_until_healthy(node)
    (first,) = node.nodes
    assert node.version == "5.0.9"
    assert (first.role, first.host) == ("peer", "127.0.0.1")
    assert node.url == (
        f"cql://{first.address}?username=cassandra&password_file={node.folder}/password"
        f"&tls=true&ca_file={node.folder}/tls/ca.crt"
    )
    for address in (first.address, f"localhost,127.0.0.9:{first.port}/ycsb"):
        assert owner_of(address, node.folder.parent) == node


def test_values_of_all_types_are_read(node: Testbed) -> None:
    client = connect(node, node.nodes[0], PATIENCE_S)
    (local,) = client.ask("SELECT * FROM system.local")
    assert local["rpc_address"] == "127.0.0.1"
    assert local["tokens"] == ["-9223372036854775808"]
    assert local["bootstrapped"] == "COMPLETED"
    with pytest.raises(SystemUnderTestError, match="nowhere does not exist"):
        client.ask("SELECT * FROM nowhere.at_all")
    assert client.ask(f"CREATE KEYSPACE some {ONE_COPY}") == []
    client.ask(
        "CREATE TABLE some.kinds (i int PRIMARY KEY, big bigint, yes boolean, t text,"
        " l list<int>, m map<text, int>, u uuid, b blob, n inet, p tuple<int, text>)"
    )
    client.ask(
        "INSERT INTO some.kinds (i, big, yes, l, u, b, m, p) VALUES (-1, 5000000000, true,"
        " [1, 2], 00000000-0000-0000-0000-000000000001, 0x0102, {'a': 1}, (1, 'b'))"
    )
    (row,) = connect(node, node.nodes[0], PATIENCE_S, "quorum").ask("SELECT * FROM some.kinds")
    assert row == {
        "i": -1, "b": "0x0102", "m": "0x0000000100000001610000000400000001",
        "p": "0x00000004000000010000000162", "big": 5_000_000_000, "yes": True, "t": None,
        "l": [1, 2], "n": None, "u": "00000000-0000-0000-0000-000000000001",
    }  # fmt: skip


def test_password_and_tls_are_required(node: Testbed) -> None:
    plain = {"address": node.nodes[0].address}
    encrypted = {**plain, "tls": "true", "ca_file": node.facts["ca_file"]}

    def refusal(place: dict[str, str], password: str) -> str:
        try:
            Console("cql", {"username": "cassandra", **place}, Secret(password)).ask(LOCAL)
        except SystemUnderTestError as refused:
            return str(refused)
        return ""

    with pytest.raises(SystemUnderTestError, match="it wants a login"):
        Console("cql", encrypted).ask(LOCAL)
    # The hash of the first password is remembered for two seconds.
    is_refused = lambda: "uthentication" in refusal(encrypted, "cassandra")  # noqa: E731
    node.wait_until(is_refused, "refuse", 30)
    assert "connection" in refusal(plain, SECRET)


def test_the_password_is_in_a_private_file_only(node: Testbed) -> None:
    files = [path for path in node.folder.rglob("*") if path.is_file()]
    holders = [path for path in files if SECRET.encode() in path.read_bytes()]
    assert [path.name for path in holders] == ["password"]
    private = {"password", "cassandra.yaml", "server.key", "server.p12", "p12-password"}
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files}
    assert {name: modes[name] for name in private} == dict.fromkeys(private, 0o600)
    listed = (one.info["cmdline"] or [] for one in psutil.process_iter(["cmdline"]))
    assert not [arguments for arguments in listed if SECRET in " ".join(arguments)]


def test_a_manifest_gets_version_settings_and_a_fingerprint(node: Testbed) -> None:
    known = control.describe(node)
    assert known["version"] == "5.0.9"
    assert known["heap_bytes"] == 512 * 2**20
    assert known["java"].startswith("17")
    assert known["settings"]["concurrent_reads"] == "64"
    assert known["settings"]["commitlog_sync"] == "batch"
    assert re.fullmatch("[0-9a-f]{64}", known["fingerprint"])
    for secret in (SECRET, (node.folder / "tls" / "p12-password").read_text()):
        assert secret not in repr(known)


def counters(observer: Observer, node: Testbed, least_bytes: int = -1) -> dict[str, Any]:
    """A sample with the node's own counters, which come late from a busy one."""
    row: dict[str, Any] = {}

    def have_come() -> bool:
        row.update(observer.sample()[0])
        return row["gc_count"] is not None and row["network_received_bytes"] > least_bytes

    node.wait_until(have_come, "answer", PATIENCE_S)
    return row


def test_observing_shows_the_resource_usage_of_the_node(node: Testbed) -> None:
    client = connect(node, node.nodes[0], PATIENCE_S)
    with closing(Observer(node)) as observer:
        before = counters(observer, node)
        client.ask(f"SELECT key FROM system.local WHERE key = '{'x' * 60_000}'")
        after = counters(observer, node, before["network_received_bytes"] + 60_000)
    assert after["node"] == FIRST
    least = {"gc_count": 0, "gc_time_s": 0, "cpu_user_s": 1, "disk_written_bytes": 0,
             "resident_bytes": 100_000_000}  # fmt: skip
    assert all(after[name] > value for name, value in least.items())


def test_a_paused_node_is_observed_without_its_own_counters(node: Testbed) -> None:
    log = node.log_of(node.nodes[0])
    # Late answers of a busy node were errors before, too.
    errors = log.read_text().count("Broken pipe")
    with closing(Observer(node)) as observer:
        control.pause_node(node, FIRST)
        try:
            (paused,) = observer.sample()
            assert (paused["gc_count"], paused["network_sent_bytes"]) == (None, None)
            assert paused["resident_bytes"] > 0
            with pytest.raises(SystemUnderTestError, match=r"line \d+ of .*server\.log: "):
                control.wait_until_healthy(node, 0.1)
        finally:
            control.resume_node(node, FIRST)
        counters(observer, node)
    assert log.read_text().count("Broken pipe") == errors


def test_a_node_starts_again_with_its_rows_and_its_bound_after_a_kill_and_after_down(
    node: Testbed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVMARK_TESTBEDS", str(node.folder.parent))
    client = connect(node, node.nodes[0], PATIENCE_S)
    client.ask(f"CREATE KEYSPACE kept {ONE_COPY}")
    client.ask("CREATE TABLE kept.rows (k int PRIMARY KEY, v text)")
    client.ask("INSERT INTO kept.rows (k, v) VALUES (1, 'value')")

    def rows(now: Testbed) -> object:
        return connect(now, now.nodes[0], PATIENCE_S).ask("SELECT * FROM kept.rows")

    assert control.kill_node(node, FIRST)
    assert not control.kill_node(node, FIRST)
    with pytest.raises(SystemUnderTestError, match=r"cassandra/node-1 ended by itself; line \d+"):
        control.wait_until_healthy(node)
    changed = control.restart_node(node, FIRST)
    control.wait_until_healthy(changed)
    assert rows(changed) == [{"k": 1, "v": "value"}]
    assert main(["down", node.name]) == 0
    assert main(["up", "cassandra", "--heap", "1G"]) == 2
    assert "--heap says something else than testbed 'cassandra' was" in capsys.readouterr().err
    assert main(["up", "cassandra", "--heap", "512M", "--version", "5.0", "--tls"]) == 0
    assert capsys.readouterr().out.startswith(f"{node.url}\n")
    back = Testbed.read(node.folder)
    assert back.nodes[0].group is None or has_joined(back.nodes[0])
    assert rows(back) == [{"k": 1, "v": "value"}]


def test_down_prints_json_and_removes_the_bound_on_memory(
    node: Testbed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group, root = node.nodes[0].group, node.folder.parent
    monkeypatch.setenv("KVMARK_TESTBEDS", str(root))
    assert main(["down", node.name, "--remove", "--json"]) == 0
    (stopped,) = json.loads(capsys.readouterr().out)["stopped"]
    assert stopped["removed"]
    assert group is None or not group.exists()
    assert not list(root.iterdir())
