"""libclang, which reads RocksDB's C header when its bindings are made.

It comes with the locked Python packages, so that no step needs root for it; where they have none
for the platform, the system's is used. What counts is whether the library answers, not its name:
`libclang-cpp.so` has none of the functions.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PACKAGED = ("x86_64", "aarch64")
LIBRARIES = Path("/usr/lib")
SYSTEM = ("llvm-*/lib", "*-linux-gnu", "lib64")
PROBE = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).clang_getClangVersion"


def is_packaged() -> bool:
    """Whether the locked packages hold it for this platform, as its line in the lock says."""
    return sys.platform == "darwin" or platform.machine() in PACKAGED


def candidates() -> Iterator[Path]:
    """Folders that may hold it, the user's own choice first."""
    given = os.environ.get("LIBCLANG_PATH")
    if given:
        yield Path(given)
    yield from VENV.glob("lib/python*/site-packages/clang/native")
    for place in SYSTEM:
        yield from sorted(LIBRARIES.glob(place), reverse=True)
    yield LIBRARIES


def answers(library: Path) -> bool:
    """Whether it loads here and has the functions that are called."""
    command = [sys.executable, "-c", PROBE, str(library)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def folder() -> Path | None:
    """Where a libclang lies that works; None where there is none."""
    for place in candidates():
        if any(answers(library) for library in sorted(place.glob("libclang*.*"))):
            return place
    return None


def headers() -> list[str]:
    """The folders in which the compiler looks for headers of its own and of the C library."""
    command = ["cc", "-xc", "-E", "-v", os.devnull]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    except OSError:
        return []
    _, _, rest = said.partition("#include <...> search starts here:\n")
    return [line.strip() for line in rest.partition("End of search list.")[0].splitlines()]


def environment() -> dict[str, str]:
    """What a build must be told to find it, and the headers that come with a compiler."""
    place = folder()
    if place is None:
        return {}
    told = " ".join(f"-isystem {header}" for header in headers())
    return {
        "LIBCLANG_PATH": str(place),
        "BINDGEN_EXTRA_CLANG_ARGS": os.environ.get("BINDGEN_EXTRA_CLANG_ARGS", told),
    }
