"""libclang, which reads RocksDB's C header when its bindings are made.

It comes with the locked Python packages, so that no step needs root; on platforms without such a
package, that of the system is used. A library is accepted if it has the functions, not by its name:
`libclang-cpp.so` has none of them.
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
    """Whether the locked packages contain it for this platform (see its line in pyproject.toml)."""
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
    """The folder of a working libclang, if there is one."""
    for place in candidates():
        if any(answers(library) for library in sorted(place.glob("libclang*.*"))):
            return place
    return None


def headers() -> list[str]:
    """The folders of the compiler's and the C library's headers."""
    command = ["cc", "-xc", "-E", "-v", os.devnull]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    except OSError:
        return []
    _, _, rest = said.partition("#include <...> search starts here:\n")
    return [line.strip() for line in rest.partition("End of search list.")[0].splitlines()]


def environment() -> dict[str, str]:
    """The variables by which a build finds it, and the compiler's headers."""
    place = folder()
    if place is None:
        return {}
    told = " ".join(f"-isystem {header}" for header in headers())
    return {
        "LIBCLANG_PATH": str(place),
        "BINDGEN_EXTRA_CLANG_ARGS": os.environ.get("BINDGEN_EXTRA_CLANG_ARGS", told),
    }
