"""Removes a driver from a copy of the tree and checks that the rest builds, and that it starts.

python3 scripts/without_driver.py DRIVER [--testbed NAME] [--quick]

DRIVER is a crate's name without `kvmark-`, such as driver-resp. What is removed is all that may
name it: its crate, the lines of the registry and the manifests, and, where kvmark starts the system
itself, the folder of its testbed and the lines of `testbed/systems.py`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import target_folder

ROOT = Path(__file__).resolve().parent.parent
MANIFESTS = ("Cargo.toml", "crates/pyext/Cargo.toml", "crates/pyext/src/registry.rs")
SYSTEMS = "python/kvmark/testbed/systems.py"
STARTS = "from kvmark.cli import main; raise SystemExit(main(['up', '--help']))"


def main() -> int:
    """Copies, removes, checks; the first command that fails gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("driver", help="the crate's name without kvmark-")
    parser.add_argument("--testbed", help="the folder of its testbed, if it has one")
    parser.add_argument("--quick", action="store_true", help="resolve the crates, compile nothing")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvmark-without-") as name:
        copy = Path(name)
        copied(copy)
        removed(copy, given.driver, given.testbed)
        return checked(copy, quick=given.quick)


def copied(copy: Path) -> None:
    """The files of the tree, committed or about to be, and the engine that is built."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    built = [str(path.relative_to(ROOT)) for path in ROOT.glob("python/kvmark/*.so")]
    for name in [*filter(None, listing.split("\0")), *built]:
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)


def removed(copy: Path, driver: str, testbed: str | None) -> None:
    """Takes out a driver, and the testbed of that name."""
    shutil.rmtree(copy / "crates" / driver)
    spelt = rf"kvmark[-_]{driver.replace('-', '[-_]')}\b"
    for name in MANIFESTS:
        without_lines(copy / name, spelt)
    if testbed is not None:
        shutil.rmtree(copy / "python" / "kvmark" / "testbed" / testbed)
        without_lines(copy / SYSTEMS, rf"testbed\.{testbed} import|^\s+{testbed.upper()},$")


def without_lines(path: Path, pattern: str) -> None:
    """Removes the lines in which a pattern is found; there must be one."""
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not re.search(pattern, line)]
    if len(kept) == len(lines):
        raise SystemExit(f"{path.name} has no line with {pattern}")
    path.write_text("".join(kept))


def checked(copy: Path, *, quick: bool) -> int:
    """Whether the engine compiles, and the command line knows the systems that are left."""
    resolved = ["cargo", "metadata", "--quiet", "--offline", "--format-version=1"]
    words = ["check", "--release", "--offline", "-p", "kvmark-pyext"]
    # A folder apart: artefacts are named alike in every clone.
    apart = {**os.environ, "CARGO_TARGET_DIR": str(target_folder.place() / "without")}
    cargo = resolved if quick else [sys.executable, "scripts/cargo.py", *words]
    told = subprocess.DEVNULL if quick else None
    code = subprocess.run(cargo, cwd=copy, env=apart, stdout=told, check=False).returncode
    if code:
        return code
    python = {**os.environ, "PYTHONPATH": str(copy / "python")}
    return subprocess.run(
        [sys.executable, "-c", STARTS], cwd=copy, env=python, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
