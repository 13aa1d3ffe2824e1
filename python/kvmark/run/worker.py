"""The process that generates load: it carries out plan after plan, and has nothing else loaded.

Its memory and its processor time are therefore the generator's own. Standard input brings plans,
answers to questions, wishes to stop and news of planned faults, standard output takes progress,
questions and what came of each plan, a line of JSON each; `generator` has the other end. A plan's
line may bring the locked file of its run, which is held until the plan is carried out. When
standard input ends, whoever wanted the load is gone, and so is this process.
"""

from __future__ import annotations

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
_NEW_PEAK: Final = "5"
"""Lets the kernel count the peak of resident memory anew (proc(5), ``/proc/pid/clear_refs``)."""


class Worker:
    """Carries out one plan after the other."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._plans: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._answers: SimpleQueue[bool | int] = SimpleQueue()
        self._stops = 0
        self._ended_phase: int | None = None
        self._disturbed = False

    def listen(self, line: socket.socket) -> None:
        """Takes what it is told, on a thread of its own, until nobody is left to tell anything."""
        try:
            for told in heard(line):
                self._take(told)
        finally:
            # Also behind half a line, which is all that somebody who was killed got out.
            os._exit(0)

    def _take(self, told: dict[str, Any]) -> None:
        if "plan" in told:
            # What was to stop the plan before came too late for it.
            self._stops, self._ended_phase, self._disturbed = 0, None, False
            self._plans.put(told)
        elif "stops" in told:
            self._stops = told["stops"]
        elif "ended_phase" in told:
            self._ended_phase = told["ended_phase"]
        elif "disturbed" in told:
            self._disturbed = told["disturbed"]
        else:
            self._answers.put(told["begins"])

    def serve(self) -> None:
        """Carries out every plan that comes."""
        while True:
            self._carry_out(self._plans.get())

    def _carry_out(self, told: dict[str, Any]) -> None:
        _forget_peak()
        # Drivers take passwords from variables, and nobody's from another plan's.
        os.environ.update(told["variables"])
        try:
            answer = b'{"result":' + self._result(told).encode() + b"}"
        except KvmarkError as problem:
            answer = _problem(type(problem).__name__, str(problem))
        except BaseException as problem:  # noqa: BLE001 - whoever waits must hear of it
            answer = _problem("RunError", f"the engine stopped: {problem!r}")
        finally:
            for name in told["variables"]:
                del os.environ[name]
            # Before the answer: who has it may take the lock for free.
            for lock in told["lent"]:
                os.close(lock)
        self._tell(answer)

    def _result(self, told: dict[str, Any]) -> str:
        may_begin = self._may_begin if told["asks"] else None
        return _engine.run(
            told["plan"], told["folder"], self._progress, may_begin, lambda: self._stops,
            _recording(told["recording"]), lambda: self._disturbed, lambda: self._ended_phase,
        )  # fmt: skip

    def _progress(self, text: str) -> None:
        self._tell(b'{"progress":' + text.encode() + b"}")

    def _may_begin(self, phase: str) -> bool | int:
        self._tell(json.dumps({"asks": phase}).encode())
        return self._answers.get()

    def _tell(self, line: bytes) -> None:
        self._out.write(line + b"\n")
        self._out.flush()


def heard(line: socket.socket) -> Iterator[dict[str, Any]]:
    """Every line as it comes, with the open files that came with it."""
    unread, lent = bytearray(), list[int]()
    while True:
        got, files, *_ = socket.recv_fds(line, _MOST_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        if not got:
            return
        *ends, rest = got.split(b"\n")
        for end in ends:
            yield {**json.loads(unread + end), "lent": lent}
            unread, lent = bytearray(), []
        unread += rest
        # The kernel ends a read behind the byte that brings a file: it is of the line to come.
        lent += files


def _problem(kind: str, sentence: str) -> bytes:
    return json.dumps({"problem": [kind, sentence]}).encode()


def _recording(told: list[str] | None) -> tuple[str, bytes] | None:
    """A folder, and the hash key that came in hexadecimal."""
    return (told[0], bytes.fromhex(told[1])) if told else None


def _forget_peak() -> None:
    """Begins the mark of the most memory anew; elsewhere than on Linux it is the process's."""
    with suppress(OSError), open("/proc/self/clear_refs", "w") as mark:  # noqa: PTH123 - no pathlib
        mark.write(_NEW_PEAK)


def _main() -> None:
    # Whatever else may print must not break the lines.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    worker = Worker(out)
    line = socket.socket(fileno=os.dup(0))
    threading.Thread(target=worker.listen, args=(line,), daemon=True).start()
    worker.serve()


if __name__ == "__main__":
    _main()
