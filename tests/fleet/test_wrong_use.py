"""What is wrong with a fleet is told in one sentence before anything is measured."""

import builtins
import re
import socket
from typing import Any

import pytest

from kvmark.cli import main

RUN = ["run", "ycsb/a", "--system", "null:", "--operations", "100", "-q"]


def told(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What is printed of wrong use."""
    assert main([*RUN, *words]) == 2
    text = re.sub(r"\s+", " ", capsys.readouterr().err)
    assert text.count("\n") <= 1
    return text


@pytest.fixture(autouse=True)
def folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No run is left anywhere else, and no token is known."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)


def test_a_missing_ray_is_told_with_the_name_of_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without_ray(name: str, *more: Any, **others: Any) -> Any:
        if name == "ray" or name.startswith("ray."):
            raise ModuleNotFoundError(name=name)
        return real(name, *more, **others)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    assert "pip install 'kvmark[fleet]'" in told(["--fleet", "127.0.0.1:6379"], capsys)


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("nonsense", "'nonsense' is not HOST:PORT of a Ray cluster's head"),
        ("ray://127.0.0.1:10001", "is for Ray's client"),
    ],
)
def test_a_wrong_address_is_told(
    address: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray")
    assert sentence in told(["--fleet", address], capsys)


def test_an_address_where_nothing_answers_is_told_without_a_wait(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("ray")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"nothing answers at {address}" in told(["--fleet", address], capsys)


def test_a_missing_token_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert "set RAY_AUTH_TOKEN" in told(["--fleet", "127.0.0.1:6379"], capsys)


def test_machines_without_a_fleet_are_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert "give --fleet ADDRESS too" in told(["--machines", "3"], capsys)
