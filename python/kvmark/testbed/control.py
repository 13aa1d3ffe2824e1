"""Operations on the servers of a testbed: stop, kill, pause, restart, describe, break, restore.

A `FaultGuard` restores broken servers when kvmark itself is killed. It is another process, which
ends when the kernel closes the pipe from kvmark, after it has restored the servers still broken.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from kvmark.errors import KvmarkError, SystemUnderTestError, UsageError
from kvmark.foreign_text import printable
from kvmark.removal import remove_folder
from kvmark.spec.faults import FaultSpec, parse_fault
from kvmark.spec.other_commands import without_secrets
from kvmark.testbed import network, process
from kvmark.testbed.guard import Guard, guarded_lines
from kvmark.testbed.launch import start_node, stop_servers
from kvmark.testbed.network import Network
from kvmark.testbed.process import Identity
from kvmark.testbed.saved import saving
from kvmark.testbed.state import Node, SavedDataset, Testbed, all_testbeds, find_testbed
from kvmark.testbed.system import Promotion, system_of

_COMMAND_S: Final = 60.0
_OUTPUT_BYTES: Final = 4096
_WRITES_WITHIN_S: Final = 1800.0
"""The time in which servers that are saved write all data and stop."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A testbed after `take_down`."""

    name: str
    folder: Path
    nodes: tuple[Node, ...]
    """The servers that lived and were stopped."""
    removed: bool
    """Whether its folder was removed."""
    saved: SavedDataset | None = None
    """The data that was saved."""


def take_down(
    root: Path, name: str | None = None, *, remove: bool = False, save: str | None = None
) -> list[Stopped]:
    """Stops the servers of one testbed, or of all below the root; `save` names its saved dataset.

    Raises:
        UsageError: there is no testbed of that name, or it can't be saved.
        ForeignFile: a folder to be removed holds files of others.
        SystemUnderTestError: a server can't be stopped.
    """
    chosen = all_testbeds(root) if name is None else [find_testbed(root, name)]
    if save is None:
        stopped = [Stopped(one.name, one.folder, stop_servers(one), remove) for one in chosen]
    elif name is None:
        raise UsageError("save: name the testbed, as in kvmark down TESTBED --save NAME")
    else:
        (one,) = chosen
        with saving(one, save) as dataset:
            nodes = stop_servers(one, _WRITES_WITHIN_S)
        stopped = [Stopped(name, one.folder, nodes, remove, dataset)]
    if remove:
        for testbed in chosen:
            remove_folder(testbed.folder, system_of(testbed).own_files)
    return stopped


def describe(testbed: Testbed) -> Mapping[str, Any]:
    """Version, effective settings and their fingerprint, for a manifest."""
    return system_of(testbed).describe(testbed)


def _apply(action: Callable[[Identity], bool], testbed: Testbed, name: str) -> bool:
    found = testbed.node(name).process
    return found is not None and action(found)


# Each returns False when the server had ended.
kill_node = partial(_apply, process.kill)
pause_node = partial(_apply, process.pause)
resume_node = partial(_apply, process.resume)
stop_node = partial(_apply, lambda found: bool(process.stop([found])))


def restart_node(testbed: Testbed, name: str) -> Testbed:
    """Starts a server again on its data, after stopping it if it lives; waits until it answers.

    It doesn't wait for other servers; `wait_until_healthy` does.

    Returns:
        The testbed with the server's new process.

    Raises:
        SystemUnderTestError: it doesn't start, or not in time.
    """
    node = testbed.node(name)
    if node.process is not None:
        process.stop([node.process])
    changed, system = start_node(testbed, name), system_of(testbed)
    system.wait_for_answer(changed, changed.node(name), system.healthy_within_s)
    return changed


def wait_until_healthy(testbed: Testbed, within_s: float | None = None) -> None:
    """Waits until each server of a testbed works together with the others.

    Args:
        testbed: the testbed.
        within_s: the limit for each in seconds; None for the system's default.

    Raises:
        SystemUnderTestError: one has ended, or the time is over.
    """
    system = system_of(testbed)
    limit_s = system.healthy_within_s if within_s is None else within_s
    for node in testbed.nodes:
        system.wait_for_node(testbed, node, limit_s)


def promotion_of(testbed: Testbed) -> Promotion:
    """The functions that promote a replica of a testbed.

    Raises:
        UsageError: its servers have no primary.
    """
    promotion = system_of(testbed).promotion
    if promotion is None:
        raise UsageError(f"{testbed.system} has no primary whose place another could take")
    return promotion


