"""Wrong use of a fleet is reported in one sentence before the measurement."""

import builtins
import re
import socket
from typing import Any

import pytest

from kvmark.cli import main

RUN = ["run", "ycsb/a", "--system", "null:", "--operations", "100", "-q"]


def error(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The error of wrong use."""
    assert main([*RUN, *words]) == 2
    text = re.sub(r"\s+", " ", capsys.readouterr().err)
    assert text.count("\n") <= 1
    return text


@pytest.fixture(autouse=True)
def folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps runs in the test's folder, without a token."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)


def test_a_missing_ray_is_reported_with_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without_ray(name: str, *more: Any, **others: Any) -> Any:
        if name == "ray" or name.startswith("ray."):
            raise ModuleNotFoundError(name=name)
        return real(name, *more, **others)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    assert "pip install 'kvmark[fleet]'" in error(["--fleet", "127.0.0.1:6379"], capsys)


@pytest.mark.parametrize(
    ("words", "variables", "sentence"),
    [
        (["--fleet", "nonsense"], {}, "'nonsense' is not HOST:PORT of a Ray cluster's head"),
        (["--fleet", "ray://127.0.0.1:10001"], {}, "is for Ray's client"),
        (["--machines", "3"], {}, "give --fleet ADDRESS too"),
        (["--fleet", "127.0.0.1:6379"], {"RAY_AUTH_MODE": "token"}, "set RAY_AUTH_TOKEN"),
    ],
)
def test_wrong_arguments_and_a_missing_token_are_reported(
    words: list[str],
    variables: dict[str, str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("ray")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert sentence in error(words, capsys)


def test_an_address_without_an_answer_is_reported_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("ray")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"nothing answers at {address}" in error(["--fleet", address], capsys)
