"""`kvmark serve` as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest
from runs_on_disk import closed

from kvmark.records import Records

KVMARK = [sys.executable, "-c", "import sys; from kvmark.cli import main; sys.exit(main())"]


@dataclass(frozen=True)
class Served:
    process: subprocess.Popen[str]
    address: str
    run: str

    @property
    def port(self) -> int:
        return int(self.address.rstrip("/").rpartition(":")[2])


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    records = Records(tmp_path / "runs")
    run = closed(records)
    words = ["serve", "--runs", str(records.root), "--port", "0", "--json"]
    process = subprocess.Popen([*KVMARK, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Served(process, json.loads(process.stdout.readline())["address"], run.id)
    finally:
        process.kill()
        process.communicate()


def test_the_runs_of_a_folder_are_served_on_loopback_until_ctrl_c(served: Served) -> None:
    text = httpx.get(served.address).text
    assert served.run in text
    listening = [
        each.laddr.ip
        for each in psutil.Process(served.process.pid).net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    ]
    assert listening == ["127.0.0.1"]
    assert raw(served.port, "/../../etc/passwd").startswith("HTTP/1.1 404")
    assert raw(served.port, "/runs/../../../etc/passwd").startswith("HTTP/1.1 404")
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(timeout=300) == 0


def raw(port: int, target: str) -> str:
    """The answer to an address that no client would send as it stands."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        head = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        with connection.makefile() as answer:
            return answer.read()


def refused(*words: str, **variables: str) -> str:
    done = subprocess.run(
        [*KVMARK, "serve", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
        timeout=300,
    )
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_port_in_use_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port: {port} on 127.0.0.1 can't be used" in refused("--port", str(port))


def test_a_folder_that_is_not_there_is_one_sentence() -> None:
    assert "there is no folder nowhere" in refused("--runs", "nowhere")


def test_without_its_extra_the_sentence_names_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['uvicorn'] = None\n")
    told = refused("--port", "0", PYTHONPATH=str(tmp_path))
    assert "pip install 'kvmark[serve]'" in told
