"""The commands `kvmark up` and `kvmark down`, as a user types them."""

import json
from pathlib import Path

import pytest

from redis_testbeds import Run

CASSANDRA = ("up", "cassandra")


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
    sentence = "Nothing is up; start a system with: kvmark up redis\n"
    assert kvmark("up")[:2] == (0, sentence)


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
        (["up", "redis", "--nodes", "3"], "kvmark: --nodes is no option of redis: leave it out"),
        (["up", "redis", "--memory", "1G"], "kvmark: --memory is no option of redis: leave it out"),
        (["up", "redis", "--server", "no-redis"], "kvmark: no-redis is missing: install it with"),
        (["up", "redis", "--set", "hz"], "kvmark: set: 'hz' has no value; write --set key=value"),
        (["up", "redis", "--password-file", "/none"], "kvmark: the password file /none can't be"),
        (["down", "redis"], "kvmark: there is no testbed 'redis' in"),
        ([*CASSANDRA, "--cluster", "3"], "kvmark: --cluster is no option of cassandra: leave"),
        ([*CASSANDRA, "--heap", "much"], "kvmark: heap: 'much' is not a size; write it like"),
        ([*CASSANDRA, "--memory", "much"], "kvmark: memory: 'much' is not a size; write it"),
        (
            [*CASSANDRA, "--heap", "512M", "--memory", "600M"],
            "kvmark: memory: a node with a heap of 512 MiB and 420 MiB beside it doesn't fit",
        ),
        ([*CASSANDRA, "--version", "2.1"], "kvmark: version: '2.1' of Cassandra can't be"),
        ([*CASSANDRA, "--heap", "900000G"], "kvmark: 1 node with a heap of"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(
    request: pytest.FixtureRequest, root: Path, words: list[str], sentence: str, kvmark: Run
) -> None:
    if "cassandra" in words:
        request.getfixturevalue("with_cassandra")
    code, _, err = kvmark(*words)
    assert (code, err.startswith(sentence), err.count("\n")) == (2, True, 1)
