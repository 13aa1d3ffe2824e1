"""One real server: started as wanted, found, observed, broken on purpose, and stopped."""

import socket
import ssl
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from kvmark.errors import ForeignFile, SystemUnderTestError, UsageError
from kvmark.secret import Secret
from kvmark.testbed.console import Console, connect
from kvmark.testbed.control import (
    describe,
    kill_node,
    pause_node,
    restart_node,
    resume_node,
    take_down,
)
from kvmark.testbed.observe import Observer
from kvmark.testbed.process import Identity, Watched, kill, start, stop, wait_until
from kvmark.testbed.state import Testbed, owner_of

Up = Callable[..., Testbed]
Ask = Callable[..., Any]

FIRST = "primary-1"
PATIENCE_S = 300.0
SECRET = "open sesame #1"


def test_a_server_answers_until_it_is_down(up: Up, ask: Ask, root: Path) -> None:
    testbed = up()
    assert ask(testbed, FIRST, "PING") == "PONG"
    assert testbed.url == f"redis://{testbed.nodes[0].address}"
    assert testbed.version[0].isdigit()
    (stopped,) = take_down(root, "redis")
    assert [node.name for node in stopped.nodes] == [FIRST]
    with pytest.raises(SystemUnderTestError, match="Connection refused"):
        ask(testbed, FIRST, "PING")


def test_settings_are_effective(up: Up, ask: Ask) -> None:
    more = (("maxmemory-policy", "allkeys-lru"), ("hz", "20"))
    testbed = up(appendonly=True, appendfsync="always", save="3600 1", maxclients=99, settings=more)
    expected = {
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "3600 1",
        "maxclients": "131",
        "maxmemory-policy": "allkeys-lru",
        "hz": "20",
    }
    for name, value in expected.items():
        assert ask(testbed, FIRST, "CONFIG", "GET", name) == [name, value]


def test_a_port_can_be_chosen_and_one_in_use_is_refused(up: Up) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} of 127.0.0.1 is in use: give another"):
            up(port=port)
    assert up(port=port).nodes[0].port == port


def test_a_setting_that_the_server_refuses_is_quoted_and_nothing_is_left(
    up: Up, root: Path
) -> None:
    with pytest.raises(UsageError) as refused:
        up(settings=(("maxmemory-policy", "sometimes"),))
    assert "refused the setting `maxmemory-policy sometimes`: argument(s) must" in str(
        refused.value
    )
    assert not list(root.iterdir())


def test_a_server_that_ends_at_once_gives_its_last_line(up: Up, root: Path, tmp_path: Path) -> None:
    program = tmp_path / "sick-server"
    program.write_text("#!/bin/sh\necho out of luck\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(SystemUnderTestError, match=r"redis/primary-1 ended by itself: out of luck"):
        up(server=str(program))
    assert not list(root.iterdir())


def test_names_are_taken_in_turn_and_a_given_one_once(up: Up, root: Path) -> None:
    assert [up().name, up().name, up(name="cache").name] == ["redis", "redis-2", "cache"]
    with pytest.raises(UsageError, match="is there already: give another --name, or remove it"):
        up(name="cache")
    with pytest.raises(UsageError, match="can't be the name of a testbed"):
        up(name="../cache")


def test_the_password_is_asked_for_and_stands_in_private_files_only(up: Up, ask: Ask) -> None:
    testbed = up(password=Secret(SECRET))
    assert ask(testbed, FIRST, "PING") == "PONG"
    stranger = Console("redis", {"address": testbed.nodes[0].address})
    with pytest.raises(SystemUnderTestError, match="NOAUTH"):
        stranger.ask("PING")
    holders = [
        path
        for path in testbed.folder.rglob("*")
        if path.is_file() and SECRET.encode() in path.read_bytes()
    ]
    assert {path.name for path in holders} == {"password", "redis.conf"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in holders} == {0o600}
    assert testbed.url.endswith(f"?password_file={testbed.folder}/password")
    assert SECRET not in repr(describe(testbed))
    assert b"sesame" not in all_command_lines_and_environments()


def all_command_lines_and_environments() -> bytes:
    found = b""
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                found += (process / name).read_bytes() + b"\0"
            except OSError:
                continue
    return found


def test_tls_shows_a_certificate_of_the_testbeds_own_authority(up: Up, ask: Ask) -> None:
    testbed = up(tls=True)
    assert testbed.url.startswith("rediss://127.0.0.1:")
    assert ask(testbed, FIRST, "PING") == "PONG"
    port = testbed.nodes[0].port
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(port, ssl.create_default_context(), "localhost")
    context = ssl.create_default_context(cafile=testbed.facts["ca_file"])
    shake_hands(port, context, "localhost")
    shake_hands(port, context, "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(port, context, "example.org")
    assert not (testbed.folder / "tls" / "ca.key").exists()


def shake_hands(port: int, context: ssl.SSLContext, name: str) -> None:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname=name),
    ):
        pass


def test_down_stops_what_was_started_and_nothing_else(up: Up, root: Path, tmp_path: Path) -> None:
    up()
    up()
    command = ["redis-server", "--port", "0", "--unixsocket", str(tmp_path / "socket")]
    stranger = start([*command, "--save", "", "--dir", str(tmp_path)], tmp_path / "stranger.log")
    try:
        assert [(one.name, len(one.nodes)) for one in take_down(root)] == [
            ("redis", 1),
            ("redis-2", 1),
        ]
        assert psutil.Process(stranger.pid).is_running()
        assert [one.nodes for one in take_down(root)] == [(), ()]
    finally:
        kill(stranger)


