"""Resolves the Python dependencies anew into requirements.lock.

The lock holds versions and hashes for every platform and no address: it installs from whatever
index or mirror the user's pip is set up for.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

import target_folder

QUIET = ["--quiet", "--no-header", "--no-annotate"]
NO_ADDRESS = ["--no-emit-index-url", "--no-emit-find-links"]
EXTRAS = ["--extra", "dev", "--extra", "fleet", "--extra", "serve"]
WHAT = ["pyproject.toml", *EXTRAS, "--universal", "--generate-hashes"]


def main() -> int:
    """Writes the lock and returns the exit code."""
    if shutil.which("uv") is None:
        print("uv is missing: install it with `pip install uv`.", file=sys.stderr)
        return 1
    command = ["uv", "pip", "compile", *WHAT, *NO_ADDRESS, *QUIET, "--upgrade"]
    command += ["--output-file", "requirements.lock"]
    return subprocess.run(command, cwd=target_folder.ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
