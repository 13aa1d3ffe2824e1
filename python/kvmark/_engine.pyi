"""The native half of kvmark: one run at a time, with the interpreter lock released."""

from collections.abc import Callable
from os import PathLike

__all__ = [
    "build_profile",
    "calibrate",
    "check_plan",
    "counting",
    "drivers",
    "run",
    "stamp_lag",
    "version",
]

version: str
build_profile: str
counting: int

def run(
    plan: str,
    folder: str | PathLike[str],
    progress: Callable[[str], object],
    may_begin: Callable[[str], bool | int] | None = None,
    stops: Callable[[], int] | None = None,
) -> str: ...
def check_plan(plan: str) -> str: ...
def calibrate() -> tuple[float, int]: ...
def stamp_lag() -> tuple[int, int] | None: ...
def drivers() -> str: ...
