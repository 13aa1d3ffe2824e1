"""What can be done to servers that were started: stop, kill, pause, start again, describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvmark.errors import UsageError
from kvmark.removal import remove_folder
from kvmark.testbed import network, process
from kvmark.testbed.launch import start_again, start_node, stop_servers
from kvmark.testbed.network import Disturbance, Network
from kvmark.testbed.state import Node, Testbed, all_testbeds, find_testbed
from kvmark.testbed.system import Promotion
from kvmark.testbed.systems import system_of


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
        ForeignFile: a folder to be removed holds files of others.
        SystemUnderTestError: a server can't be stopped.
    """
    chosen = all_testbeds(root) if name is None else [find_testbed(root, name)]
    stopped = [Stopped(testbed.name, stop_servers(testbed), removed=remove) for testbed in chosen]
    if remove:
        for testbed in chosen:
            remove_folder(testbed.folder, system_of(testbed).own_files)
    return stopped


def bring_back(testbed: Testbed, tell: Callable[[str], None] = lambda _: None) -> Testbed:
    """Starts what isn't there of a testbed, as it was and on its data, and waits until it is whole.

    Args:
        testbed: the testbed; one that is up is left as it is.
        tell: is told what goes on.

    Raises:
        UsageError: what it had, such as a port, isn't free any more; or it never was up.
        SystemUnderTestError: a server doesn't start; then all of its files are still there.
    """
    return start_again(testbed, system_of(testbed), tell)


def describe(testbed: Testbed) -> Mapping[str, Any]:
    """Version, effective settings and their fingerprint, for a manifest."""
    return system_of(testbed).describe(testbed)


def kill_node(testbed: Testbed, name: str) -> bool:
    """Kills (SIGKILL) a server and waits until it has ended; False when it had already."""
    found = testbed.node(name).process
    return found is not None and process.kill(found)


def stop_node(testbed: Testbed, name: str) -> bool:
    """Asks a server to end (SIGTERM) and waits until it has; False when it had already."""
    found = testbed.node(name).process
    return found is not None and bool(process.stop([found]))


def pause_node(testbed: Testbed, name: str) -> bool:
    """Stops (SIGSTOP) a server where it stands; False when it had ended."""
    found = testbed.node(name).process
    return found is not None and process.pause(found)


def resume_node(testbed: Testbed, name: str) -> bool:
    """Lets a paused server go on; False when it had ended."""
    found = testbed.node(name).process
    return found is not None and process.resume(found)


def check_disturbance(testbed: Testbed, disturbance: Disturbance) -> None:
    """Makes sure that links of a testbed can be disturbed in this way.

    Raises:
        UsageError: they can't, or another server that it concerns isn't there.
    """
    own = _network(testbed)
    for name in disturbance.towards:
        testbed.node(name)
    network.check_disturbance(own, disturbance)


def disturb_link(testbed: Testbed, name: str, disturbance: Disturbance) -> bool:
    """Disturbs a server's link until `heal_link`; False when the server had ended.

    Raises:
        UsageError: the testbed has no network of its own.
        SystemUnderTestError: it failed.
    """
    own = _network(testbed)
    if not testbed.node(name).lives:
        return False
    network.disturb(own, name, disturbance)
    return True


def heal_link(testbed: Testbed, name: str, disturbance: Disturbance) -> None:
    """Makes a server's link as it was before.

    Raises:
        UsageError: the testbed has no network of its own.
        SystemUnderTestError: it failed.
    """
    network.heal(_network(testbed), name, disturbance)


def promotion_of(testbed: Testbed) -> Promotion:
    """How a replica of a testbed takes its primary's place.

    Raises:
        UsageError: its servers have no primary.
    """
    found = system_of(testbed).promotion
    if found is None:
        raise UsageError(f"{testbed.system} has no primary whose place another could take")
    return found


def restart_node(testbed: Testbed, name: str, within_s: float | None = None) -> Testbed:
    """Starts a server again, as it was and on its data, and waits until it answers.

    One that is still there is stopped first. Others that are down don't hold it up: whether all
    work together again is what `wait_until_healthy` waits for.

    Args:
        testbed: the testbed.
        name: the server's name.
        within_s: the limit in seconds; None for the system's own.

    Returns:
        The testbed with the server's new process.

    Raises:
        SystemUnderTestError: it doesn't start, or not in time.
    """
    node = testbed.node(name)
    if node.process is not None:
        process.stop([node.process])
    changed = start_node(testbed, name)
    system = system_of(changed)
    limit_s = system.healthy_within_s if within_s is None else within_s
    system.wait_for_answer(changed, changed.node(name), limit_s)
    return changed


def wait_until_healthy(testbed: Testbed, within_s: float | None = None) -> None:
    """Waits until each server of a testbed does its work together with the others.

    Args:
        testbed: the testbed.
        within_s: the limit for each in seconds; None for the system's own.

    Raises:
        SystemUnderTestError: one isn't there, or the time is over.
    """
    system = system_of(testbed)
    limit_s = system.healthy_within_s if within_s is None else within_s
    for node in testbed.nodes:
        system.wait_for_node(testbed, node, limit_s)


def _network(testbed: Testbed) -> Network:
    if testbed.network is None:
        raise UsageError(
            f"the servers of testbed {testbed.name} talk over the loopback address, where nothing"
            " can be slow, lost or cut: start them with kvmark up --network, as root"
        )
    return testbed.network
