"""The native half of kvmark: one run at a time, with the interpreter lock released."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Self, final

__all__ = [
    "Console",
    "Reuse",
    "StopRule",
    "build_profile",
    "calibrate",
    "check_plan",
    "counting",
    "decode_histogram",
    "draw_law",
    "draw_operations",
    "driver_options",
    "drivers",
    "encode_histogram",
    "hash_keys",
    "kind_of",
    "redis_command",
    "run",
    "shape_of",
    "stamp_lag",
    "tap",
    "version",
]

version: str
build_profile: str
counting: int

@final
class Console:
    def __new__(cls, driver: str, options: str) -> Self: ...
    def ask(self, words: Sequence[str]) -> str: ...

@final
class Reuse:
    def __new__(cls, limit: int) -> Self: ...
    def add(self, keys: bytes, reads: bytes) -> None: ...
    def result(self) -> str: ...

def run(
    plan: str,
    folder: str | PathLike[str],
    progress: Callable[[str], object],
    may_begin: Callable[[str], bool | int] | None = None,
    stops: Callable[[], int] | None = None,
    recording: tuple[str | PathLike[str], bytes] | None = None,
    is_disturbed: Callable[[], bool] | None = None,
    ends: Callable[[], int | None] | None = None,
) -> str: ...

@final
class StopRule:
    def __new__(cls, until: str) -> Self: ...
    def push(
        self, start_ns: int, end_ns: int, rows: int, succeeded: int, largest_service_ns: int
    ) -> None: ...
    def satisfied(self) -> bool: ...
    def relative_stderr(self) -> float | None: ...

def check_plan(plan: str) -> str: ...
def calibrate() -> tuple[float, int]: ...
def stamp_lag() -> tuple[int, int] | None: ...
def decode_histogram(encoded: str) -> bytes: ...
def draw_law(law: str, seed: int, count: int) -> list[int]: ...
def draw_operations(
    plan: str, phase: int, group: int, count: int
) -> tuple[bytes, bytes, bytes]: ...
def encode_histogram(values: Sequence[tuple[int, int]], digits: int) -> str: ...
def hash_keys(key: bytes, joined: bytes, lengths: bytes) -> bytes: ...
def kind_of(verb: str) -> str: ...
def shape_of(verb: str, expires: bool) -> str: ...
def redis_command(
    words: Sequence[bytes],
) -> tuple[list[int], list[int], int | None, int | None]: ...
def tap(
    settings: str,
    folder: str | PathLike[str],
    hash_key: bytes,
    goes_on: Callable[[str], bool],
) -> str: ...
def driver_options() -> str: ...
def drivers() -> str: ...
