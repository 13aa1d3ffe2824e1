"""Resolves the Python dependencies anew into requirements.lock and those of wheel and site.

The lock holds versions and hashes for every platform and no address: it installs from whatever
index or mirror the user's pip is set up for.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

import target_folder

OPTIONS = ["--quiet", "--no-header", "--no-annotate", "--no-emit-index-url"]
OPTIONS += ["--no-emit-find-links", "--universal", "--generate-hashes", "--upgrade"]
EXTRAS = ["--extra", "dev", "--extra", "fleet", "--extra", "serve"]
LOCKS = {
    "requirements.lock": ["pyproject.toml", *EXTRAS],
    "requirements-wheel.lock": ["--group", "wheel"],
    # Installed beside the first: what both name has one version.
    "requirements-site.lock": ["--group", "site", "--constraint", "requirements.lock"],
}


def main() -> int:
    """Writes the locks and returns the exit code."""
    if shutil.which("uv") is None:
        print("uv is missing: install it with `pip install uv`.", file=sys.stderr)
        return 1
    for lock, what in LOCKS.items():
        command = ["uv", "pip", "compile", *what, *OPTIONS, "--output-file", lock]
        if code := subprocess.run(command, cwd=target_folder.ROOT, check=False).returncode:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
