"""What is wanted of Cassandra becomes files, or is refused in a sentence. No server is needed."""

import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kvmark.errors import UsageError
from kvmark.secret import Secret
from kvmark.testbed.cassandra.artifacts import Artifacts, Java
from kvmark.testbed.cassandra.config import (
    Keystore,
    Place,
    Wanted,
    check,
    check_bound,
    check_memory,
    given,
    heap_of,
    jvm_text,
    settings_text,
    token,
)
from kvmark.testbed.launch import PortTakenError
from kvmark.testbed.state import Node

GIB = 2**30
HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


def place(index: int = 0, hosts: tuple[str, ...] = HOSTS) -> Place:
    folder = Path("/testbeds/cassandra") / f"node-{index + 1}"
    return Place(folder, "kvmark 1234", hosts, index, 9042, 7000, 9501)


def settings(index: int = 0, keystore: Keystore | None = None, **wishes: Any) -> dict[str, Any]:
    text = settings_text(Wanted(**wishes), place(index), keystore)
    found: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return found


def test_the_default_is_cassandras_own_commit_log() -> None:
    assert settings()["commitlog_sync"] == "periodic"
    assert settings()["commitlog_sync_period"] == "10000ms"


def test_a_commit_log_that_is_not_periodic_has_no_period() -> None:
    found = settings(settings=(("commitlog_sync", "batch"),))
    assert found["commitlog_sync"] == "batch"
    assert "commitlog_sync_period" not in found


def test_each_node_listens_on_its_own_address_and_has_an_equal_part_of_the_ring() -> None:
    assert [settings(index)["rpc_address"] for index in range(3)] == list(HOSTS)
    assert [settings(index)["initial_token"] for index in range(3)] == [
        "-9223372036854775808",
        "-3074457345618258603",
        "3074457345618258602",
    ]
    for nodes in (1, 2, 5, 64):
        ends = [token(index, nodes) for index in range(nodes)]
        parts = [
            (after - end) % 2**64 or 2**64
            for end, after in zip(ends, [*ends[1:], ends[0]], strict=True)
        ]
        assert sum(parts) == 2**64
        assert max(parts) - min(parts) <= 1


def test_every_node_is_a_seed_so_that_any_can_start_again() -> None:
    (provider,) = settings(1)["seed_provider"]
    assert provider["parameters"] == [{"seeds": "127.0.0.1:7000,127.0.0.2:7000,127.0.0.3:7000"}]


def test_settings_are_nested_by_dots_and_read_as_yaml() -> None:
    found = given(
        (
            ("concurrent_reads", "64"),
            ("auto_snapshot", "off"),
            ("memtable.configurations", "{trie: {class_name: TrieMemtable}}"),
            ("client_encryption_options.protocol", "TLS"),
            ("client_encryption_options.cipher_suites", "[A, B]"),
        )
    )
    assert found == {
        "concurrent_reads": 64,
        "auto_snapshot": False,
        "memtable": {"configurations": {"trie": {"class_name": "TrieMemtable"}}},
        "client_encryption_options": {"protocol": "TLS", "cipher_suites": ["A", "B"]},
    }


def test_given_settings_are_merged_into_those_of_the_testbed() -> None:
    keystore = Keystore(Path("/testbeds/cassandra/tls/server.p12"), "word")
    more = (("client_encryption_options.require_client_auth", "false"),)
    found = settings(keystore=keystore, settings=more)["client_encryption_options"]
    assert found["enabled"] is True
    assert found["require_client_auth"] is False
    accord = settings(version="6.0", settings=(("accord.queue_shard_count", "2"),))["accord"]
    assert accord["enabled"] is True
    assert accord["queue_shard_count"] == 2


def test_a_killed_node_of_cassandra_6_may_start_again() -> None:
    journal = settings(version="6.0")["accord"]["journal"]
    assert journal == {"stop_marker_failure_policy": "REBOOTSTRAP"}
    alone = YAML(typ="safe", pure=True).load(
        settings_text(Wanted(version="6.0"), place(hosts=HOSTS[:1]), None)
    )
    assert alone["accord"]["journal"] == {"stop_marker_failure_policy": "ALLOW_UNSAFE_STARTUP"}


def test_a_password_turns_logging_in_on_and_is_shown_nowhere() -> None:
    assert settings(password=Secret("sesame"))["authenticator"] == "PasswordAuthenticator"
    assert "authenticator" not in settings()
    assert "sesame" not in repr(settings(password=Secret("sesame")))
    assert "sesame" not in repr(Wanted(password=Secret("sesame")))


