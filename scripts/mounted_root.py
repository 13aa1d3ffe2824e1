"""Runs a command in a root that is a mount point, as root in a chroot whose root is none.

python3 scripts/mounted_root.py COMMAND...

In a chroot whose root isn't a mount point, the Java VM finds no file system under any path and `ip
netns` can't create a namespace, so that Cassandra and testbeds with network links can't be tested.
There the command runs in a mount namespace with the same root, mounted. Elsewhere it just runs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
# The mount is removed at the end: other namespaces share it.
SCRIPT = """
root=$(mktemp -d) && mount --rbind / "$root" || exit 1
trap 'umount -R -l "$root"; rmdir "$root"' EXIT
chroot "$root" sh -c 'cd "$1" && shift && exec "$@"' sh "$@"
"""


def is_mounted(mounts: str) -> bool:
    """Whether the root is among these mount points (proc(5), mountinfo: the fifth field)."""
    return any(fields[4] == "/" for line in mounts.splitlines() if len(fields := line.split()) > 4)


def words(command: list[str], mounts: str, user: int, folder: str) -> list[str]:
    """The command, or the command that runs it in a mounted root."""
    if user != 0 or not mounts or is_mounted(mounts):
        return command
    apart = ["unshare", "--mount", "--propagation", "unchanged"]
    return [*apart, "sh", "-c", SCRIPT, "sh", folder, *command]


def main(command: list[str]) -> None:
    """Becomes the command."""
    mounts = MOUNTS.read_text() if MOUNTS.exists() else ""
    whole = words(command, mounts, os.geteuid(), str(Path.cwd()))
    os.execvp(whole[0], whole)  # noqa: S606 - the user's own words


if __name__ == "__main__":
    main(sys.argv[1:])