def check_fault(testbed: Testbed | None, fault: FaultSpec) -> None:
    """Refuses a fault that isn't possible in this testbed, or without one.

    Raises:
        UsageError: a server or a program doesn't exist, a server can't be promoted, or links can't
            be disturbed.
    """
    if fault.command is not None:
        for command in filter(None, (fault.command, fault.undo)):
            program = shlex.split(command)[0]
            process.find_program(program, f"there is no program {program}")
        return
    if testbed is None:
        raise UsageError(
            "only servers that kvmark started can be broken on purpose; start one with kvmark up"
            " and name its URL in --system, or break it by a command of yours with 'run'"
        )
    testbed.node(fault.node)
    if fault.do == "promote":
        promotion_of(testbed).check(testbed, fault.node)
    if fault.is_of_link:
        links = _network(testbed)
        for name in fault.others:
            testbed.node(name)
        network.check_disturbance(links, fault)


def begin_fault(testbed: Testbed, fault: FaultSpec) -> bool:
    """Breaks a server or its link; False when the server had ended.

    Raises:
        UsageError: the fault isn't possible in this testbed.
        SystemUnderTestError: it failed.
    """
    match fault.do:
        case "pause":
            return pause_node(testbed, fault.node)
        case "kill":
            return kill_node(testbed, fault.node)
        case "restart":
            return stop_node(testbed, fault.node)
        case "promote":
            promotion_of(testbed).begin(testbed, fault.node)
        case "delay" | "loss" | "partition":
            links = _network(testbed)
            if not testbed.node(fault.node).lives:
                return False
            network.disturb(links, fault)
    return True


def end_fault(testbed: Testbed, fault: FaultSpec) -> Testbed | None:
    """Restores a server or its link; None when the server ended while it was paused.

    Returns:
        The testbed, with the server's new process if it was started.

    Raises:
        UsageError: the fault isn't possible in this testbed.
        SystemUnderTestError: it failed.
    """
    match fault.do:
        case "pause":
            return testbed if resume_node(testbed, fault.node) else None
        case "kill" | "restart":
            return restart_node(testbed, fault.node)
        case "promote":
            promotion_of(testbed).end(testbed, fault.node)
        case "delay" | "loss" | "partition":
            network.heal(_network(testbed), fault)
    return testbed


def carry_out(command: str) -> str:
    """Carries out a command of the user, without a shell and for at most a minute.

    Returns:
        The end of its output, without secrets of this process's environment.

    Raises:
        SystemUnderTestError: it fails, or doesn't end; the text has its last line.
    """
    words = shlex.split(command)
    # A pipe would stay open as long as a server that the command starts.
    with tempfile.TemporaryFile() as output:
        # Its own session: a terminal's Ctrl-C ends the measurement, not the command.
        started = subprocess.Popen(  # noqa: S603 - the user's command
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = started.wait(_COMMAND_S)
            problem = f"{words[0]} ended with {code}" if code else ""
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()
            problem = f"{words[0]} didn't end within {_COMMAND_S:g} s"
        output.seek(max(0, output.tell() - _OUTPUT_BYTES))
        said = without_secrets(output.read().decode(errors="replace"), words)
    if problem:
        last = "".join(f": {printable(line)}" for line in said.splitlines()[-1:])
        raise SystemUnderTestError(problem + last)
    return said


def _network(testbed: Testbed) -> Network:
    if testbed.network is None:
        raise UsageError(
            f"the servers of testbed {testbed.name} talk over the loopback address, where nothing"
            " can be slow, lost or cut: start them with kvmark up --network, as root"
        )
    return testbed.network


class FaultGuard(Guard):
    """The process that restores broken servers. The run restores its servers as well."""

    def __init__(self, folder: Path | None) -> None:
        """For the testbed of a folder; without one, for commands alone."""
        refusal = (
            "the process that sets servers free when kvmark is killed doesn't start: nothing is"
            " broken without it"
        )
        super().__init__(refusal, __name__, *([] if folder is None else [str(folder)]))

    def note(self, fault: FaultSpec, *, acts: bool) -> None:
        """Reports a fault that begins next, or that has ended."""
        self.tell(json.dumps([fault.text, acts]))


def guard(folder: Path | None, lines: Iterable[str]) -> None:
    """Reads the messages of `FaultGuard.note`, then restores broken servers, promotions last.

    Errors are ignored: nothing is left to report them to.
    """
    acting: dict[str, FaultSpec] = {}
    for line in lines:
        text, acts = json.loads(line)
        acting.pop(text, None)
        if acts:
            acting[text] = parse_fault(text)
    for fault in sorted(acting.values(), key=lambda one: one.do == "promote"):
        with suppress(KvmarkError, OSError):
            if fault.undo is not None:
                carry_out(fault.undo)
            if folder is None or fault.do == "run":
                continue
            testbed = Testbed.read(folder)
            # kvmark may have been killed before it broke the server.
            if fault.do not in ("kill", "restart") or not testbed.node(fault.node).lives:
                end_fault(testbed, fault)


if __name__ == "__main__":
    guard(Path(sys.argv[1]) if len(sys.argv) > 1 else None, guarded_lines())
