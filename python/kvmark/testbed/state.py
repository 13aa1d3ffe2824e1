"""Testbeds on disk: one folder each, below one root, described by `testbed.json`.

The file is written each time a server was started, so that what was started can be stopped even if
the command that started it was killed. No secret stands in it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.removal import remove_file
from kvmark.testbed import DESCRIPTION, names_of_testbeds, testbeds_root
from kvmark.testbed.network import Network
from kvmark.testbed.process import Identity, Watched, lives

Role = Literal["primary", "replica", "peer", "proxy"]

OWN_FILES: Final = rf"\.?{re.escape(DESCRIPTION)}(\.\d+\.tmp)?"
"""What is written here, as paths in a testbed's folder."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_PORT: Final = re.compile(r":\d+$")
_PRIVATE: Final = 0o600
_MOST: Final = 1000


class Node(BaseModel):
    """One server of a testbed."""

    model_config = ConfigDict(frozen=True)

    name: str
    role: Role
    host: str
    port: int
    command: tuple[str, ...]
    cores: tuple[int, ...] = ()
    """The cores it is bound to; none for any."""
    group: Path | None = None
    """The control group that bounds its memory; None where nothing does."""
    process: Identity | None = None
    more_ports: tuple[int, ...] = ()
    """Where it listens beside its port for clients."""

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{self.host}:{self.port}"

    @property
    def lives(self) -> bool:
        """Whether the very process that was started is still there."""
        return self.process is not None and lives(self.process)


class Testbed(BaseModel):
    """A system that was started, and where."""

    model_config = ConfigDict(frozen=True)
    __test__ = False  # not a test, whatever its name begins with

    format: Literal[1] = 1
    """Of `testbed.json`."""
    name: str
    system: str
    version: str
    created: str
    url: str
    """What `--system` takes; names files that hold secrets, never a secret."""
    nodes: tuple[Node, ...]
    network: Network | None = None
    """The network of its own; None where its servers listen on loopback addresses."""
    facts: dict[str, Any] = Field(default_factory=dict)
    """What the system's own module needs to reach the nodes again."""
    made_with: dict[str, Any] = Field(default_factory=dict)
    """What it was made with, by the names of the system's wishes; no secret in it."""
    was_up: bool = True
    """Whether all its servers were healthy once: what never was can't be brought back."""
    folder: Path = Field(exclude=True)

    @property
    def lives(self) -> bool:
        """Whether all its servers are there."""
        return all(node.lives for node in self.nodes)

    def node(self, name: str) -> Node:
        """The server of that name.

        Raises:
            UsageError: there is none.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        known = ", ".join(node.name for node in self.nodes)
        raise UsageError(f"testbed {self.name} has no node '{name}'; it has {known}")

    def described(self) -> dict[str, Any]:
        """What a manifest keeps of any testbed: its name, system, version and servers."""
        nodes = [
            {
                "name": node.name,
                "role": node.role,
                "address": node.address,
                "cores": list(node.cores),
            }
            for node in self.nodes
        ]
        return {
            "testbed": self.name,
            "system": self.system,
            "version": self.version,
            "network": None if self.network is None else self.network.subnet,
            "nodes": nodes,
        }

    def folder_of(self, node: Node) -> Path:
        """Where a server keeps its settings, log and data."""
        return self.folder / node.name

    def log_of(self, node: Node) -> Path:
        """What a server printed."""
        return self.folder_of(node) / "server.log"

    def watched(self, *nodes: Node) -> list[Watched]:
        """The servers, all if none is named, as something to wait for."""
        chosen = nodes or self.nodes
        return [
            Watched(name=f"{self.name}/{node.name}", process=node.process, log=self.log_of(node))
            for node in chosen
            if node.process is not None
        ]

    def with_process(self, name: str, process: Identity) -> Testbed:
        """The testbed with a server's new process, written down."""
        nodes = tuple(
            node.model_copy(update={"process": process}) if node.name == name else node
            for node in self.nodes
        )
        changed = self.model_copy(update={"nodes": nodes})
        changed.write()
        return changed

    def write(self) -> None:
        """Writes `testbed.json`, whole or not at all.

        Raises:
            SystemUnderTestError: it can't be written.
        """
        path = self.folder / DESCRIPTION
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")
            temporary.replace(path)
        except OSError as problem:
            remove_file(temporary)
            raise SystemUnderTestError(
                f"{path} can't be written because {problem.strerror}"
            ) from problem

    @classmethod
    def read(cls, folder: Path) -> Testbed:
        """The testbed of a folder.

        Raises:
            SystemUnderTestError: it has no description, or a damaged one.
        """
        path = folder / DESCRIPTION
        try:
            document = json.loads(path.read_bytes())
            return cls.model_validate({**document, "folder": folder.resolve()})
        except (OSError, ValueError, TypeError) as problem:
            reason = str(problem).partition("\n")[0]
            raise SystemUnderTestError(
                f"{path} can't be read ({reason}): stop its servers and remove the folder yourself"
            ) from problem


