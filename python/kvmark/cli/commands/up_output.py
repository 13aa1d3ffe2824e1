"""What `kvmark up` and `kvmark down` say of testbeds, while they work and in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from rich.console import Console
from rich.text import Text

from kvmark.cli.output import print_answer, print_json
from kvmark.testbed.control import Stopped
from kvmark.testbed.state import Node, Testbed, all_testbeds, testbeds_root
from kvmark.testbed.systems import system_of

__all__ = [
    "How",
    "ended",
    "list_testbeds",
    "started",
    "stopped_document",
    "telling",
    "testbed_document",
]


@contextmanager
def telling(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Shows what goes on, on standard error: one line that changes, or elsewhere one a step."""
    if quiet:
        yield lambda _: None
        return
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if console.is_terminal:
        with console.status("") as status:
            yield lambda text: status.update(Text(text))
        return
    told: set[str] = set()

    def tell(text: str) -> None:
        step, _, _ = text.partition(": ")
        if step not in told:
            told.add(step)
            console.print(Text(step))

    yield tell


def list_testbeds(*, json: bool) -> None:
    """Prints all testbeds and whether they are up."""
    found = all_testbeds(testbeds_root())
    if json:
        print_json("testbeds", {"testbeds": [testbed_document(testbed) for testbed in found]})
    elif found:
        width = max(len(testbed.name) for testbed in found)
        print_answer(Text("\n").join(_line(testbed, width) for testbed in found))
    else:
        print_answer(Text("Nothing is up; start a system with: kvmark up redis"))


def _line(testbed: Testbed, width: int) -> Text:
    living = sum(node.lives for node in testbed.nodes)
    if living == len(testbed.nodes):
        state, style, where = "up", "green", testbed.url
    else:
        state = f"{living} of {len(testbed.nodes)} up" if living else "down"
        style, where = "yellow" if living else "dim", str(testbed.folder)
    line = Text(f"{testbed.name:<{width}}  ")
    line.append(f"{state:<11}", style)
    return line.append(f"  {testbed.system} {testbed.version}  {where}")


How: TypeAlias = Literal["up", "up again", "up already"]


def started(testbed: Testbed, how: How) -> Iterator[Text]:
    """What is said of a testbed that is up, up again or up already; its URL first, to be copied."""
    servers = ", ".join(f"{node.name} {node.address}" for node in testbed.nodes)
    yield Text(testbed.url, "bold")
    yield Text(f"{testbed.system} {testbed.version} is {how} as '{testbed.name}': {servers}")
    forgotten = system_of(testbed).forgets(testbed.made_with)
    if how == "up again" and forgotten:
        yield Text(forgotten)
    yield Text(f"Stop it with: kvmark down {testbed.name}", "dim")


def ended(stopped: list[Stopped], *, named: bool) -> Iterator[Text]:
    """What is said of testbeds that were taken down, all or the one that was named."""
    for one in stopped:
        if one.nodes:
            servers = ", ".join(f"{node.name} {node.address}" for node in one.nodes)
            yield Text(f"Stopped {one.name}: {servers}")
        elif named:
            yield Text(f"{one.name} was down already")
        if one.removed:
            yield Text(f"Removed the folder of {one.name}")
    if not named and not any(one.nodes or one.removed for one in stopped):
        yield Text("Nothing was up")


def testbed_document(testbed: Testbed) -> dict[str, Any]:
    """A testbed as values for JSON."""
    return {
        "name": testbed.name,
        "system": testbed.system,
        "version": testbed.version,
        "url": testbed.url,
        "folder": str(testbed.folder),
        "nodes": [_node_document(node) for node in testbed.nodes],
    }


def stopped_document(stopped: Stopped) -> dict[str, Any]:
    """A testbed that was taken down, likewise."""
    nodes = [_node_document(node) for node in stopped.nodes]
    return {"name": stopped.name, "nodes": nodes, "removed": stopped.removed}


def _node_document(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "role": node.role,
        "address": node.address,
        "pid": node.process.pid if node.process else None,
        "cores": node.cores,
        "up": node.lives,
    }
