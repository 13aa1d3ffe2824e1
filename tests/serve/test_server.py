"""`kvmark serve` as a process."""

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
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from kvmark.records import Records
from runs_on_disk import closed

KVMARK = [sys.executable, "-c", "import sys; from kvmark.cli import main; sys.exit(main())"]


@dataclass(frozen=True)
class Served:
    process: subprocess.Popen[str]
    address: str
    run: str
    folder: Path

    @property
    def port(self) -> int:
        return int(urlsplit(self.address).port or 0)

    @property
    def token(self) -> str:
        return self.address.partition("token=")[2]

    def stop(self) -> str:
        """Its output, when it has ended on Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=300)
        assert self.process.returncode == 0
        return out


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    records = Records(tmp_path / "runs")
    run = closed(records)
    words = ["serve", "--runs", str(records.root), "--port", "0", "--json"]
    err = (tmp_path / "err").open("w")
    process = subprocess.Popen([*KVMARK, *words], stdout=subprocess.PIPE, stderr=err, text=True)
    try:
        address = json.loads(process.stdout.readline())["address"]
        yield Served(process, address, run.id, tmp_path)
    finally:
        process.kill()
        process.communicate()
        err.close()


def test_the_runs_of_a_folder_are_served_on_loopback_until_ctrl_c(served: Served) -> None:
    with httpx.Client(follow_redirects=True) as client:
        assert served.run in client.get(served.address).text
        assert served.run in client.get(f"http://127.0.0.1:{served.port}/").text
    listening = [
        each.laddr.ip
        for each in psutil.Process(served.process.pid).net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    ]
    assert listening == ["127.0.0.1"]
    cookie = f"kvmark-{served.port}={served.token}"
    assert raw(served.port, "/../../etc/passwd", cookie).startswith("HTTP/1.1 404")
    assert raw(served.port, "/runs/../../../etc/passwd", cookie).startswith("HTTP/1.1 404")
    served.stop()


def test_an_invalid_request_prints_no_traceback(served: Served) -> None:
    host = f"Host: 127.0.0.1:{served.port}\r\nCookie: kvmark-{served.port}={served.token}\r\n"
    upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    for text in (
        f"POST / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\nZZZ\r\n",
        f"GET / HTTP/1.1\r\n{host}{upgrade}Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            connection.sendall(text.encode())
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as answer:
                answer.read()
    served.stop()
    assert (served.folder / "err").read_text() == ""


def raw(port: int, target: str, cookie: str = "") -> str:
    """The response to an address that clients would normalise."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        head = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
        connection.sendall(f"{head}Cookie: {cookie}\r\n\r\n".encode())
        with connection.makefile() as answer:
            return answer.read()


def refused(*words: str, **variables: str) -> str:
    done = subprocess.run(
        [*KVMARK, "serve", *words], capture_output=True, text=True, check=False,
        env={**os.environ, **variables}, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done
    return done.stderr


def test_a_server_that_can_not_start_says_why(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port: {port} on 127.0.0.1 can't be used" in refused("--port", str(port))
    assert "there is no folder nowhere" in refused("--runs", "nowhere")
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['uvicorn'] = None\n")
    error = refused("--port", "0", PYTHONPATH=str(tmp_path))
    assert "pip install 'kvmark[serve]'" in error


def test_the_token_is_in_no_log_no_file_and_no_list_of_processes(served: Served) -> None:
    assert len(served.token) >= 32
    for target in (f"/?token={served.token}", f"/runs/none?token={served.token}", "not http"):
        raw(served.port, target)
    raw(served.port, "/", f"kvmark-{served.port}={served.token}")
    words = Path(f"/proc/{served.process.pid}/cmdline").read_bytes()
    out = served.stop()
    files = [path for path in served.folder.rglob("*") if path.is_file()]
    assert served.folder / "err" in files
    for content in (words, out.encode(), *(path.read_bytes() for path in files)):
        assert served.token.encode() not in content


def test_each_start_has_another_token(served: Served, tmp_path: Path) -> None:
    words = ["serve", "--runs", str(tmp_path / "runs"), "--port", "0", "-q"]
    with subprocess.Popen([*KVMARK, *words], stdout=subprocess.PIPE, text=True) as second:
        second_served = Served(second, second.stdout.readline().strip(), "", tmp_path)
        second_served.stop()
    assert len(second_served.token) >= 32
    assert second_served.token != served.token
