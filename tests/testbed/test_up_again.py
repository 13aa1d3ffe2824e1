"""`kvmark up X` after `kvmark down X`, a crash, or half of one brings X back with what it kept."""

import fcntl
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvmark.cli import main
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.secret import Secret
from kvmark.testbed import proxy, redis
from kvmark.testbed.control import bring_back, kill_node, take_down
from kvmark.testbed.network import choose_network
from kvmark.testbed.proxy.programs import find_program
from kvmark.testbed.state import Node, Testbed, known_testbed
from kvmark.testbed.words import kept_wishes

Output = pytest.CaptureFixture[str]
Up = Callable[..., Testbed]
Ask = Callable[..., Any]

FIRST = "primary-1"
SECRET = "open sesame #1"


@pytest.fixture
def said(root: Path, capsys: Output) -> Callable[..., tuple[int, str, str]]:
    """Types a command; its exit code, its answer, and what else it said."""

    def apply(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(word) for word in words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return apply


def pids(testbed: Testbed) -> list[int]:
    return [node.process.pid for node in testbed.nodes if node.process]


@pytest.fixture
def taken_port(root: Path, up: Up) -> Iterator[int]:
    """The port of a testbed that is down, where another program listens now."""
    port = up(appendonly=True).nodes[0].port
    take_down(root)
    with socket.create_server(("127.0.0.1", port)):
        yield port


def test_no_testbed_of_a_users_has_a_name_that_a_study_would_remove(
    said: Callable[..., tuple[int, str, str]], root: Path
) -> None:
    code, _, err = said("up", "redis", "--name", "study-smoke")
    assert code == 2
    assert "whose names begin with 'study-'" in err
    assert not list(root.glob("*"))


# With its data.


def test_what_was_down_is_back_at_its_url_with_its_data(
    root: Path, with_redis: None, ask: Ask, said: Callable[..., tuple[int, str, str]]
) -> None:
    _, made, _ = said("up", "redis", "--appendonly", "yes", "--set", "hz=20")
    ask(Testbed.read(root / "redis"), FIRST, "SET", "key", "value")
    assert said("down", "redis")[0] == 0
    code, back, _ = said("up", "redis")
    assert code == 0
    assert back == made.replace("is up as", "is up again as")
    assert ask(Testbed.read(root / "redis"), FIRST, "GET", "key") == "value"
    assert ask(Testbed.read(root / "redis"), FIRST, "CONFIG", "GET", "hz") == ["hz", "20"]
    assert said("up", "redis")[1] == made.replace("is up as", "is up already as")
    assert [path.name for path in root.iterdir()] == ["redis"]


def test_a_server_that_keeps_nothing_says_so_when_it_is_back(
    up: Up, root: Path, said: Callable[..., tuple[int, str, str]]
) -> None:
    up()
    take_down(root)
    assert "keeps its data in memory only" in said("up", "redis")[1]
    assert "in memory only" not in said("up", "redis")[1]


@pytest.mark.parametrize(
    "wishes",
    [
        {"replicas": 1},
        {"cluster": 2, "replicas": 1},
        {"password": Secret(SECRET), "tls": True},
    ],
)
def test_every_arrangement_of_servers_comes_back(
    up: Up, ask: Ask, root: Path, wishes: dict[str, Any]
) -> None:
    made = up(appendonly=True, **wishes)
    slot = "{a}" if "cluster" in wishes else "key"
    holder = made.nodes[0].name
    if "cluster" in wishes:
        slots = ask(made, holder, "CLUSTER", "KEYSLOT", slot)
        holder = "primary-1" if slots < 8192 else "primary-2"
    ask(made, holder, "SET", slot, "value")
    take_down(root)
    back = bring_back(Testbed.read(made.folder))
    assert back.lives
    assert back.url == made.url
    assert ask(back, holder, "GET", slot) == "value"


def test_servers_that_were_killed_are_back_and_those_that_live_are_left_alone(
    up: Up, ask: Ask, root: Path
) -> None:
    made = up(appendonly=True, appendfsync="always", replicas=1)
    ask(made, FIRST, "SET", "key", "value")
    kill_node(made, "replica-1")
    partly = bring_back(made)
    assert pids(partly)[0] == pids(made)[0]
    assert pids(partly)[1] != pids(made)[1]
    for node in partly.nodes:
        kill_node(partly, node.name)
    back = bring_back(partly)
    assert back.lives
    assert ask(back, FIRST, "GET", "key") == "value"
    assert bring_back(back) == back


def test_a_network_comes_back_with_its_addresses(up: Up, ask: Ask, root: Path) -> None:
    try:
        choose_network(["one"])
    except UsageError as refused:
        pytest.skip(str(refused))
    made = up(appendonly=True, replicas=1, network=True)
    ask(made, FIRST, "SET", "key", "value")
    take_down(root)
    back = bring_back(Testbed.read(made.folder))
    assert back.network == made.network
    service, _, port = back.facts["service"].rpartition(":")
    socket.create_connection((service, int(port)), timeout=60).close()
    assert ask(back, "replica-1", "GET", "key") == "value"


def test_a_proxy_comes_back_before_its_system_and_not_without_it(
    up: Up, root: Path, said: Callable[..., tuple[int, str, str]]
) -> None:
    try:
        find_program("haproxy", "release", lambda _: None)
    except UsageError as missing:
        pytest.skip(str(missing))
    system = up()
    target = proxy.Target("redis", system.nodes[0].address, system.url)
    made = proxy.up(proxy.Wanted("haproxy", target, threads=1), root)
    take_down(root)
    code, _, err = said("up", "haproxy")
    assert (code, "can't be reached" in err) == (3, True)
    assert said("up", "redis")[0] == 0
    code, out, _ = said("up", "proxy", "--kind", "haproxy", "--to", "up:redis", "--threads", 1)
    assert code == 0
    assert out.startswith(f"{made.url}\n")
    assert "is up again as 'haproxy'" in out


# Which one.


def test_new_makes_another_and_a_name_says_which(
    up: Up, root: Path, said: Callable[..., tuple[int, str, str]]
) -> None:
    for _ in range(2):
        up()
    up(name="cache")
    take_down(root)
    assert "is up again as 'redis'" in said("up", "redis")[1]
    assert "is up as 'redis-3'" in said("up", "redis", "--new")[1]
    assert "is up again as 'redis-2'" in said("up", "redis-2")[1]
    assert "is up again as 'cache'" in said("up", "redis", "--name", "cache")[1]
    assert "is up already as 'cache'" in said("up", "cache")[1]
    assert "is up as 'other'" in said("up", "redis", "--name", "other")[1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["redis", "--new", "--name", "cache"], "cache is there already: give another --name, or"),
        (["cache", "--new"], "'cache' is a testbed: give --new with a system, such as kvmark up"),
        (["cache", "--name", "x"], "'cache' is a testbed: give --name with a system"),
        (["cassandra", "--name", "cache"], "the testbed 'cache' is redis and not cassandra: give"),
        (["redsi"], "'redsi' is neither a system, which are cassandra, memcached, proxy, redis,"),
        (["../cache"], "'../cache' is neither a system"),
        (["cache", "--nodes", "3"], "--nodes is no option of redis: leave it out"),
        (["cache", "--appendonly", "no"], "--appendonly says something else than testbed 'cache'"),
        (["cache", "--set", "hz=30"], "--set says something else than testbed 'cache' was made wi"
                                      "th (hz=20): leave it out to have 'cache' as it is, or give"
                                      " --new for another, or forget it with kvmark down cache --"
                                      "remove"),
        (["cache", "--set", "maxmemory=1gb"], "--set says something else"),
        (["cache", "--port", "1"], "--port says something else"),
        (["cache", "--password"], "--password says something else than testbed 'cache' was made "
                                  "with (none)"),
        (["cache", "--tls"], "--tls says something else than testbed 'cache' was made with (no)"),
        (["cache", "--cluster", "3"], "--cluster says something else"),
        (["cache", "--core", "0"], "--core says something else"),
        (["cache", "--save", "9 1"], "--save says something else"),
    ],
)  # fmt: skip
def test_words_that_contradict_a_testbed_are_one_sentence_and_change_nothing(
    root: Path, said: Callable[..., tuple[int, str, str]], words: list[str], sentence: str
) -> None:
    wanted = redis.Wanted(name="cache", appendonly=True, settings=(("hz", "20"),))
    folder = root / "cache"
    folder.mkdir(parents=True)
    made = Testbed(
        name="cache",
        system="redis",
        version="7.0.15",
        created="",
        url="redis://127.0.0.1:7",
        nodes=(Node(name=FIRST, role="primary", host="127.0.0.1", port=7, command=()),),
        made_with=kept_wishes(wanted, port=7),
        folder=folder,
    )
    made.write()
    code, out, err = said("up", *words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert [path.name for path in folder.iterdir()] == ["testbed.json"]
    assert Testbed.read(folder) == made


def test_words_that_say_the_same_are_fine(
    up: Up, root: Path, tmp_path: Path, said: Callable[..., tuple[int, str, str]]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    more = (("hz", "20"), ("maxmemory-policy", "allkeys-lru"))
    made = up(appendonly=True, password=Secret(SECRET), settings=more, cores=(0,))
    take_down(root)
    words = ["--appendonly", "yes", "--set", "hz=20", "--port", made.nodes[0].port, "--core", "0"]
    assert said("up", "redis", *words, "--password-file", secret)[0] == 0
    assert said("up", "redis", "--password")[0] == 0
    secret.write_text("another\n")
    code, _, err = said("up", "redis", "--password-file", secret)
    assert (code, "was made with (another password)" in err, SECRET in err) == (2, True, False)


def test_no_secret_is_in_what_a_testbed_was_made_with(up: Up) -> None:
    made = up(password=Secret(SECRET))
    assert SECRET not in json.dumps(made.made_with)
    assert "password" not in made.made_with


def test_a_testbed_that_is_down_says_how_it_comes_back(
    up: Up, root: Path, said: Callable[..., tuple[int, str, str]]
) -> None:
    up(name="cache")
    take_down(root)
    code, _, err = said("run", "redis/kv", "--system", "up:cache")
    assert code == 2
    assert err == "kvmark: testbed 'cache' is down; bring it back with kvmark up cache\n"


# When it can't.


def test_a_port_that_was_taken_meanwhile_is_told(
    taken_port: int, said: Callable[..., tuple[int, str, str]]
) -> None:
    code, _, err = said("up", "redis")
    assert code == 2
    assert err == (
        f"kvmark: port {taken_port} of 127.0.0.1, which testbed 'redis' listened on, is in use by"
        " another program: stop that first, or start another testbed with --new\n"
    )


def test_the_testbed_that_has_its_port_now_is_named(up: Up, root: Path) -> None:
    made = up()
    take_down(root)
    up(name="other", port=made.nodes[0].port)
    with pytest.raises(UsageError, match="is in use by testbed 'other': stop that first"):
        bring_back(Testbed.read(made.folder))


def test_what_does_not_come_back_leaves_every_file_and_no_process(up: Up, root: Path) -> None:
    made = up(appendonly=True, replicas=1)
    take_down(root)
    settings = made.folder / "replica-1" / "redis.conf"
    settings.write_text(settings.read_text() + "no-such-setting 1\n")
    files = set(made.folder.rglob("*"))
    with pytest.raises(SystemUnderTestError, match="redis/replica-1 ended by itself"):
        bring_back(Testbed.read(made.folder))
    assert set(made.folder.rglob("*")) >= files
    assert not any(node.lives for node in Testbed.read(made.folder).nodes)


def test_a_testbed_whose_start_never_ended_is_not_brought_back(
    up: Up, root: Path, said: Callable[..., tuple[int, str, str]]
) -> None:
    made = up()
    made.model_copy(update={"was_up": False}).write()
    assert said("up", "redis")[0] == 2
    take_down(root)
    code, _, err = said("up", "redis")
    assert code == 2
    assert "testbed 'redis' has never been up" in err
    assert "kvmark down redis --remove" in err
    assert said("down", "redis", "--remove")[0] == 0
    assert known_testbed(root, "redis") is None


def test_two_commands_do_not_start_the_same_servers(up: Up, root: Path) -> None:
    made = up()
    take_down(root)
    handle = os.open(made.folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another kvmark is starting testbed 'redis' just now"):
            bring_back(made)
    finally:
        os.close(handle)
    assert bring_back(made).lives


def test_a_program_that_is_gone_is_named(up: Up, root: Path, tmp_path: Path) -> None:
    program = tmp_path / "my-redis"
    program.symlink_to(shutil.which("redis-server") or "")
    made = up(server=str(program))
    take_down(root)
    program.unlink()
    with pytest.raises(SystemUnderTestError, match="my-redis can't be started because No such"):
        bring_back(made)
