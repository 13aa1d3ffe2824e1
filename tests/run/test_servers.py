"""The servers of a run, and existing records of servers."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kvmark import catalog
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.plan.compile import compile_run
from kvmark.plan.model import Plan
from kvmark.plan.names import KeyNames
from kvmark.run.existing import DatasetClaim, check_existing, make_room
from kvmark.run.faults import find_servers
from kvmark.secret import Secret
from kvmark.spec.faults import parse_fault
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url
from kvmark.testbed.console import connect
from kvmark.testbed.redis.data import MARK
from kvmark.testbed.state import Testbed

Up = Callable[..., Testbed]


OWN = DatasetClaim("c1a1", lambda: KeyNames((), re.compile("user[0-9]+")))


def plan_of(url: str) -> Plan:
    return compile_run(RunSpec(workload=catalog.load("ycsb/a"), system=parse_system_url(url)))


def fill(testbed: Testbed, database: int = 0) -> None:
    client = connect(testbed, testbed.nodes[0])
    client.ask("SELECT", database)
    client.ask("MSET", "a", 1, "b", 2)


def keys(testbed: Testbed, database: int = 0) -> object:
    client = connect(testbed, testbed.nodes[0])
    client.ask("SELECT", database)
    return client.ask("DBSIZE")


def test_the_testbed_behind_an_address_is_described(up: Up) -> None:
    testbed = up(password=Secret("hush"), settings=(("maxmemory", "64mb"),))
    servers = find_servers(plan_of(testbed.url))
    assert servers.testbed is not None
    description = servers.description or {}
    assert description["observed"] is True
    assert description["version"] == testbed.version
    assert description["settings"]["maxmemory"] == str(64 * 2**20)
    assert [node["name"] for node in description["nodes"]] == ["primary-1"]
    assert "hush" not in json.dumps(description)


def test_a_server_elsewhere_is_not_observed(up: Up) -> None:
    up()
    servers = find_servers(plan_of("redis://127.0.0.1:1"))
    assert servers.testbed is None
    assert servers.description == {
        "observed": False,
        "reason": "no testbed in use here has a server at 127.0.0.1:1",
    }


def test_damage_of_another_testbed_is_ignored(up: Up) -> None:
    testbed = up()
    (testbed.folder / "testbed.json").chmod(0o600)
    (testbed.folder / "testbed.json").write_text("{}")
    try:
        assert (find_servers(plan_of("redis://127.0.0.1:1")).description or {})["observed"] is False
    finally:
        testbed.write()


def test_an_embedded_system_has_no_server() -> None:
    assert find_servers(plan_of("null:")).description is None


def test_faults_without_a_testbed_are_refused() -> None:
    with pytest.raises(UsageError, match="only servers that kvmark started can be broken"):
        find_servers(plan_of("redis://127.0.0.1:1")).check_faults([parse_fault("1s kill n1")])


def test_faults_of_a_missing_server_are_refused(up: Up) -> None:
    servers = find_servers(plan_of(up().url))
    servers.check_faults([parse_fault("1s kill primary-1")])
    with pytest.raises(UsageError) as refusal:
        servers.check_faults([parse_fault("1s kill primary-2")])
    assert str(refusal.value) == (
        "fault '1s kill primary-2': testbed redis has no node 'primary-2'; it has primary-1"
    )


def test_existing_records_are_refused_kept_or_removed(up: Up) -> None:
    testbed = up()
    fill(testbed)
    system = parse_system_url(testbed.url)
    sentence = r"redis://127.* already holds 2 keys without the mark"
    with pytest.raises(UsageError, match=sentence):
        check_existing(system, "refuse")
    with pytest.raises(UsageError, match=sentence):
        make_room(system, "refuse", OWN)
    make_room(system, "keep", OWN)
    assert keys(testbed) == 2
    make_room(system, "remove", OWN)
    assert keys(testbed) == 0


def test_a_database_that_was_empty_is_emptied_again_and_no_other(up: Up) -> None:
    testbed = up()
    fill(testbed)
    system = parse_system_url(f"{testbed.url}/3")
    make_room(system, "refuse", OWN)
    client = connect(testbed, testbed.nodes[0])
    client.ask("SELECT", 3)
    client.ask("MSET", "user1", 1, "user2", 2)
    make_room(system, "refuse", OWN)
    # The mark alone.
    assert (keys(testbed), keys(testbed, 3)) == (2, 1)
    assert client.ask("KEYS", "*") == [MARK]


@pytest.mark.parametrize(
    ("key", "claim", "sentence"),
    [
        ("mine", "c1a1", "and among them the key 'mine', which this command doesn't write"),
        ("user2", "0f0f", "already holds 2 keys that another kvmark command loaded"),
    ],
)
def test_foreign_keys_and_records_of_another_command_are_refused(
    up: Up, key: str, claim: str, sentence: str
) -> None:
    testbed = up()
    system = parse_system_url(testbed.url)
    make_room(system, "refuse", OWN)
    connect(testbed, testbed.nodes[0]).ask("MSET", "user1", 1, key, 2)
    with pytest.raises(UsageError, match=sentence):
        make_room(system, "refuse", DatasetClaim(claim, OWN.names))
    assert keys(testbed) == 3


def test_the_keys_of_all_primaries_of_a_cluster_count(up: Up) -> None:
    testbed = up(cluster=3)
    system = parse_system_url(testbed.url)
    for node, key in zip(testbed.nodes, ("b", "c", "a"), strict=True):
        assert connect(testbed, node).ask("SET", key, 1) == "OK"
    with pytest.raises(UsageError, match="already holds 3 keys"):
        make_room(system, "refuse", OWN)
    make_room(system, "remove", OWN)
    make_room(system, "refuse", OWN)
    for node, key in zip(testbed.nodes, ("user4", "user1", "user2"), strict=True):
        assert connect(testbed, node).ask("SET", key, 1) == "OK"
    make_room(system, "refuse", OWN)
    check_existing(system, "refuse")


@pytest.mark.parametrize("tls", [False, True])
def test_a_password_and_certificates_are_used(up: Up, *, tls: bool) -> None:
    testbed = up(password=Secret("hush"), tls=tls)
    fill(testbed)
    with pytest.raises(UsageError, match="already holds 2 keys"):
        check_existing(parse_system_url(testbed.url), "refuse")


def test_a_password_of_the_url_or_a_variable_is_used(
    up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    testbed = up(password=Secret("hush"))
    address = testbed.nodes[0].address
    monkeypatch.setenv("MY_WORD", "hush")
    for url in (
        f"redis://:hush@{address}",
        f"redis://default:hush@{address}",
        f"redis://{address}?password_env=MY_WORD",
    ):
        check_existing(parse_system_url(url), "refuse")
    with pytest.raises(UsageError, match="NOT_SET, which isn't set"):
        check_existing(parse_system_url(f"redis://{address}?password_env=NOT_SET"), "refuse")
    with pytest.raises(SystemUnderTestError, match="WRONGPASS") as refusal:
        check_existing(parse_system_url(f"redis://:wrong@{address}"), "refuse")
    assert "wrong@" not in str(refusal.value)


def test_a_user_without_permissions_gets_the_option_that_needs_none(up: Up) -> None:
    testbed = up()
    few = ("on", ">door", "~*", "+@all", "-@dangerous")
    assert connect(testbed, testbed.nodes[0]).ask("ACL", "SETUSER", "bob", *few) == "OK"
    system = parse_system_url(f"redis://bob:door@{testbed.nodes[0].address}")
    with pytest.raises(SystemUnderTestError, match=r"can't be emptied \(--on-existing k.*NOPERM"):
        make_room(system, "remove", OWN)
    few = ("resetkeys", "~user*")
    assert connect(testbed, testbed.nodes[0]).ask("ACL", "SETUSER", "bob", *few) == "OK"
    with pytest.raises(SystemUnderTestError, match=r"can't be marked .*--on-existing k.*NOPERM"):
        make_room(system, "refuse", OWN)


def test_a_missing_server_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SystemUnderTestError, match=r"127\.0\.0\.1:1 doesn't report its contents"):
        check_existing(parse_system_url("redis://127.0.0.1:1"), "refuse")
