"""Wrong use of a fleet is reported in one sentence before the measurement."""

import builtins
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cluster import running

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
    ("address", "sentence"),
    [
        ("nonsense", "'nonsense' is not HOST:PORT of a Ray cluster's head"),
        ("ray://127.0.0.1:10001", "is for Ray's client"),
    ],
)
def test_a_wrong_address_is_reported(
    address: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray")
    assert sentence in error(["--fleet", address], capsys)


def test_a_number_of_machines_needs_a_fleet(capsys: pytest.CaptureFixture[str]) -> None:
    assert "give --fleet ADDRESS too" in error(["--machines", "3"], capsys)


def test_an_address_without_an_answer_and_a_missing_token_are_reported_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"nothing answers at {address}" in error(["--fleet", address], capsys)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert "set RAY_AUTH_TOKEN" in error(["--fleet", address], capsys)


def test_a_cluster_that_asks_for_no_token_is_refused() -> None:
    pytest.importorskip("ray")
    kvmark = Path(sys.executable).with_name("kvmark")
    with running(1, token=None) as cluster:
        for token in ({}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 40}):
            command = [kvmark, *RUN, "--fleet", cluster.address]
            environment = {**cluster.environment, **token}
            refused = subprocess.run(command, check=False, env=environment, capture_output=True)
            assert refused.returncode == 2, refused.stderr
            assert b"asks for no token" in refused.stderr
            assert b"--insecure-fleet" in refused.stderr
        command.append("--insecure-fleet")
        # On a busy machine the run is suspect.
        assert subprocess.run(command, check=False, env=cluster.environment).returncode < 2
