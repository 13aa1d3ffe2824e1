"""The Java that Cassandra runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kvmark.errors import UsageError

__all__ = ["MAJOR", "Java", "find_java"]

MAJOR: Final = 17
"""The version of Java that both Cassandra 5.0 and 6.0 run on with the options kvmark gives them."""

_VERSION: Final = re.compile(r'version "((?:1\.)?(\d+)[^"]*)"')
_INSTALLED: Final = Path("/usr/lib/jvm")
_ANSWERS_WITHIN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Java:
    """A Java program."""

    program: str
    version: str
    major: int


def find_java() -> Java:
    """Java 17: that of JAVA_HOME, the first one on the search path, or one that Debian installed.

    Raises:
        UsageError: there is none.
    """
    found = [java for program in _programs() if (java := _look_at(program)) is not None]
    for java in found:
        if java.major == MAJOR:
            return java
    package = f"install it with `sudo apt-get install openjdk-{MAJOR}-jre-headless`"
    if not found:
        raise UsageError(f"Java is missing: {package}")
    raise UsageError(
        f"Cassandra needs Java {MAJOR} and not {found[0].version} ({found[0].program}): {package},"
        " or name its folder with JAVA_HOME"
    )


def _programs() -> Iterator[str]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield str(Path(home) / "bin" / "java")
    first = shutil.which("java")
    if first is not None:
        yield first
    yield from (str(path) for path in sorted(_INSTALLED.glob(f"*-{MAJOR}-*/bin/java")))


def _look_at(program: str) -> Java | None:
    """What a program says of itself; None if it isn't Java."""
    try:
        answer = subprocess.run(  # noqa: S603 - the word is a program's path
            [program, "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_ANSWERS_WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = _VERSION.search(answer.stderr)
    return Java(program, version[1], int(version[2])) if version else None
