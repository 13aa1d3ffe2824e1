"""Testbeds on disk: one folder each, below one root, described by `testbed.json`.

The file is written after each start of a server, so that servers can be stopped even if the command
that started them was killed. It has no secrets.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from kvmark import interrupts
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.outputs import write_whole
from kvmark.testbed import DESCRIPTION, names_of_testbeds, testbeds_root
from kvmark.testbed.network import Network
from kvmark.testbed.process import Identity, lives, tail

Role = Literal["primary", "replica", "peer", "proxy"]

OWN_FILES: Final = rf"\.?{re.escape(DESCRIPTION)}(\.\d+\.tmp)?"
"""The files written here, as paths in a testbed's folder."""

_READABLE: Final = 0o644
_POLL_S: Final = 0.02
_LONGEST_LINE: Final = 300
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_PORT: Final = re.compile(r":\d+$")


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
    """The control group that bounds its memory; None without a bound."""
    process: Identity | None = None
    stop_signal: int = signal.SIGTERM
    """The signal with which it ends though clients are connected."""
    more_ports: tuple[int, ...] = ()
    """Its ports for other servers and for exporters."""

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{self.host}:{self.port}"

    @property
    def lives(self) -> bool:
        """Whether the process that was started still exists."""
        return self.process is not None and lives(self.process)


@dataclass(frozen=True, slots=True)
class SavedDataset:
    """The identity of a saved dataset, which the testbeds that began with it have."""

    name: str
    id: str
    """Random, made when it was saved."""
    saved: str
    """The time."""
    system: str
    version: str
    """Of the servers that wrote it."""
    records: str | None
    """A description of the records, such as `1,000 keys`; None where the system reports none."""

    @property
    def text(self) -> str:
        """Records, system and time in a few words."""
        return f"{self.records or 'data'} of {self.system} {self.version}, saved at {self.saved}"


