"""The commands `kvmark up` and `kvmark down`, as a user types them."""

import json
from pathlib import Path

import pytest

from kvmark.cli import main

Output = pytest.CaptureFixture[str]


def test_up_prints_the_url_first_and_down_says_what_it_stopped(
    root: Path, with_redis: None, capsys: Output
) -> None:
    assert main(["up", "redis", "--appendonly", "yes"]) == 0
    url, started, _ = capsys.readouterr().out.splitlines()
    assert url.startswith("redis://127.0.0.1:")
    assert started.startswith("redis ")
    assert main(["up"]) == 0
    assert url in capsys.readouterr().out
    assert main(["down"]) == 0
    address = url.removeprefix("redis://")
    assert capsys.readouterr().out == f"Stopped redis: primary-1 {address}\n"
    assert main(["down"]) == 0
    assert capsys.readouterr().out == "Nothing was up\n"
    assert main(["down", "redis", "--remove"]) == 0
    assert not list(root.iterdir())


def test_up_and_down_speak_json(root: Path, with_redis: None, capsys: Output) -> None:
    assert main(["up", "redis", "--json"]) == 0
    started = json.loads(capsys.readouterr().out)
    assert main(["up", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["testbeds"]
    assert {"schema": "kvmark/testbed/1", **listed} == started
    assert started["nodes"][0]["up"]
    assert main(["down", "--json"]) == 0
    (stopped,) = json.loads(capsys.readouterr().out)["stopped"]
    assert stopped["name"] == started["name"]
    assert [node["address"] for node in stopped["nodes"]] == [started["nodes"][0]["address"]]


def test_a_password_never_reaches_the_output(
    root: Path, with_redis: None, capsys: Output, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text("open sesame\n")
    assert main(["up", "redis", "--password-file", str(file)]) == 0
    assert main(["up", "redis", "--password", "--new"]) == 0
    assert main(["up"]) == 0
    shown = "".join(capsys.readouterr())
    assert (root / "redis" / "password").read_text() == "open sesame"
    for name in ("redis", "redis-2"):
        assert (root / name / "password").read_text() not in shown
        assert f"password_file={root}/{name}/password" in shown


def test_nothing_up_says_how_to_start(root: Path, capsys: Output) -> None:
    assert main(["up"]) == 0
    assert capsys.readouterr().out == "Nothing is up; start a system with: kvmark up redis\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["up", "redis", "--server", "no-redis"], "kvmark: no-redis is missing: install it with"),
        (["up", "redis", "--set", "hz"], "kvmark: set: 'hz' has no value; write --set key=value"),
        (["up", "redis", "--password-file", "/none"], "kvmark: the password file /none can't be"),
        (["down", "redis"], "kvmark: there is no testbed 'redis' in"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(
    root: Path, words: list[str], sentence: str, capsys: Output
) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith(sentence)
    assert said.count("\n") == 1
