"""Writes the licences of the libraries in a wheel to dist/LICENCES.md, with cargo-about.

It is installed into the cache first, where it isn't there: two minutes on two cores.
"""

from __future__ import annotations

import subprocess
import sys

import rocksdb_library

import setup

VERSION = "0.9.3"
FOLDER = setup.ROOT / "scripts" / "licences"
OUTPUT = setup.ROOT / "dist" / "LICENCES.md"


def main() -> int:
    """Writes the file and returns the exit code."""
    tool = rocksdb_library.cache() / f"cargo-about-{VERSION}"
    program = tool / "bin" / "cargo-about"
    if not program.exists():
        options = ("--version", VERSION, "--locked", "--features", "cli", "--root", str(tool))
        subprocess.run(["cargo", "install", "cargo-about", *options], check=True)
    OUTPUT.parent.mkdir(exist_ok=True)
    manifest = setup.ROOT / "crates" / "pyext" / "Cargo.toml"
    words = ("--config", FOLDER / "about.toml", "--manifest-path", manifest, "--locked", "--fail")
    command = [program, "generate", *words, FOLDER / "about.hbs", "-o", OUTPUT]
    subprocess.run(list(map(str, command)), cwd=setup.ROOT, check=True)
    print(f"{OUTPUT.relative_to(setup.ROOT)}: {OUTPUT.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
