"""Cargo's target folder, shared by all clones of this repository.

The crates compile for minutes, so their artefacts live outside the clone, where a second clone
finds them. The trap: Cargo decides by modification times whether an artefact is fresh, and names
artefacts alike in every clone. A clone whose files are older than another clone's artefacts would
get those: another clone's code, without a warning.

So contents decide here, not times. The folder has a record of the sources of the workspace's
crates: the clone's place and the bytes of its files. If the sources of a build differ, the crate's
artefacts are removed first; those of the dependencies stay. A lock is held from the comparison
until the result is installed: no other clone builds in between.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import libclang
import rocksdb_library

ROOT = Path(__file__).resolve().parent.parent
RECORD = "kvmark-built-from.json"
LOCK = "kvmark-lock"


def place() -> Path:
    """The folder: CARGO_TARGET_DIR when set, else one in the user's cache."""
    given = os.environ.get("CARGO_TARGET_DIR")
    return Path(given).absolute() if given else rocksdb_library.cache() / "target"


def digest(paths: list[Path], *words: str) -> str:
    """A hash of words and of every file at or under the paths, by name and content."""
    result = hashlib.sha256("\0".join(words).encode())
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in filter(Path.is_file, files):
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            result.update(f"\0{file.relative_to(ROOT)}\0{content}".encode())
    return result.hexdigest()


def crates() -> dict[str, str]:
    """The workspace's own crates: name and a hash of the sources."""
    # Imported here, so that an older Python can print that it is too old.
    import tomllib  # noqa: PLC0415

    found = {}
    for manifest in sorted(ROOT.glob("crates/*/Cargo.toml")):
        name = tomllib.loads(manifest.read_text())["package"]["name"]
        found[name] = digest([manifest.parent], str(ROOT))
    return found


def sources() -> dict[str, str]:
    """The sources of each crate whose artefacts Cargo confuses with others.

    The crate of RocksDB is one: its archive stays in its folder, and the linker takes that instead
    of the library that a later build names.
    """
    crate = rocksdb_library.CRATES[0]
    library = str(rocksdb_library.library() or os.environ.get("ROCKSDB_LIB_DIR", "its own"))
    return crates() | ({crate: library} if rocksdb_library.locked(crate)[0] else {})


def stale(built: dict[str, str], wanted: dict[str, str]) -> list[str]:
    """Crates that were built from other or unknown sources."""
    return [name for name, source in wanted.items() if built.get(name) != source]


def read_record(folder: Path) -> dict[str, str]:
    """The recorded sources of the folder's artefacts; empty if unknown."""
    try:
        record: dict[str, str] = json.loads((folder / RECORD).read_text())
    except (OSError, ValueError):
        return {}
    return record


def remove(folder: Path, names: list[str]) -> None:
    """Removes the artefacts of these crates and of no others, for every target that was built."""
    packages = [word for name in names for word in ("-p", name)]
    targets = [["--target", place.parent.name] for place in folder.glob("*-*-*/release")]
    for target in [[], *targets]:
        command = ["cargo", "clean", "--quiet", "--release", *target, *packages]
        subprocess.run(command, cwd=ROOT, env=environment(folder), check=True)


def environment(folder: Path) -> dict[str, str]:
    """The environment in which Cargo builds into the folder, the same for every command.

    PyO3 is built again if its Python changes. maturin names the Python in a file in the folder, so
    the other commands name the same file.
    """
    named = sorted(folder.glob("maturin/pyo3-config-*.txt"))
    pyo3 = {"PYO3_BUILD_EXTENSION_MODULE": "1", "PYO3_CONFIG_FILE": str(named[-1])} if named else {}
    found = libclang.environment() | rocksdb_library.environment(rocksdb_library.library())
    return {**os.environ, "CARGO_TARGET_DIR": str(folder), **pyo3, **found}


@contextlib.contextmanager
def held() -> Iterator[Path]:
    """The folder, locked and without artefacts of other code, until the block ends."""
    folder = place()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another build in {folder}", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = sources()
        names = stale(read_record(folder), wanted)
        if names:
            # Forgotten before it is removed: a kill between the two must not leave a false record.
            (folder / RECORD).unlink(missing_ok=True)
            remove(folder, names)
            (folder / RECORD).write_text(json.dumps(wanted, indent=1))
        yield folder
