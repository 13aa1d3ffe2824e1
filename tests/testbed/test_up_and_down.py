"""The commands `kvmark up` and `kvmark down`, and `up` again after `down` or a crash."""

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.secret import Secret
from kvmark.testbed import redis
from kvmark.testbed.control import kill_node, take_down
from kvmark.testbed.launch import bring_back, planned
from kvmark.testbed.process import exclusive
from kvmark.testbed.state import Node, Testbed, known_testbed
from redis_testbeds import FIRST, Ask, Run, Up


def test_up_prints_the_url_and_down_servers(root: Path, with_redis: None, kvmark: Run) -> None:
    code, out, _ = kvmark("up", "redis", "--appendonly", "yes")
    url, started, _ = out.splitlines()
    assert (code, url.startswith("redis://127.0.0.1:"), started[:6]) == (0, True, "redis ")
    code, out, _ = kvmark("up")
    assert (code, url in out) == (0, True)
    address = url.removeprefix("redis://")
    assert kvmark("down")[:2] == (0, f"Stopped redis: primary-1 {address}\n")
    assert kvmark("down")[:2] == (0, f"Nothing was up in {root}\n")
    removed = f"redis was down already\nRemoved {root / 'redis'}\n"
    assert kvmark("down", "redis", "--remove")[1] == removed
    assert not list(root.iterdir())
    text = f"Nothing is up in {root}; start a system with: kvmark up redis\n"
    assert kvmark("up")[:2] == (0, text)


def test_a_testbed_of_an_outer_folder_is_named(
    up: Up, root: Path, monkeypatch: pytest.MonkeyPatch, kvmark: Run
) -> None:
    up()
    inner = root.parent / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    monkeypatch.delenv("KVMARK_TESTBEDS")
    nothing = f"kvmark: there is no testbed 'redis' in {inner}/testbeds, where there is none: start"
    text = kvmark("run", "ycsb/a", "--system", "up:redis")[2]
    assert text.startswith(nothing)
    assert text.endswith(f"for one of another folder set KVMARK_TESTBEDS={root}\n")


