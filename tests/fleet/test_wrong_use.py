"""Wrong use of a fleet is reported in one sentence before the measurement."""

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import running

from kvmark.cli import main

RUN = ["run", "ycsb/a", "--system", "null:", "--operations", "100", "-q"]


Error = Callable[..., str]


@pytest.fixture
def error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Error:
    """The error of wrong use, in the test's folder and without a token."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> str:
        assert main([*RUN, *words]) == 2
        text = capsys.readouterr().err
        assert text.count("\n") <= 1
        return text

    return run


def test_a_missing_ray_is_reported(monkeypatch: pytest.MonkeyPatch, error: Error) -> None:
    # An import of such a module fails.
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "pip install 'kvmark[fleet]'" in error("--fleet", "127.0.0.1:6379")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--fleet", "nonsense"], "'nonsense' is not HOST:PORT of a Ray cluster's head"),
        (["--fleet", "ray://127.0.0.1:10001"], "is for Ray's client"),
        (["--machines", "3"], "give --fleet ADDRESS too"),
    ],
)
def test_wrong_arguments_are_reported(error: Error, words: list[str], sentence: str) -> None:
    pytest.importorskip("ray")
    assert sentence in error(*words)


def test_no_answer_and_no_token_are_reported(error: Error, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"nothing answers at {address}" in error("--fleet", address)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert "set RAY_AUTH_TOKEN" in error("--fleet", address)


def test_a_cluster_that_asks_for_no_token_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    kvmark = Path(sys.executable).with_name("kvmark")
    with running(1, token=None) as cluster:
        home = {**cluster.environment, "KVMARK_RUNS": str(tmp_path)}
        for token in ({}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 40}):
            command = [kvmark, *RUN, "--fleet", cluster.address]
            own = {**home, **token}
            refused = subprocess.run(command, check=False, env=own, capture_output=True)
            assert refused.returncode == 2, refused.stderr
            assert b"asks for no token" in refused.stderr
            assert b"--insecure-fleet" in refused.stderr
        command.append("--insecure-fleet")
        # On a busy machine the run is suspect.
        assert subprocess.run(command, check=False, env=home).returncode < 2
