"""What can be done to servers that are up: stop, kill, pause, resume, start again, describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kvmark.testbed import process
from kvmark.testbed.state import Node, Testbed, all_testbeds, find_testbed, remove_folder
from kvmark.testbed.systems import system_of

__all__ = [
    "Stopped",
    "describe",
    "kill_node",
    "pause_node",
    "restart_node",
    "resume_node",
    "take_down",
    "wait_until_healthy",
]

_HEALTHY_WITHIN_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """A testbed that was taken down."""

    name: str
    nodes: tuple[Node, ...]
    """The servers that were there and are stopped now."""
    removed: bool
    """Whether its folder was removed."""


def take_down(root: Path, name: str | None = None, *, remove: bool = False) -> list[Stopped]:
    """Stops one testbed, or all below the root; what is down already is left as it is.

    Raises:
        UsageError: there is no testbed of that name.
        SystemUnderTestError: a server can't be stopped, or a folder holds files of others.
    """
    chosen = all_testbeds(root) if name is None else [find_testbed(root, name)]
    stopped = [Stopped(testbed.name, _stop(testbed), removed=remove) for testbed in chosen]
    if remove:
        for testbed in chosen:
            remove_folder(testbed.folder, system_of(testbed).own_files)
    return stopped


def describe(testbed: Testbed) -> Mapping[str, Any]:
    """Version, effective settings and their fingerprint, for a manifest."""
    return system_of(testbed).describe(testbed)


def kill_node(testbed: Testbed, name: str) -> bool:
    """Kills (SIGKILL) a server and waits until it has ended; False when it had already."""
    found = testbed.node(name).process
    return found is not None and process.kill(found)


def pause_node(testbed: Testbed, name: str) -> bool:
    """Stops (SIGSTOP) a server where it stands; False when it had ended."""
    found = testbed.node(name).process
    return found is not None and process.pause(found)


def resume_node(testbed: Testbed, name: str) -> bool:
    """Lets a paused server go on; False when it had ended."""
    found = testbed.node(name).process
    return found is not None and process.resume(found)


def restart_node(testbed: Testbed, name: str, within_s: float = _HEALTHY_WITHIN_S) -> Testbed:
    """Starts a server again, as it was and on its data, and waits until it answers.

    One that is still there is stopped first. Others that are down don't hold it up: whether all
    work together again is what `wait_until_healthy` waits for.

    Returns:
        The testbed with the server's new process.

    Raises:
        SystemUnderTestError: it doesn't start, or not in time.
    """
    node = testbed.node(name)
    if node.process is not None:
        process.stop([node.process])
    started = process.start(node.command, testbed.log_of(node), cores=node.cores)
    changed = testbed.with_process(name, started)
    system_of(changed).wait_for_answer(changed, changed.node(name), within_s)
    return changed


def wait_until_healthy(testbed: Testbed, within_s: float = _HEALTHY_WITHIN_S) -> None:
    """Waits until each server of a testbed does its work together with the others.

    Raises:
        SystemUnderTestError: one isn't there, or the time is over.
    """
    for node in testbed.nodes:
        system_of(testbed).wait_for_node(testbed, node, within_s)


def _stop(testbed: Testbed) -> tuple[Node, ...]:
    """Stops all servers at once; those that were there."""
    known = {node.process: node for node in testbed.nodes if node.process is not None}
    return tuple(known[each] for each in process.stop(known))
