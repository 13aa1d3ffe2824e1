"""The process that generates load: it executes plan after plan, and has nothing else loaded.

So its memory and its CPU time are the generator's own. Standard input takes plans, answers, stop
requests and news of planned faults. Standard output has progress, questions and the result of each
plan, as lines of JSON; `generator` is the other end. The line of a plan may come with the lock of
its run, which is held until the plan ends. When standard input ends, kvmark has ended, and so does
this process.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, BinaryIO, Final

from kvmark import _engine
from kvmark.errors import KvmarkError

_MOST_BYTES: Final = 1 << 16
IDLE: Final[dict[str, Any]] = {"stops": 0, "ended_phase": None, "disturbed": False}
"""The requests to a plan when it begins."""


class Worker:
    """Executes one plan after the other."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._plans: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._answers: SimpleQueue[bool | int] = SimpleQueue()
        self._requests = IDLE

    def listen(self, line: socket.socket) -> None:
        """Takes messages, on its own thread, until the connection ends."""
        try:
            for message in read_messages(line):
                if "plan" in message:
                    # Requests to the plan before came too late for it.
                    self._requests = IDLE
                    self._plans.put(message)
                elif "begins" in message:
                    self._answers.put(message["begins"])
                else:
                    self._requests = {**self._requests, **message}
        finally:
            # Also after an incomplete line of a killed kvmark.
            os._exit(0)

    def serve(self) -> None:
        """Executes every plan that comes."""
        while True:
            self._execute(self._plans.get())

    def _execute(self, message: dict[str, Any]) -> None:
        _forget_peak()
        # Drivers take passwords from variables, and no plan may see another's.
        os.environ.update(message["variables"])
        try:
            answer = b'{"result":' + self._result(message).encode() + b"}"
        except KvmarkError as problem:
            answer = _line(problem=[type(problem).__name__, str(problem)])
        except BaseException as problem:  # noqa: BLE001 - kvmark waits for an answer
            answer = _line(problem=["RunError", f"the engine stopped: {problem!r}"])
        finally:
            for name in message["variables"]:
                del os.environ[name]
            # Before the answer, after which the lock must be free.
            for lock in message["lent"]:
                os.close(lock)
        self._send(answer)

    def _result(self, message: dict[str, Any]) -> str:
        may_begin = self._may_begin if message["asks"] else None
        recording = message["recording"]
        return _engine.run(
            message["plan"],
            message["folder"],
            lambda text: self._send(b'{"progress":' + text.encode() + b"}"),
            may_begin,
            lambda: self._requests["stops"],
            (recording[0], bytes.fromhex(recording[1])) if recording else None,
            lambda: self._requests["disturbed"],
            lambda: self._requests["ended_phase"],
        )

    def _may_begin(self, phase: str) -> bool | int:
        self._send(_line(asks=phase))
        return self._answers.get()

    def _send(self, line: bytes) -> None:
        self._out.write(line + b"\n")
        self._out.flush()


def read_messages(line: socket.socket) -> Iterator[dict[str, Any]]:
    """Each line as it comes, with the open files sent with it."""
    unread, lent = bytearray(), list[int]()
    while True:
        data, files, *_ = socket.recv_fds(line, _MOST_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        if not data:
            return
        *ends, rest = data.split(b"\n")
        for end in ends:
            yield {**json.loads(unread + end), "lent": lent}
            unread, lent = bytearray(), []
        unread += rest
        # The kernel ends a read after the byte with a file, which belongs to the next line.
        lent += files


def _line(**message: object) -> bytes:
    return json.dumps(message).encode()


def _forget_peak() -> None:
    """Resets the peak of memory; on other systems than Linux it covers the whole process.

    Memory that the run before has freed goes back to the kernel, where the C library can.
    """
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError), open("/proc/self/clear_refs", "w") as mark:  # noqa: PTH123 - no pathlib
        # See proc(5).
        mark.write("5")


def _main() -> None:
    # Other output must not break the lines.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    worker = Worker(out)
    line = socket.socket(fileno=os.dup(0))
    threading.Thread(target=worker.listen, args=(line,), daemon=True).start()
    worker.serve()


if __name__ == "__main__":
    _main()
