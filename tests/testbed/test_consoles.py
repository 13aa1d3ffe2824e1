"""A server asked in its own words, through the engine's drivers."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.secret import Secret
from kvmark.testbed.console import Console

SECRET = "se:s@me/%"
Serve = Callable[[Callable[[socket.socket], None]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves one connection with a function; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def begin(talk: Callable[[socket.socket], None]) -> str:
            def accept() -> None:
                with listener.accept()[0] as connection:
                    talk(connection)

            threading.Thread(target=accept, daemon=True).start()
            return f"127.0.0.1:{listener.getsockname()[1]}"

        yield begin


def test_an_interruption_ends_the_wait_for_an_answer(serve: Serve) -> None:
    def interrupt(connection: socket.socket) -> None:
        connection.recv(100)
        os.kill(os.getpid(), signal.SIGINT)
        # Until the other end has gone.
        connection.recv(100)

    console = Console("redis", {"address": serve(interrupt), "connect_timeout_ms": "3600000"})
    with pytest.raises(KeyboardInterrupt):
        console.ask("PING")
    with pytest.raises(SystemUnderTestError, match="was interrupted"):
        console.ask("PING")


def test_a_password_goes_to_the_server_and_into_no_error(serve: Serve) -> None:
    heard: list[bytes] = []

    def repeat(connection: socket.socket) -> None:
        heard.append(connection.recv(1000))
        connection.sendall(b"-ERR unknown command " + SECRET.encode() + b"\r\n")

    options = {"address": serve(repeat), "username": "ann", "password_env": "NOWHERE"}
    with pytest.raises(SystemUnderTestError, match="the login with ERR") as refused:
        Console("redis", options, Secret(SECRET)).ask("PING")
    assert f"ann\r\n$9\r\n{SECRET}\r\n".encode() in heard[0]
    assert SECRET not in str(refused.value)


def test_what_is_no_server_cannot_be_asked() -> None:
    with pytest.raises(UsageError, match="driver 'null' has no server that could be asked"):
        Console("null", {})
    with pytest.raises(UsageError, match="no driver 'such'"):
        Console("such", {})
    with pytest.raises(UsageError, match="there is no option 'such'"):
        Console("redis", {"such": "1"})