def all_testbeds(root: Path) -> list[Testbed]:
    """All testbeds below the root, by name.

    Raises:
        SystemUnderTestError: one can't be read.
    """
    return [Testbed.read(root / name) for name in names_of_testbeds(root)]


def find_testbed(root: Path, name: str) -> Testbed:
    """The testbed of that name.

    Raises:
        UsageError: there is none.
    """
    found = known_testbed(root, name)
    if found is None:
        known = ", ".join(names_of_testbeds(root))
        raise UsageError(f"there is no testbed '{name}' in {root}; there is {known or 'none'}")
    return found


def known_testbed(root: Path, name: str) -> Testbed | None:
    """The testbed of that name; None where there is none.

    Raises:
        SystemUnderTestError: it can't be read.
    """
    if _NAME.fullmatch(name) and (root / name / DESCRIPTION).exists():
        return Testbed.read(root / name)
    return None


def owner_of(address: str, root: Path | None = None) -> Testbed | None:
    """The testbed with a living server at an address such as `127.0.0.1:16379`.

    Of several addresses, separated by commas, one of its own is enough.
    """
    wanted = set(_plain_addresses(address))
    for testbed in all_testbeds(testbeds_root() if root is None else root):
        service = testbed.facts.get("service")
        for node in testbed.nodes:
            if node.lives and (node.address in wanted or service in wanted):
                return testbed
    return None


def make_folder(root: Path, system: str, name: str | None) -> Path:
    """Makes the folder of a new testbed; without a name it is the system's, with a number if taken.

    Raises:
        UsageError: the name can't be used, or is in use.
    """
    if name is not None and not _NAME.fullmatch(name):
        raise UsageError(
            f"'{name}' can't be the name of a testbed: use up to 40 small letters, digits and '-'"
        )
    names = [name] if name else [system, *(f"{system}-{number}" for number in range(2, _MOST))]
    for each in names:
        folder = (root / each).resolve()
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as problem:
            raise UsageError(
                f"no testbed can be kept in {root} because {problem.strerror}: name another folder"
                " with KVMARK_TESTBEDS"
            ) from problem
        return folder
    raise UsageError(
        f"the folder {root / names[-1]} is there already: give another --name, or remove it with"
        f" kvmark down {names[-1]} --remove"
    )


def write_private(path: Path, text: str) -> None:
    """Writes a new file that its owner alone can read, from its first moment on."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def _plain_addresses(text: str) -> Iterable[str]:
    hosts = text.rpartition("@")[2].partition("/")[0].split(",")
    for each in hosts:
        # A port behind the last host alone is that of all, as in the URLs of CQL.
        place = each if _PORT.search(each) else each + "".join(_PORT.findall(hosts[-1]))
        host, colon, port = place.rpartition(":")
        if colon:
            yield f"{'127.0.0.1' if host in ('localhost', '[::1]') else host}:{port}"