class Testbed(BaseModel):
    """A system that was started, and its servers."""

    model_config = ConfigDict(frozen=True)
    __test__ = False  # not a test, despite its name

    format: Literal[1] = 1
    """The format of `testbed.json`."""
    name: str
    system: str
    version: str
    created: str
    url: str
    """The value of `--system`; it names the files with secrets, but has none."""
    nodes: tuple[Node, ...]
    network: Network | None = None
    """None for servers that listen on loopback addresses."""
    facts: dict[str, Any] = Field(default_factory=dict)
    """Values that the system's own module needs later."""
    made_with: dict[str, Any] = Field(default_factory=dict)
    """The options, by the fields of the system's `TestbedOptions`; no secret in it."""
    dataset: SavedDataset | None = None
    """The saved dataset with which its servers began; in the folder of one, its identity."""
    was_up: bool = True
    """Whether all servers were healthy once; otherwise it can't be started again."""
    folder: Path = Field(exclude=True)

    @property
    def lives(self) -> bool:
        """Whether all servers exist."""
        return all(node.lives for node in self.nodes)

    def node(self, name: str) -> Node:
        """The server of that name.

        Raises:
            UsageError: there is none.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        names = ", ".join(node.name for node in self.nodes)
        raise UsageError(f"testbed {self.name} has no node '{name}'; it has {names}")

    def described(self) -> dict[str, Any]:
        """The part of a manifest that all testbeds have: name, system, version, data, servers."""
        nodes = [
            {"name": each.name, "role": each.role, "address": each.address, "cores": [*each.cores]}
            for each in self.nodes
        ]
        return {
            "testbed": self.name,
            "system": self.system,
            "version": self.version,
            "network": None if self.network is None else self.network.subnet,
            "dataset": None if self.dataset is None else asdict(self.dataset),
            "nodes": nodes,
        }

    def folder_of(self, node: Node) -> Path:
        """The folder of a server's settings, log and data."""
        return self.folder / node.name

    def log_of(self, node: Node) -> Path:
        """The output of a server."""
        return self.folder_of(node) / "server.log"

    def wait_until(
        self, condition: Callable[[], bool], purpose: str, within_s: float, *nodes: Node
    ) -> None:
        """Waits for a condition while the servers that it depends on live, or all servers.

        Args:
            condition: called about fifty times a second. It doesn't hold while it raises
                `SystemUnderTestError`, such as for a server that doesn't answer yet.
            purpose: the end of the sentence "it took too long to …".
            within_s: the limit in seconds.
            nodes: the servers; a timeout is reported for the first.

        Raises:
            SystemUnderTestError: a server has ended, or the time is over; quotes its log's last
                line.
            KeyboardInterrupt: the user has asked to stop.
        """
        until = time.monotonic() + within_s
        while True:
            with suppress(SystemUnderTestError):
                if condition():
                    return
            for node in nodes or self.nodes:
                if not node.lives:
                    raise self._failure(node, "ended by itself: ")
            if time.monotonic() > until:
                event = (
                    f"took longer than {within_s:g} s to {purpose}; the last line of its log is: "
                )
                raise self._failure((*nodes, *self.nodes)[0], event)
            interrupts.pause(_POLL_S)

    def _failure(self, node: Node, event: str) -> SystemUnderTestError:
        """The error of a server: its name, the event, and the last line of its log, shortened."""
        log = self.log_of(node)
        lines = [line.strip() for line in tail(log).splitlines() if line.strip()]
        last = lines[-1][:_LONGEST_LINE] if lines else f"its log {log} is empty"
        return SystemUnderTestError(f"{self.name}/{node.name} {event}{last}")

    def with_nodes(self, changes: Mapping[str, Mapping[str, Any]]) -> Testbed:
        """The testbed with changed fields of servers, by their names."""
        nodes = [node.model_copy(update=changes.get(node.name)) for node in self.nodes]
        return self.model_copy(update={"nodes": tuple(nodes)})

    def write(self) -> None:
        """Writes `testbed.json` atomically.

        Raises:
            SystemUnderTestError: it can't be written.
        """
        path = self.folder / DESCRIPTION
        try:
            write_whole(path, (self.model_dump_json(indent=1) + "\n").encode(), _READABLE)
        except OSError as problem:
            raise SystemUnderTestError(
                f"{path} can't be written because {problem.strerror}"
            ) from problem

    @classmethod
    def read(cls, folder: Path) -> Testbed:
        """The testbed of a folder.

        Raises:
            SystemUnderTestError: `testbed.json` is missing or damaged.
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
    testbed = known_testbed(root, name)
    if testbed is None:
        names = ", ".join(names_of_testbeds(root)) or "none"
        outer = (folder / root.name for folder in root.parent.parents)
        place = next((one for one in outer if name in names_of_testbeds(one)), "FOLDER")
        raise UsageError(
            f"there is no testbed '{name}' in {root}, where there is {names}: start it with kvmark"
            f" up, or for one of another folder set KVMARK_TESTBEDS={place}"
        )
    return testbed


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

    Of several addresses, separated by commas, one is enough.
    """
    addresses = set(_plain_addresses(address))
    for testbed in all_testbeds(testbeds_root() if root is None else root):
        service = testbed.facts.get("service")
        for node in testbed.nodes:
            if node.lives and not addresses.isdisjoint((node.address, service)):
                return testbed
    return None


def check_name(name: str, noun: str) -> None:
    """Refuses a name that can't be a folder's.

    Raises:
        UsageError: it can't.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"'{name}' can't be the name of a {noun}: use up to 40 small letters, digits and '-'"
        )


def make_folder(root: Path, system: str, name: str | None) -> Path:
    """Creates the folder of a new testbed. By default it is named like the system.

    Raises:
        UsageError: the name can't be used, or is in use.
    """
    if name is not None:
        check_name(name, "testbed")
    names = [name] if name else [system, *(f"{system}-{number}" for number in range(2, 1000))]
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


def template(name: str) -> str:
    """The text of a file in this package's folder, such as `cassandra/pom.xml`."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def write_private(path: Path, text: str) -> None:
    """Writes a new file that only its owner can ever read."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def _plain_addresses(text: str) -> Iterable[str]:
    hosts = text.rpartition("@")[2].partition("/")[0].split(",")
    for each in hosts:
        # A port after only the last host is the port of all, as in the URLs of CQL.
        place = each if _PORT.search(each) else each + "".join(_PORT.findall(hosts[-1]))
        host, colon, port = place.rpartition(":")
        if colon:
            yield f"{'127.0.0.1' if host in ('localhost', '[::1]') else host}:{port}"
