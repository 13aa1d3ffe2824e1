"""Real servers: started as wanted, observed, broken on purpose, emptied, and stopped."""

import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.secret import Secret
from kvmark.spec.url import parse_system_url
from kvmark.testbed import memcached
from kvmark.testbed.console import Console, connect
from kvmark.testbed.control import describe, kill_node, restart_node, take_down
from kvmark.testbed.memcached.data import contents
from kvmark.testbed.observe import Observer
from kvmark.testbed.process import wait_until
from kvmark.testbed.state import Testbed
from kvmark.testbed.system import Contents

Up = Callable[..., Testbed]

FIRST = "node-1"
PATIENCE_S = 300.0
SECRET = "open-sesame"


@pytest.fixture
def up(root: Path) -> Up:
    """Starts a memcached testbed with the given wishes."""
    if shutil.which("memcached") is None:
        pytest.skip("memcached isn't installed: apt-get install memcached")

    def start(**wishes: Any) -> Testbed:
        return memcached.up(memcached.Wanted(memory_bytes=2**26, **wishes), root)

    return start


def put(testbed: Testbed, key: str, node: str = FIRST) -> None:
    client = connect(testbed, testbed.node(node), PATIENCE_S)
    assert client.ask(f"set {key} 0 0 1\r\nx") == "STORED"


def has(testbed: Testbed, key: str, node: str = FIRST) -> bool:
    return connect(testbed, testbed.node(node), PATIENCE_S).ask("get", key) != "END"


def held(testbed: Testbed) -> Contents:
    url = parse_system_url(testbed.url)
    found = contents(url.options, url.password)
    assert found is not None
    return found


def test_a_server_answers_until_it_is_down(up: Up, root: Path) -> None:
    testbed = up()
    assert testbed.url == f"memcached://{testbed.nodes[0].address}"
    assert testbed.version[0].isdigit()
    (stopped,) = take_down(root, "memcached")
    assert [node.name for node in stopped.nodes] == [FIRST]
    with pytest.raises(SystemUnderTestError, match="Connection refused"):
        connect(testbed, testbed.nodes[0]).ask("version")


def test_wishes_are_effective_and_a_manifest_gets_them_with_a_fingerprint(up: Up) -> None:
    more = (("slab-growth-factor", "1.5"), ("disable-evictions", "yes"))
    one, same = up(), up()
    other = up(threads=2, item_size_bytes=2**21, maxclients=68, settings=more)
    settings = describe(other)["settings"]
    expected = {
        "num_threads": "2",
        "item_size_max": "2097152",
        "maxbytes": "67108864",
        "maxconns": "100",
        "growth_factor": "1.50",
        "evictions": "off",
    }
    assert {name: settings[name] for name in expected} == expected
    fingerprints = [describe(testbed)["fingerprint"] for testbed in (one, same, other)]
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


def test_an_option_that_the_server_refuses_is_quoted_and_nothing_is_left(
    up: Up, root: Path
) -> None:
    with pytest.raises(UsageError, match=r"the server refused an option: .*'--no-such=1'"):
        up(settings=(("no-such", "1"),))
    assert not list(root.iterdir())


def test_a_server_that_ends_at_once_gives_its_last_line(up: Up, root: Path, tmp_path: Path) -> None:
    program = tmp_path / "sick-server"
    program.write_text("#!/bin/sh\necho out of luck\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(
        SystemUnderTestError, match=r"memcached/node-1 ended by itself: out of luck"
    ):
        up(server=str(program))
    assert not list(root.iterdir())


def test_the_password_is_asked_for_and_stands_in_private_files_only(up: Up) -> None:
    testbed = up(password=Secret(SECRET))
    put(testbed, "key")
    place = {"address": testbed.nodes[0].address}
    with pytest.raises(SystemUnderTestError, match="unauthenticated"):
        Console("memcached", place).ask("version")
    stranger = Console("memcached", {"username": "kvmark", **place}, Secret("wrong"))
    with pytest.raises(SystemUnderTestError, match=r"answered the login with CLIENT_ERROR$"):
        stranger.ask("version")
    holders = [
        path
        for path in testbed.folder.rglob("*")
        if path.is_file() and SECRET.encode() in path.read_bytes()
    ]
    assert {path.name for path in holders} == {"password", "users"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in holders} == {0o600}
    place = f"?username=kvmark&password_file={testbed.folder}/password"
    assert testbed.url.endswith(place)
    assert SECRET not in repr(describe(testbed)) + repr(testbed)


def test_tls_shows_a_certificate_of_the_testbeds_own_authority(up: Up) -> None:
    testbed = up(tls=True)
    put(testbed, "key")
    assert "tls=true&ca_file=" in testbed.url
    assert held(testbed).found == "1 items"


def test_several_servers_have_a_part_of_the_keys_each(up: Up) -> None:
    testbed = up(nodes=2)
    assert [node.name for node in testbed.nodes] == ["node-1", "node-2"]
    addresses = ",".join(node.address for node in testbed.nodes)
    assert testbed.url == f"memcached://{addresses}"
    assert held(testbed).found is None
    put(testbed, "one", "node-1")
    put(testbed, "two", "node-2")
    put(testbed, "three", "node-2")
    assert held(testbed).found == "3 items"


def test_what_is_removed_is_gone_at_once(up: Up) -> None:
    testbed = up()
    put(testbed, "key")
    found = held(testbed)
    assert found.found == "1 items"
    found.remove()
    assert not has(testbed, "key")
    # The server counts what was flushed until it comes across it.
    assert held(testbed).found is None
    put(testbed, "other")
    assert held(testbed).found is not None


def test_a_killed_server_comes_back_empty(up: Up) -> None:
    testbed = up()
    put(testbed, "key")
    assert kill_node(testbed, FIRST)
    assert not testbed.lives
    testbed = restart_node(testbed, FIRST)
    assert not has(testbed, "key")
    assert Testbed.read(testbed.folder).lives


def test_observing_tells_what_the_server_used(up: Up) -> None:
    testbed = up()
    process = Testbed.read(testbed.folder).watched()
    seen: list[dict[str, Any]] = []

    def carried(least: int) -> bool:
        seen[:] = observer.sample()
        return bool(seen) and (seen[0]["network_received_bytes"] or 0) > least

    with Observer(testbed) as observer:
        wait_until(lambda: carried(0), "answer", process, PATIENCE_S)
        before = seen[0]["network_received_bytes"]
        put(testbed, "key" * 50)
        wait_until(lambda: carried(before + 150), "count", process, PATIENCE_S)
    assert seen[0]["node"] == FIRST
    assert seen[0]["resident_bytes"] > 1_000_000
