"""Removes what was built in this clone. Runs and Cargo's shared target folder stay."""

from __future__ import annotations

import shutil
from pathlib import Path

import target_folder

FOLDERS = (
    ".venv",
    "dist",
    "site",
    ".cache",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "scripts/.ruff_cache",
    ".hypothesis",
)
BUILT = ("python/kvmark/*.so", "report*.html")


def main() -> None:
    """Removes it and says what stays."""
    root = target_folder.ROOT
    caches = [path for name in ("python", "tests", "scripts", "bench") for path in caches_in(name)]
    for folder in [root / name for name in FOLDERS] + caches:
        shutil.rmtree(folder, ignore_errors=True)
    for file in [file for pattern in BUILT for file in root.glob(pattern)]:
        file.unlink()
    print(f"kept: runs, and what was compiled in {target_folder.place()}")


def caches_in(name: str) -> list[Path]:
    """The bytecode folders under a folder of the clone."""
    return list((target_folder.ROOT / name).rglob("__pycache__"))


if __name__ == "__main__":
    main()