def test_the_virtual_machine_gets_the_heap_and_quoted_paths(tmp_path: Path) -> None:
    folder = tmp_path / 'a "b" c'
    (folder / "lib").mkdir(parents=True)
    for name in ("cassandra-all-5.0.9.jar", "jamm-0.4.0.jar"):
        (folder / "lib" / name).touch()
    lines = jvm_text(place(1), Artifacts(folder, "5.0.9"), 3 * 2**29).splitlines()
    assert {'"-Xms1536M"', '"-Xmx1536M"', "-XX:+UseG1GC"} <= set(lines)
    assert lines[-1] == "org.apache.cassandra.service.CassandraDaemon"
    assert r"a \"b\" c/lib/cassandra-all-5.0.9.jar:" in lines[-2]
    assert not any("ActiveProcessorCount" in line for line in lines)
    bound = jvm_text(place(1), Artifacts(folder, "5.0.9"), 3 * 2**29, 2).splitlines()
    assert '"-XX:ActiveProcessorCount=2"' in bound
    assert any("127.0.0.2:9501:/testbeds/cassandra/node-2/jmx-exporter.yaml" in x for x in lines)


@pytest.mark.parametrize(
    ("wishes", "sentence"),
    [
        ({"nodes": 0}, "nodes: must be from 1 to 64, not 0"),
        ({"version": "3.11"}, "version: '3.11' of Cassandra can't be started; give 5.0 or 6.0"),
        ({"settings": (("rpc_address", "::"),)}, "set: rpc_address is the testbed's own; a test"),
        ({"settings": (("authenticator", "x"),)}, "set: authenticator is the testbed's own; give"),
        (
            {"settings": (("client_encryption_options.enabled", "true"),)},
            "set: client_encryption_options.enabled is the testbed's own; give --tls",
        ),
        ({"settings": (("concurrent reads", "1"),)}, "'concurrent reads' is not the name of a"),
        ({"settings": (("a", "1\nb: 2"),)}, "the value of a must be one line"),
        ({"settings": (("a", "[1, 2"),)}, "set: the value of a is not YAML: "),
        ({"settings": (("a", "1"), ("a.b", "2"))}, "set: a.b is inside a, which was given a value"),
        ({"password": Secret("")}, "the password must have 1 to 72 bytes, not 0"),
        ({"password": Secret("a\nb")}, "the password must be one line"),
    ],
)
def test_a_wrong_wish_is_refused(wishes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        check(Wanted(**wishes))
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("total_gib", "nodes", "heap_mib"),
    [
        (24, 1, 6144),
        (24, 3, 2048),
        (16, 3, 1344),
        (8, 1, 2048),
        (8, 3, 1024),
        (4, 3, 640),
        (2, 3, 512),
    ],
)
def test_the_heap_follows_the_machine_and_the_number_of_nodes(
    total_gib: int, nodes: int, heap_mib: int
) -> None:
    assert heap_of(total_gib * GIB, nodes) == heap_mib * 2**20


def test_too_little_memory_is_refused_with_the_figures() -> None:
    check_memory(512 * 2**20, 3, 4 * GIB)
    with pytest.raises(UsageError, match=r"3 nodes .* 512 MiB .* need 2796 MiB .* 2048 MiB are"):
        check_memory(512 * 2**20, 3, 2 * GIB)
    with pytest.raises(UsageError, match="heap: 128 MiB are too little for Cassandra"):
        check_memory(128 * 2**20, 1, 24 * GIB)


def test_a_bound_in_which_a_node_has_no_room_is_refused() -> None:
    check_bound(GIB, 512 * 2**20)
    with pytest.raises(UsageError, match=r"512 MiB .* doesn't fit in 900 MiB: give at least 932M"):
        check_bound(900 * 2**20, 512 * 2**20)


@pytest.mark.parametrize(("taken", "starts"), [(0, 1), (2, 3), (9, 3)])
def test_other_ports_are_tried_when_a_program_takes_one_while_nodes_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int, starts: int
) -> None:
    module = sys.modules["kvmark.testbed.cassandra.up"]
    calls: list[set[int]] = []

    def started(*given: Any) -> str:
        ports = given[-2]
        calls.append({ports.clients, ports.storage, ports.exporter})
        if len(calls) <= taken:
            raise PortTakenError(Node(name="node-1", role="peer", host="h", port=1, command=()))
        return "up"

    monkeypatch.setattr(module, "find_java", lambda: Java("java", "17.0.1", 17))
    monkeypatch.setattr(module, "fetch", lambda *_: None)
    monkeypatch.setattr(module, "check_memory", lambda *_: None)
    monkeypatch.setattr(module, "_started", started)
    monkeypatch.setattr("kvmark.testbed.ports.is_free", lambda *_: True)
    if taken < starts:
        assert module.up(Wanted(), tmp_path) == "up"
    else:
        with pytest.raises(UsageError, match=r"a port of h \(1\) was taken"):
            module.up(Wanted(), tmp_path)
    assert len(calls) == starts
    # Two that start side by side would meet at the usual ports again and again.
    usual = {9042, 7000, 9501}
    assert calls[0] == usual
    assert not any(ports & usual for ports in calls[1:])
