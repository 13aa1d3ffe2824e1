"""A bound on what a server and the kernel's page cache for it take together: a control group.

Without one the page cache of a large machine holds every file that a small server wrote, and no
data set is too large for memory. The bound is the kernel's own, so it holds for the server's
children and for whatever it maps. A group is made inside the one that this process is in, whose own
bounds stay in force (version 1), or beside it, where version 2 allows no group in one that has
processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from kvmark.errors import UsageError
from kvmark.removal import remove_empty

__all__ = ["joining", "make_group", "ran_out", "remove_group"]

_OWN: Final = Path("/proc/self/cgroup")
_MOUNT: Final = Path("/sys/fs/cgroup")
_PROCESSES: Final = "cgroup.procs"
# Where the kernel counts the processes that it killed because the bound was reached.
_KILLS: Final = ("memory.oom_control", "memory.events")
# The bound, and that nothing is moved to a swap device instead of being read again.
_VERSION_1: Final = ("memory.limit_in_bytes", "memory.swappiness")
_VERSION_2: Final = ("memory.max", "memory.swap.max")


def make_group(name: str, most_bytes: int, own: Path = _OWN, mount: Path = _MOUNT) -> Path:
    """The folder of a new group with that bound.

    Args:
        name: a name that no other group has.
        most_bytes: what its processes and their files in the page cache may take together.
        own: where the kernel says which groups this process is in.
        mount: where it shows them.

    Raises:
        UsageError: this user, or this machine, can't have one.
    """
    try:
        parent, (bound, swap) = _parent(own, mount)
        folder = parent / name
        folder.mkdir()
    except OSError as problem:
        raise _refused(problem.strerror or str(problem)) from problem
    try:
        (folder / bound).write_text(str(most_bytes))
    except OSError as problem:
        remove_group(folder)
        raise _refused(f"{folder / bound}: {problem.strerror}") from problem
    # A machine without swap may not have the file.
    with suppress(OSError):
        (folder / swap).write_text("0")
    return folder


def joining(group: Path, command: Sequence[str]) -> tuple[str, ...]:
    """A command that joins a group and then is the other command, in the same process."""
    return ("sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / _PROCESSES), *command)


def ran_out(group: Path) -> bool:
    """Whether the kernel killed a process of the group, for which its bound left no room."""
    for name in _KILLS:
        with suppress(OSError):
            counted = dict(line.split() for line in (group / name).read_text().splitlines())
            return int(counted.get("oom_kill", 0)) > 0
    return False


def remove_group(group: Path) -> None:
    """Removes a group whose processes have ended; one that is gone already is left so."""
    # An empty group costs nothing, and whatever holds it is not worth failing for.
    with suppress(OSError):
        remove_empty(group)


def _parent(own: Path, mount: Path) -> tuple[Path, tuple[str, str]]:
    """Where a group can be made that bounds memory, and the files of its bounds."""
    lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    for _, controllers, path in lines:
        if "memory" in controllers.split(","):
            return mount / "memory" / path.lstrip("/"), _VERSION_1
    for _, controllers, path in lines:
        if not controllers:
            here = mount / path.lstrip("/")
            parent = here if here == mount else here.parent
            if "memory" in (parent / "cgroup.subtree_control").read_text().split():
                return parent, _VERSION_2
    raise OSError("the kernel has no memory controller for groups of this process")


def _refused(why: str) -> UsageError:
    return UsageError(
        f"memory: what a server takes can't be bounded here ({why}): be root on a machine whose"
        " control groups can be written, or leave --memory out"
    )
