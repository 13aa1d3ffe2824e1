"""The commands `kvmark up` and `kvmark down`, as a user types them."""

import json
from pathlib import Path

import pytest

from redis_testbeds import Run


def test_up_prints_the_url_first_and_down_the_stopped_servers(
    root: Path, with_redis: None, kvmark: Run
) -> None:
    code, out, _ = kvmark("up", "redis", "--appendonly", "yes")
    url, started, _ = out.splitlines()
    assert (code, url.startswith("redis://127.0.0.1:"), started[:6]) == (0, True, "redis ")
    code, out, _ = kvmark("up")
    assert (code, url in out) == (0, True)
    address = url.removeprefix("redis://")
    assert kvmark("down")[:2] == (0, f"Stopped redis: primary-1 {address}\n")
    assert kvmark("down")[:2] == (0, "Nothing was up\n")
    assert kvmark("down", "redis", "--remove")[0] == 0
    assert not list(root.iterdir())
    assert kvmark("up")[:2] == (0, "Nothing is up; start a system with: kvmark up redis\n")


def test_up_and_down_print_json(root: Path, with_redis: None, kvmark: Run) -> None:
    started = json.loads(kvmark("up", "redis", "--json")[1])
    (listed,) = json.loads(kvmark("up", "--json")[1])["testbeds"]
    assert {"schema": "kvmark/testbed/1", **listed} == started
    assert started["nodes"][0]["up"]
    (stopped,) = json.loads(kvmark("down", "--json")[1])["stopped"]
    assert stopped["name"] == started["name"]
    assert [node["address"] for node in stopped["nodes"]] == [started["nodes"][0]["address"]]


def test_a_password_never_reaches_the_output(
    root: Path, with_redis: None, kvmark: Run, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text("open sesame\n")
    commands = (["up", "redis", "--password-file", file], ["up", "redis", "--password", "--new"])
    shown = "".join(map(str, [kvmark(*command) for command in (*commands, ["up"])]))
    assert (root / "redis" / "password").read_text() == "open sesame"
    for name in ("redis", "redis-2"):
        assert (root / name / "password").read_text() not in shown
        assert f"password_file={root}/{name}/password" in shown


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
        ("up redis --set hz", "set: 'hz' has no value; write --set key=value"),
        ("up redis --password-file /none", "the password file /none can't be"),
        ("down redis", "there is no testbed 'redis' in"),
        ("up cassandra --cluster 3", "--cluster is no option of cassandra: leave"),
        ("up cassandra --heap much", "heap: 'much' is not a size; write it like"),
        ("up cassandra --memory much", "memory: 'much' is not a size; write it"),
        ("up cassandra --heap 512M --memory 600M",
         "memory: a node with a heap of 512 MiB and 420 MiB beside it doesn't fit"),
        ("up cassandra --version 2.1", "version: '2.1' of Cassandra can't be"),
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
