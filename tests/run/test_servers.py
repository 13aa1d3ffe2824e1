"""The servers of a run, and existing records of servers."""

import re
from contextlib import nullcontext
from typing import Any

import pytest

from kvmark.errors import KvmarkError, SystemUnderTestError, UsageError
from kvmark.plan.names import KeyNames
from kvmark.run.existing import DatasetClaim, check_existing, make_room
from kvmark.run.faults import find_servers
from kvmark.secret import Secret
from kvmark.spec.url import parse_system_url
from kvmark.testbed.console import connect
from kvmark.testbed.redis.data import MARK
from kvmark.testbed.state import Testbed
from plans import plan_of
from redis_testbeds import Up

OWN = DatasetClaim("c1a1", lambda: KeyNames((), re.compile("user[0-9]+")))
NOWHERE = "redis://127.0.0.1:1"


def ask(testbed: Testbed, *command: str | int, database: int = 0) -> Any:
    client = connect(testbed, testbed.nodes[0])
    client.ask("SELECT", database)
    return client.ask(*command)


def test_damage_of_another_testbed_is_ignored_and_an_embedded_system_has_no_server(up: Up) -> None:
    testbed = up()
    (testbed.folder / "testbed.json").write_text("{}")
    try:
        assert (find_servers(plan_of("ycsb/a", NOWHERE)).description or {})["observed"] is False
    finally:
        testbed.write()
    assert find_servers(plan_of("ycsb/a")).description is None


def test_only_a_database_with_own_records_is_emptied_again(up: Up) -> None:
    testbed = up()
    ask(testbed, "MSET", "a", 1, "b", 2)
    system = parse_system_url(f"{testbed.url}/3")
    make_room(system, "refuse", OWN)
    ask(testbed, "MSET", "user1", 1, "user2", 2, database=3)
    make_room(system, "refuse", OWN)
    assert (ask(testbed, "DBSIZE"), ask(testbed, "KEYS", "*", database=3)) == (2, [MARK])
    sentence = "already holds 1 keys that another kvmark command loaded"
    ask(testbed, "SET", "user1", 1, database=3)
    with pytest.raises(UsageError, match=sentence):
        make_room(system, "refuse", DatasetClaim("0f0f", OWN.names))


def test_the_keys_of_all_primaries_of_a_cluster_count(up: Up) -> None:
    testbed = up(cluster=3)
    system = parse_system_url(testbed.url)

    def fill(*keys: str) -> None:
        for node, key in zip(testbed.nodes, keys, strict=True):
            assert connect(testbed, node).ask("SET", key, 1) == "OK"

    fill("b", "c", "a")
    with pytest.raises(UsageError, match="already holds 3 keys"):
        make_room(system, "refuse", OWN)
    make_room(system, "remove", OWN)
    make_room(system, "refuse", OWN)
    fill("user4", "user1", "user2")
    make_room(system, "refuse", OWN)
    check_existing(system, "refuse")


def test_logins_and_tls_are_used(up: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    testbed = up(password=Secret("hush"), tls=True)
    ask(testbed, "MSET", "a", 1, "b", 2)
    with pytest.raises(UsageError, match=r"redis.*already holds 2 keys without the mark"):
        check_existing(parse_system_url(testbed.url), "refuse")
    ask(testbed, "FLUSHDB")
    monkeypatch.setenv("MY_WORD", "hush")
    for login, options, problem in (
        ("default:hush@", "", None),
        ("", "&password_env=MY_WORD", None),
        ("", "&password_env=NOT_SET", "NOT_SET, which isn't set"),
        (":wrong@", "", "^(?!.*wrong@).*WRONGPASS"),
    ):
        place = f"{login}{testbed.nodes[0].address}?ca_file={testbed.facts['ca_file']}"
        with pytest.raises(KvmarkError, match=problem) if problem else nullcontext():
            check_existing(parse_system_url(f"rediss://{place}{options}"), "refuse")


def test_a_user_without_permissions_gets_the_option_that_needs_none(up: Up) -> None:
    testbed = up()
    system = parse_system_url(f"redis://bob:door@{testbed.nodes[0].address}")
    ask(testbed, "ACL", "SETUSER", "bob", "on", ">door", "~*", "+@all", "-@dangerous")
    with pytest.raises(SystemUnderTestError, match=r"can't be emptied \(--on-existing k.*NOPERM"):
        make_room(system, "remove", OWN)
    ask(testbed, "ACL", "SETUSER", "bob", "resetkeys", "~user*")
    with pytest.raises(SystemUnderTestError, match=r"can't be marked .*--on-existing k.*NOPERM"):
        make_room(system, "refuse", OWN)


def test_a_missing_server_is_one_sentence() -> None:
    with pytest.raises(SystemUnderTestError, match=r"127\.0\.0\.1:1 doesn't report its contents"):
        check_existing(parse_system_url(NOWHERE), "refuse")
