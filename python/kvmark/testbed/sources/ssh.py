"""A machine that `ssh` reaches: the files of its kernel below /proc.

One process of `ssh` serves a command. The other machine's shell prints the files for each line that
it reads, and ends with its standard input, also when this process is killed.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO, Final

from kvmark.errors import SystemUnderTestError
from kvmark.foreign_text import printable
from kvmark.spec.observe import ServerSource
from kvmark.testbed.process import is_readable
from kvmark.testbed.sources.exporter import DISK, NETWORK
from kvmark.testbed.sources.sample import TIMEOUT_S, CoreTimes, ServerSample, Source, middle_ns

# A command line of its own: the user's shell there may be any.
_LOOP: Final = (
    "exec /bin/sh -c 'while read -r n; do cat /proc/stat /proc/meminfo /proc/diskstats"
    ' /proc/net/dev 2>/dev/null; echo "kvmark $n"; done\''
)
_CONNECT_S: Final = 10
"""The limit of a connection."""
_AGAIN_S: Final = 10.0
"""The pause before another attempt when ssh has ended."""
_PIECE_BYTES: Final = 1 << 16
_CLOSE_S: Final = 2.0
_TICKS_PER_S: Final = 100
"""The unit of the times in /proc/stat, on all machines."""
_SECTOR_BYTES: Final = 512
_KIB: Final = 1024
_CORE: Final = re.compile(r"cpu\d+")


class SshSource(Source):
    """One machine."""

    def __init__(self, source: ServerSource) -> None:
        super().__init__(source)
        self._host = source.place.reveal().removeprefix("ssh:")
        if self._host.startswith("//"):
            self._host = f"ssh:{self._host}"
        self._cores = CoreTimes()
        self._number = 0
        self._unread = b""
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._started_s = 0.0

    def read(self) -> ServerSample:
        """The sample of the machine's files; connects first where ssh has ended."""
        now_s = time.monotonic()
        limit_s = TIMEOUT_S
        if self._process is None or self._process.poll() is not None:
            if self._process is not None and now_s < self._started_s + _AGAIN_S:
                raise SystemUnderTestError("doesn't answer: ssh has ended")
            self.close()
            self._process, self._started_s, self._unread = self._start(), now_s, b""
            limit_s += _CONNECT_S
        begun_ns = time.time_ns()
        answer = self._answer(self._process, now_s + limit_s)
        try:
            return self.sample_of(answer, middle_ns(begun_ns))
        except ValueError as problem:
            raise SystemUnderTestError(f"answers with something else: {problem}") from problem

    def close(self) -> None:
        """Ends ssh, and with it the loop on the other machine."""
        if self._process is None:
            return
        with suppress(OSError):
            _open(self._process.stdin).close()
        try:
            self._process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # Another thread that still reads sees the end now. Closed earlier, its descriptor could be
        # another file's.
        with self._lock:
            _open(self._process.stdout).close()
            _open(self._errors).close()

    def sample_of(self, text: str, at_wall_ns: int) -> ServerSample:
        """The sample of the files' text.

        Raises:
            SystemUnderTestError: it has no times of cores.
            ValueError: it isn't that of such files.
        """
        values: defaultdict[str, float] = defaultdict(float)
        worked_s: dict[str, float] = {}
        for line in text.splitlines():
            for field, value in _counters_of(line.replace(":", " : ").split()):
                values[field] += value
                if field in {"cpu_user_s", "cpu_system_s"}:
                    core = line.split()[0]
                    worked_s[core] = worked_s.get(core, 0.0) + value
        if not worked_s:
            raise SystemUnderTestError("doesn't answer: the machine has no /proc/stat")
        busiest = self._cores.busiest(at_wall_ns, worked_s)
        return ServerSample.of(at_wall_ns, values, cores=len(worked_s), busiest_core=busiest)

    def _start(self) -> subprocess.Popen[bytes]:
        options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_S}", "-T"]
        pipe = subprocess.PIPE
        # No pipe: a connection that ssh shares keeps it open.
        self._errors = TemporaryFile()  # noqa: SIM115 - closed with ssh
        try:
            return subprocess.Popen(  # noqa: S603 - the host is checked where it is parsed
                ["ssh", *options, "--", self._host, _LOOP],  # noqa: S607 - the user's ssh
                stdin=pipe, stdout=pipe, stderr=self._errors, start_new_session=True,
            )  # fmt: skip
        except OSError as problem:
            self._errors.close()
            raise SystemUnderTestError(f"can't be reached: ssh: {problem.strerror}") from problem

    def _answer(self, process: subprocess.Popen[bytes], until_s: float) -> str:
        """The files' text. Answers to earlier requests, which were late, are skipped."""
        self._number += 1
        end = f"kvmark {self._number}\n".encode()
        with suppress(OSError):
            os.write(_open(process.stdin).fileno(), f"{self._number}\n".encode())
        output = _open(process.stdout).fileno()
        while end not in self._unread:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not is_readable(output, left_s):
                raise SystemUnderTestError("doesn't answer in time")
            piece = os.read(output, _PIECE_BYTES)
            if not piece:
                raise SystemUnderTestError(f"doesn't answer: {self._last_words(process)}")
            self._unread += piece
        answer, _, self._unread = self._unread.partition(end)
        return answer.rpartition(b"kvmark ")[2].decode("utf-8", "replace")

    def _last_words(self, process: subprocess.Popen[bytes]) -> str:
        """The last line of ssh's errors."""
        with suppress(subprocess.TimeoutExpired):
            process.wait(_CLOSE_S)
        errors = _open(self._errors)
        errors.seek(0)
        lines = errors.read(_PIECE_BYTES).decode("utf-8", "replace").strip().splitlines()
        return printable(lines[-1]) if lines else "ssh has ended"


def _counters_of(words: list[str]) -> Iterator[tuple[str, float]]:
    """The fields that a line of the files adds to, with the values.

    Raises:
        ValueError: it has another form than such lines have.
    """
    match words:
        case [core, user, nice, system, _, _, irq, softirq, *_] if _CORE.fullmatch(core):
            yield "cpu_user_s", (int(user) + int(nice)) / _TICKS_PER_S
            yield "cpu_system_s", (int(system) + int(irq) + int(softirq)) / _TICKS_PER_S
        case ["MemTotal", ":", kib, "kB"]:
            yield "resident_bytes", int(kib) * _KIB
        case ["MemAvailable", ":", kib, "kB"]:
            yield "resident_bytes", -int(kib) * _KIB
        case [_, _, disk, _, _, read, _, _, _, written, *_] if DISK.fullmatch(disk):
            yield "disk_read_bytes", int(read) * _SECTOR_BYTES
            yield "disk_written_bytes", int(written) * _SECTOR_BYTES
        case [device, ":", received, _, _, _, _, _, _, _, sent, *_] if NETWORK.fullmatch(device):
            yield "network_received_bytes", int(received)
            yield "network_sent_bytes", int(sent)


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("files are opened with the process")
    return pipe