def test_up_and_down_print_json(with_redis: None, kvmark: Run) -> None:
    started = json.loads(kvmark("up", "redis", "--json")[1])
    (listed,) = json.loads(kvmark("up", "--json")[1])["testbeds"]
    assert {"schema": "kvmark/testbed/1", **listed} == started
    assert started["nodes"][0]["up"]
    (stopped,) = json.loads(kvmark("down", "--json")[1])["stopped"]
    assert stopped["name"] == started["name"]
    assert [node["address"] for node in stopped["nodes"]] == [started["nodes"][0]["address"]]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("up redis --nodes 3", "--nodes is no option of redis: leave it out"),
        ("up redis --memory 1G", "--memory is no option of redis: leave it out"),
        ("up redis --server no-redis", "no-redis is missing: install it with `sudo apt-get install"
                                       " redis-server`, or name another program with --server"),
        ("up memcached --server no-one", "no-one is missing: install it with `sudo apt-get install"
                                         " memcached`, or name another program with --server"),
        ("up redis --server true --replicas 1 --set maxmemory=900000gb",
         "2 servers of 921600000 MiB need more memory than the"),
        ("up memcached --server true --nodes 2 --memory 900000G",
         "2 servers of 921600000 MiB need more memory than the"),
        ("up redis --name study-smoke", "name: a study removes testbeds whose names begin with"),
        ("up redis --set hz", "set: 'hz' has no value; write --set key=value"),
        ("up redis --password-file /none", "the password file /none can't be"),
        ("down redis", "there is no testbed 'redis' in"),
        ("up cassandra --cluster 3", "--cluster is no option of cassandra: leave"),
        ("up cassandra --heap much", "heap: 'much' is not a size; write it like"),
        ("up cassandra --memory much", "memory: 'much' is not a size; write it"),
        ("up cassandra --heap 512M --memory 600M",
         "memory: a node with a heap of 512 MiB and 420 MiB beside it doesn't fit"),
        ("up cassandra --heap 900000G", "1 node with a heap of"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_sentence_and_exit_code_2(
    request: pytest.FixtureRequest, root: Path, words: str, sentence: str, kvmark: Run
) -> None:
    if "cassandra" in words:
        request.getfixturevalue("with_cassandra")
    code, _, err = kvmark(*words.split())
    assert (code, err.count("\n"), root.exists()) == (2, 1, False)
    assert err.startswith(f"kvmark: {sentence}")


SECRET = "open sesame #1"


# With its data.


def test_up_restores_url_and_data(root: Path, with_redis: None, ask: Ask, kvmark: Run) -> None:
    _, made, _ = kvmark("up", "redis", "--appendonly", "yes", "--set", "hz=20")
    ask(Testbed.read(root / "redis"), FIRST, "SET", "key", "value")
    assert kvmark("down", "redis")[0] == 0
    code, back, _ = kvmark("up", "redis")
    assert code == 0
    assert back == made.replace("is up as", "is up again as")
    assert ask(Testbed.read(root / "redis"), FIRST, "GET", "key") == "value"
    assert ask(Testbed.read(root / "redis"), FIRST, "CONFIG", "GET", "hz") == ["hz", "20"]
    assert kvmark("up", "redis")[1] == made.replace("is up as", "is up already as")
    assert [path.name for path in root.iterdir()] == ["redis"]


def test_a_lost_dataset_is_reported(up: Up, root: Path, kvmark: Run) -> None:
    up()
    take_down(root)
    assert "keeps its data in memory only" in kvmark("up", "redis")[1]
    assert "in memory only" not in kvmark("up", "redis")[1]


@pytest.mark.parametrize(
    ("holder", "options"),
    [
        (FIRST, {"replicas": 1}),
        # The slot of the key is in the second half.
        ("primary-2", {"cluster": 2, "replicas": 1}),
        (FIRST, {"password": Secret(SECRET), "tls": True}),
    ],
)
def test_every_arrangement_of_servers_is_started_again(
    up: Up, ask: Ask, root: Path, holder: str, options: dict[str, Any]
) -> None:
    made = up(appendonly=True, **options)
    ask(made, holder, "SET", "a", "value")
    take_down(root)
    back = bring_back(Testbed.read(made.folder))
    assert (back.lives, back.url) == (True, made.url)
    assert ask(back, holder, "GET", "a") == "value"


def test_only_killed_servers_are_started_again(up: Up, ask: Ask, root: Path) -> None:
    made = up(appendonly=True, appendfsync="always", replicas=1)
    ask(made, FIRST, "SET", "key", "value")
    kill_node(made, "replica-1")
    partly = bring_back(made)
    kept = [now.process == node.process for now, node in zip(partly.nodes, made.nodes, strict=True)]
    assert kept == [True, False]
    for node in partly.nodes:
        kill_node(partly, node.name)
    back = bring_back(partly)
    assert back.lives
    assert ask(back, FIRST, "GET", "key") == "value"
    assert bring_back(back) == back


def test_a_network_comes_back_with_its_addresses(up: Up, ask: Ask, root: Path) -> None:
    try:
        made = up(appendonly=True, replicas=1, network=True)
    except UsageError as refused:
        pytest.skip(str(refused))
    ask(made, FIRST, "SET", "key", "value")
    take_down(root)
    back = bring_back(Testbed.read(made.folder))
    assert back.network == made.network
    service, _, port = back.facts["service"].rpartition(":")
    socket.create_connection((service, int(port)), timeout=60).close()
    assert ask(back, "replica-1", "GET", "key") == "value"


def test_a_proxy_needs_its_system(up: Up, root: Path, with_haproxy: None, kvmark: Run) -> None:
    up()
    words = ("up", "proxy", "--kind", "haproxy", "--to", "up:redis", "--threads", 1)
    _, made, _ = kvmark(*words)
    take_down(root)
    code, _, err = kvmark("up", "haproxy")
    assert (code, "can't be reached" in err) == (3, True)
    assert kvmark("up", "redis")[0] == 0
    assert kvmark(*words)[:2] == (0, made.replace("is up as", "is up again as"))


# Which one.


def test_new_starts_another_testbed_and_a_name_selects_one(up: Up, root: Path, kvmark: Run) -> None:
    for _ in range(2):
        up()
    up(name="cache")
    take_down(root)
    assert "is up again as 'redis'" in kvmark("up", "redis")[1]
    assert "is up as 'redis-3'" in kvmark("up", "redis", "--new")[1]
    assert "is up again as 'redis-2'" in kvmark("up", "redis-2")[1]
    assert "is up again as 'cache'" in kvmark("up", "redis", "--name", "cache")[1]
    assert "is up already as 'cache'" in kvmark("up", "cache")[1]
    assert "is up as 'other'" in kvmark("up", "redis", "--name", "other")[1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["redis", "--new", "--name", "cache"], "cache is there already: give another --name, or"),
        (["cache", "--new"], "'cache' is a testbed: give --new with a system, such as kvmark up"),
        (["cache", "--name", "x"], "'cache' is a testbed: give --name with a system"),
        (["cassandra", "--name", "cache"], "the testbed 'cache' is redis and not cassandra: give"),
        (["redsi"], "'redsi' is neither a system, which are cassandra, memcached, postgres,"),
        (["../cache"], "'../cache' is neither a system"),
        (["cache", "--nodes", "3"], "--nodes is no option of redis: leave it out"),
        (["cache", "--appendonly", "no"], "--appendonly says something else than testbed 'cache'"),
        (["cache", "--set", "hz=30"], "--set says something else than testbed 'cache' was made wi"
                                      "th (hz=20): leave it out to have 'cache' as it is, or give"
                                      " --new for another, or forget it with kvmark down cache --"
                                      "remove"),
        *((["cache", *words], f"{words[0]} says something else than testbed 'cache' was made with")
          for words in (["--set", "maxmemory=1gb"], ["--port", "1"], ["--cluster", "3"],
                        ["--core", "0"], ["--save", "9 1"])),
        (["cache", "--password"], "--password says something else than testbed 'cache' was made "
                                  "with (none)"),
        (["cache", "--tls"], "--tls says something else than testbed 'cache' was made with (no)"),
    ],
)  # fmt: skip
def test_contradictions_change_nothing(
    root: Path, kvmark: Run, words: list[str], sentence: str
) -> None:
    options = redis.RedisOptions(name="cache", appendonly=True, settings=(("hz", "20"),))
    node = Node(name=FIRST, role="primary", host="127.0.0.1", port=7, command=())
    folder = root / "cache"
    folder.mkdir(parents=True)
    made = planned("redis", folder, options, [node], "redis://127.0.0.1:7")
    made.write()
    code, out, err = kvmark("up", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert [path.name for path in folder.iterdir()] == ["testbed.json"]
    assert Testbed.read(folder) == made


def test_the_same_options_are_accepted(up: Up, root: Path, tmp_path: Path, kvmark: Run) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    more = (("hz", "20"), ("maxmemory-policy", "allkeys-lru"))
    made = up(appendonly=True, password=Secret(SECRET), settings=more, cores=(0,))
    take_down(root)
    words = ["--appendonly", "yes", "--set", "hz=20", "--port", made.nodes[0].port, "--core", "0"]
    assert kvmark("up", "redis", *words, "--password-file", secret)[0] == 0
    assert kvmark("up", "redis", "--password")[0] == 0
    secret.write_text("another\n")
    code, _, err = kvmark("up", "redis", "--password-file", secret)
    assert (code, "was made with (another password)" in err, SECRET in err) == (2, True, False)
    assert SECRET not in json.dumps(made.made_with)
    assert "password" not in made.made_with


# When it can't.


def test_a_taken_port_is_reported_with_its_testbed(up: Up, root: Path, kvmark: Run) -> None:
    made = up()
    port = made.nodes[0].port
    take_down(root)
    with socket.create_server(("127.0.0.1", port)):
        code, _, err = kvmark("up", "redis")
    assert code == 2
    assert err == (
        f"kvmark: port {port} of 127.0.0.1, which testbed 'redis' listened on, is in use by"
        " another program: stop that first, or start another testbed with --new\n"
    )
    up(name="other", port=port)
    with pytest.raises(UsageError, match="is in use by testbed 'other': stop that first"):
        bring_back(Testbed.read(made.folder))


def test_a_failed_start_leaves_every_file_and_no_process(up: Up, root: Path) -> None:
    made = up(appendonly=True, replicas=1)
    take_down(root)
    settings = made.folder / "replica-1" / "redis.conf"
    settings.write_text(settings.read_text() + "no-such-setting 1\n")
    files = set(made.folder.rglob("*"))
    with pytest.raises(SystemUnderTestError, match="redis/replica-1 ended by itself"):
        bring_back(Testbed.read(made.folder))
    assert set(made.folder.rglob("*")) >= files
    assert not any(node.lives for node in Testbed.read(made.folder).nodes)


def test_an_incomplete_testbed_is_not_started_again(up: Up, root: Path, kvmark: Run) -> None:
    made = up()
    made.model_copy(update={"was_up": False}).write()
    assert kvmark("up", "redis")[0] == 2
    take_down(root)
    code, _, err = kvmark("up", "redis")
    assert code == 2
    assert "testbed 'redis' has never been up" in err
    assert "kvmark down redis --remove" in err
    assert kvmark("down", "redis", "--remove")[0] == 0
    assert known_testbed(root, "redis") is None


def test_two_commands_do_not_start_the_same_servers(up: Up, root: Path) -> None:
    made = up()
    take_down(root)
    sentence = "another kvmark is starting testbed 'redis' just now"
    with exclusive(made.folder), pytest.raises(UsageError, match=sentence):
        bring_back(made)
    assert bring_back(made).lives


def test_a_missing_program_is_named(up: Up, root: Path, tmp_path: Path) -> None:
    program = tmp_path / "my-redis"
    program.symlink_to(shutil.which("redis-server") or "")
    made = up(server=str(program))
    take_down(root)
    program.unlink()
    with pytest.raises(SystemUnderTestError, match="my-redis can't be started because No such"):
        bring_back(made)
