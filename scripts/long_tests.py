"""Property tests with new cases: Rust's, then Python's, from a seed that is printed.

`make test` draws the same cases each time. This draws more and other cases, and prints their seed:
`make test-long SEED=…` repeats them.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEED_BITS = 32
CARGO = (sys.executable, str(ROOT / "scripts" / "cargo.py"), "test", "--release", "--locked")
PYTEST = (sys.executable, "-m", "pytest", "--numprocesses", "2", "-m", "hypothesis")


def crates(root: Path) -> Iterator[str]:
    """The crates that have property tests."""
    for path in sorted(root.glob("crates/*/Cargo.toml")):
        manifest = tomllib.loads(path.read_text())
        if "proptest" in manifest.get("dev-dependencies", {}):
            yield manifest["package"]["name"]


def commands(seed: int, root: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The commands, each with its additional variables."""
    packages = [word for name in crates(root) for word in ("--package", name)]
    yield [*CARGO, *packages], {"PROPTEST_RNG_SEED": str(seed), "PROPTEST_CASES": "2000"}
    yield [*PYTEST, "--hypothesis-profile=long", f"--hypothesis-seed={seed}"], {}


def main(arguments: list[str]) -> int:
    """Runs all property tests and returns the exit code."""
    parser = argparse.ArgumentParser(description="Property tests with new cases.")
    parser.add_argument("--seed", type=int, help="repeat the cases of an earlier call")
    seed = parser.parse_args(arguments).seed
    seed = secrets.randbits(SEED_BITS) if seed is None else seed
    said = f"Property tests with seed {seed}; again with `make test-long SEED={seed}`."
    print(said, flush=True)
    codes = [
        subprocess.run(command, cwd=ROOT, env={**os.environ, **more}, check=False).returncode
        for command, more in commands(seed, ROOT)
    ]
    print(said, flush=True)
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