def test_a_number_that_another_process_has_now_is_left_alone(up: Up, root: Path) -> None:
    testbed = up()
    real = testbed.nodes[0].process
    assert real is not None
    boot, _, ticks = real.started.rpartition("/")
    testbed.with_process(FIRST, Identity(pid=real.pid, started=f"{boot}/{int(ticks) - 100}"))
    try:
        (stopped,) = take_down(root)
        assert stopped.nodes == ()
        assert psutil.Process(real.pid).is_running()
    finally:
        stop([real])


def test_a_folder_is_removed_unless_it_holds_a_strange_file(up: Up, root: Path) -> None:
    testbed = up(appendonly=True, password=Secret(SECRET), tls=True)
    strange = testbed.folder / "notes.txt"
    strange.write_text("mine")
    with pytest.raises(ForeignFile, match=r"notes\.txt was not made by kvmark"):
        take_down(root, "redis", remove=True)
    assert testbed.log_of(testbed.nodes[0]).exists()
    strange.unlink()
    assert [one.removed for one in take_down(root, "redis", remove=True)] == [True]
    assert not testbed.folder.exists()


def test_the_owner_of_an_address_is_found_while_its_server_is_there(up: Up, root: Path) -> None:
    testbed = up()
    port = testbed.nodes[0].port
    for address in (f"127.0.0.1:{port}", f"me:x@localhost:{port}/1", f"there:1,127.0.0.1:{port}"):
        owner = owner_of(address)
        assert owner is not None
        assert owner.name == "redis"
    assert owner_of(f"127.0.0.1:{port + 1}") is None
    take_down(root)
    assert owner_of(f"127.0.0.1:{port}") is None


@pytest.mark.parametrize(("appendonly", "found"), [(True, "value"), (False, None)])
def test_what_a_killed_server_still_has_depends_on_its_log(
    up: Up,
    ask: Ask,
    appendonly: bool,  # noqa: FBT001
    found: str | None,
) -> None:
    testbed = up(appendonly=appendonly, appendfsync="always")
    ask(testbed, FIRST, "SET", "key", "value")
    assert kill_node(testbed, FIRST)
    assert not testbed.lives
    testbed = restart_node(testbed, FIRST)
    assert ask(testbed, FIRST, "GET", "key") == found
    assert Testbed.read(testbed.folder).lives


def test_a_paused_server_answers_when_it_goes_on(up: Up, ask: Ask) -> None:
    testbed = up()
    assert pause_node(testbed, FIRST)
    with pytest.raises(SystemUnderTestError, match="within 100 ms"):
        connect(testbed, testbed.nodes[0], 0.1).ask("PING")
    assert testbed.lives
    assert resume_node(testbed, FIRST)
    assert ask(testbed, FIRST, "PING") == "PONG"


def test_a_manifest_gets_version_settings_and_a_fingerprint_of_them(up: Up) -> None:
    one, same, other = up(), up(), up(appendonly=True)
    known = describe(one)
    assert known["version"] == one.version
    assert known["settings"]["appendonly"] == "no"
    assert not {"requirepass", "masterauth"} & set(known["settings"])
    assert describe(same)["fingerprint"] == known["fingerprint"]
    assert describe(other)["fingerprint"] != known["fingerprint"]


def answered(observer: Observer, testbed: Testbed) -> dict[str, Any]:
    """What is observed of a server that has time to say what its connections carried."""
    seen: list[dict[str, Any]] = []

    def says() -> bool:
        seen[:] = observer.sample()
        return bool(seen) and seen[0]["network_sent_bytes"] is not None

    process = Testbed.read(testbed.folder).nodes[0].process
    assert process is not None
    watched = [Watched(name=FIRST, process=process, log=testbed.log_of(testbed.nodes[0]))]
    wait_until(says, "answer", watched, PATIENCE_S)
    return seen[0]


def test_observing_tells_what_the_server_used(up: Up, ask: Ask) -> None:
    testbed = up()
    with Observer(testbed) as observer:
        before = answered(observer, testbed)
        ask(testbed, FIRST, "SET", "key", "x" * 1_000_000)
        after = answered(observer, testbed)
    assert before["node"] == FIRST
    assert after["network_received_bytes"] - before["network_received_bytes"] > 1_000_000
    assert after["network_sent_bytes"] > before["network_sent_bytes"]
    assert after["resident_bytes"] > 1_000_000
    assert after["cpu_user_s"] + after["cpu_system_s"] >= before["cpu_user_s"]


def test_a_paused_server_is_observed_without_its_network(up: Up) -> None:
    testbed = up()
    with Observer(testbed) as observer:
        answered(observer, testbed)
        pause_node(testbed, FIRST)
        (paused,) = observer.sample()
        assert paused["network_sent_bytes"] is None
        assert paused["resident_bytes"] > 0
        resume_node(testbed, FIRST)
        answered(observer, testbed)


def test_a_server_that_was_started_again_is_observed_again(up: Up) -> None:
    testbed = up()
    with Observer(testbed) as observer:
        assert len(observer.sample()) == 1
        kill_node(testbed, FIRST)
        assert observer.sample() == []
        restart_node(testbed, FIRST)
        answered(observer, testbed)


def test_a_damaged_description_says_what_to_do(root: Path) -> None:
    folder = root / "redis"
    folder.mkdir(parents=True)
    (folder / "testbed.json").write_text("{")
    with pytest.raises(SystemUnderTestError, match="stop its servers and remove the folder"):
        take_down(root)
    (folder / "testbed.json").unlink()
