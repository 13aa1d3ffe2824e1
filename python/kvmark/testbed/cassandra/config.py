"""What is wanted of a Cassandra testbed, its memory, and the files that say it to a node."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from kvmark.errors import UsageError
from kvmark.secret import Secret
from kvmark.testbed.cassandra.artifacts import Artifacts, exact_version
from kvmark.testbed.words import Word, check_password, check_setting, read_size

_MOST_NODES: Final = 64
_LONGEST_PASSWORD: Final = 72
"""What bcrypt, with which the server keeps passwords, looks at; in bytes."""
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]*(\.[\w-]+)*", re.IGNORECASE)
_RING: Final = 2**64
_MAIN: Final = "org.apache.cassandra.service.CassandraDaemon"

# Settings that a testbed decides itself, and what to do instead.
_DECIDED: Final = {
    "native_transport_port": "give --port",
    **dict.fromkeys(["authenticator", "authorizer", "role_manager"], "give --password"),
    **dict.fromkeys(["listen_address", "rpc_address"], "a testbed listens on this machine only"),
    **dict.fromkeys(
        ["listen_interface", "rpc_interface"], "a testbed listens on this machine only"
    ),
    **dict.fromkeys(["broadcast_address", "broadcast_rpc_address"], "kvmark chooses it"),
    **dict.fromkeys(["storage_port", "ssl_storage_port"], "kvmark chooses a free one"),
    **dict.fromkeys(["cluster_name", "seed_provider"], "kvmark chooses it"),
    **dict.fromkeys(["num_tokens", "initial_token"], "each node has an equal part of the ring"),
    **dict.fromkeys(["auto_bootstrap", "partitioner"], "each node has an equal part of the ring"),
    **dict.fromkeys(["data_file_directories", "commitlog_directory"], "nodes have own folders"),
    **dict.fromkeys(["hints_directory", "saved_caches_directory"], "nodes have own folders"),
    **dict.fromkeys(
        ["cdc_raw_directory", "local_system_data_file_directory"], "nodes have own folders"
    ),
}
_TLS: Final = "client_encryption_options"
_TLS_DECIDED: Final = ("enabled", "keystore", "keystore_password", "store_type", "optional")

_MIB: Final = 2**20
_GIB: Final = 2**30
LEAST_HEAP_BYTES: Final = 256 * _MIB
"""Below it a node starts and is busy with collecting garbage only."""
OVERHEAD_BYTES: Final = 420 * _MIB
"""What a node needs beside its heap: resident memory less the heap, measured on a loaded node."""
_SMALLEST_BY_ITSELF: Final = 512 * _MIB
_STEP: Final = 64 * _MIB


@dataclass(frozen=True, slots=True)
class Wanted:
    """A Cassandra testbed as the user wants it."""

    name: str | None = None
    """None for `cassandra`, or `cassandra-2` and so on if that is taken."""
    nodes: Annotated[int, Word("nodes, at 127.0.0.1, 127.0.0.2 and so on.", "N", least=1)] = 1
    version: Annotated[
        str, Word("5.0, 6.0, or an exact version.", "VERSION", read=exact_version)
    ] = "5.0"
    """A key of `artifacts.VERSIONS`, or an exact version."""
    heap_bytes: Annotated[
        int | None,
        Word(
            "of each node, such as 512M; else as the machine has it.",
            "SIZE",
            "heap",
            str,
            partial(read_size, "heap"),
        ),
    ] = None
    """Of each node; None for what the machine and the number of nodes suggest."""
    memory_bytes: Annotated[
        int | None,
        Word(
            "most of each node, its files in the page cache too, such as 1G; as root.",
            "SIZE",
            "memory",
            str,
            partial(read_size, "memory"),
        ),
    ] = None
    """Most that a node and the page cache for its files take together; None for no bound."""
    port: Annotated[
        int | None, Word("of all nodes; else 9042 or a free one.", "PORT", in_studies=False)
    ] = None
    """Where clients connect, on each node's own address; None for 9042, or a free one if taken."""
    password: Secret | None = None
    """Of the user `cassandra`; None for nodes that let everybody in."""
    tls: bool = False
    settings: Annotated[
        tuple[tuple[str, str], ...],
        Word(
            "any setting of cassandra.yaml, nested ones with dots.",
            "KEY=VALUE",
            "set",
            list[str],
            in_studies=False,
        ),
    ] = ()
    """Settings of cassandra.yaml by name, nested ones with dots; values are YAML."""
    cores: tuple[int, ...] = ()
    """The cores that every node is bound to; none for any."""
    network: bool = False
    """Whether each node has an address and a link of its own, that faults can disturb."""


@dataclass(frozen=True, slots=True)
class Keystore:
    """What a node shows its clients, and the word that opens it."""

    path: Path
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one node listens and keeps its files, and in which cluster it is."""

    folder: Path
    cluster_name: str
    hosts: tuple[str, ...]
    """The addresses of all nodes."""
    index: int
    """Which of them is this node's."""
    port: int
    storage_port: int
    exporter_port: int

    @property
    def host(self) -> str:
        """The node's own address."""
        return self.hosts[self.index]


def check(wanted: Wanted) -> None:
    """Refuses what can't be started.

    Raises:
        UsageError: a value is outside its range, or a setting is the testbed's own.
    """
    exact_version(wanted.version)
    if not 1 <= wanted.nodes <= _MOST_NODES:
        raise UsageError(f"nodes: must be from 1 to {_MOST_NODES}, not {wanted.nodes}")
    for name, value in wanted.settings:
        _check_setting(name, value)
    # What contradicts itself is refused before anything is fetched.
    given(wanted.settings)
    if wanted.password is not None:
        check_password(wanted.password, _LONGEST_PASSWORD)


def token(index: int, nodes: int) -> int:
    """Where the part of the ring ends that belongs to one of so many nodes: equal parts."""
    return -_RING // 2 + index * _RING // nodes


def settings_text(wanted: Wanted, place: Place, keystore: Keystore | None) -> str:
    """The text of cassandra.yaml for one node.

    It may hold the keystore's password: keep it private. What isn't said here is
    Cassandra's own default.
    """
    has_accord = exact_version(wanted.version).startswith("6.")
    # A node of 5.0 that starts again needs a seed that is there, whichever. One of 6.0 knows the
    # others by itself, and agrees sooner with them at first if there is one to ask.
    seed_hosts = place.hosts[:1] if has_accord else place.hosts
    seeds = ",".join(f"{host}:{place.storage_port}" for host in seed_hosts)
    settings: dict[str, Any] = {
        "cluster_name": place.cluster_name,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "endpoint_snitch": "SimpleSnitch",
        "seed_provider": [
            {
                "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                "parameters": [{"seeds": seeds}],
            }
        ],
        "listen_address": place.host,
        "rpc_address": place.host,
        "storage_port": place.storage_port,
        "native_transport_port": place.port,
        "num_tokens": 1,
        "initial_token": str(token(place.index, len(place.hosts))),
        "auto_bootstrap": False,
        "commitlog_sync": "periodic",
    }
    if wanted.password is not None:
        settings |= _LOGIN
    if has_accord:
        settings["accord"] = {"enabled": True, "journal": _killed(len(place.hosts))}
    _merge(settings, given(wanted.settings))
    if settings["commitlog_sync"] == "periodic":
        settings.setdefault("commitlog_sync_period", "10000ms")
    if keystore is not None:
        _merge(settings, {_TLS: _encryption(keystore)})
    return _yaml_text(settings)


_LOGIN: Final = {
    "authenticator": "PasswordAuthenticator",
    "authorizer": "CassandraAuthorizer",
    "role_manager": "CassandraRoleManager",
}


def given(settings: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Settings as a tree: names are taken apart at their dots, values are read as YAML.

    Raises:
        UsageError: a value isn't YAML, or a setting is both a value and a group of others.
    """
    tree: dict[str, Any] = {}
    for name, text in settings:
        *groups, last = name.split(".")
        place = tree
        for group in groups:
            inner = place.setdefault(group, {})
            if not isinstance(inner, dict):
                raise UsageError(f"set: {name} is inside {group}, which was given a value already")
            place = inner
        place[last] = _yaml_value(name, text)
    return tree


def jvm_text(place: Place, artifacts: Artifacts, heap_bytes: int, cores: int = 0) -> str:
    """The options of a node's virtual machine, in the form of Java's `@` files.

    A node that is bound to `cores`, so many, takes itself for that large whatever it is lent.
    """
    copies = min(3, len(place.hosts))
    exporter = f"{place.host}:{place.exporter_port}:{place.folder / 'jmx-exporter.yaml'}"
    jamm = next(path for path in artifacts.jars if path.name.startswith("jamm-"))
    classes = ":".join(str(path) for path in artifacts.jars)
    own = [
        f"-Xms{heap_bytes // 2**20}M",
        f"-Xmx{heap_bytes // 2**20}M",
        *([f"-XX:ActiveProcessorCount={cores}"] if cores else []),
        f"-javaagent:{jamm}",
        f"-javaagent:{artifacts.exporter}={exporter}",
        f"-Dcassandra.config={(place.folder / 'cassandra.yaml').as_uri()}",
        f"-Dcassandra.storagedir={place.folder / 'data'}",
        f"-Dlogback.configurationFile={place.folder / 'logback.xml'}",
        # What libraries unpack is left behind when the node is killed: it stays in its own folder.
        f"-Djava.io.tmpdir={place.folder / 'tmp'}",
        f"-Djna.tmpdir={place.folder / 'tmp'}",
        f"-XX:ErrorFile={place.folder / 'hs_err.log'}",
        # The server's own tables are on as many nodes as there are, up to three.
        f"-Dcassandra.system_auth.default_rf={copies}",
        f"-Dcassandra.system_distributed.default_rf={copies}",
        f"-Dcassandra.system_traces.default_rf={copies}",
    ]
    quoted = (f'"{_escaped(option)}"' for option in own)
    lines = [_companion("jvm.args"), "# The node's own.", *quoted, "-cp", f'"{_escaped(classes)}"']
    return "\n".join([*lines, _MAIN]) + "\n"


def write_companions(folder: Path) -> None:
    """Writes the files that are the same for each node into one's folder."""
    for name in ("logback.xml", "jmx-exporter.yaml"):
        (folder / name).write_text(_companion(name), encoding="utf-8")


def _companion(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _escaped(text: str) -> str:
    """A text as it stands between quotation marks in Java's `@` files."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _killed(nodes: int) -> dict[str, str]:
    """What a node does that starts again after it was killed: by default it refuses to.

    It can't know how it voted in transactions. With others it forgets and learns anew; alone it
    goes on, since nobody holds another's vote against it.
    """
    policy = "REBOOTSTRAP" if nodes > 1 else "ALLOW_UNSAFE_STARTUP"
    return {"stop_marker_failure_policy": policy}


def _encryption(keystore: Keystore) -> dict[str, Any]:
    return {
        "enabled": True,
        "optional": False,
        "keystore": str(keystore.path),
        "keystore_password": keystore.password,
        "store_type": "PKCS12",
    }


def _merge(settings: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Adds settings to others; groups are merged, values win over those before them."""
    for name, value in more.items():
        before = settings.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            _merge(before, value)
        else:
            settings[name] = value


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    # The version of YAML that the server reads: there `yes` and `off` are truth values.
    yaml.version = (1, 1)
    yaml.default_flow_style = False
    return yaml


def _yaml_value(name: str, text: str) -> Any:
    try:
        return _yaml().load(text)
    except (YAMLError, ValueError) as problem:
        raise UsageError(
            f"set: the value of {name} is not YAML: {_shortened(problem)}"
        ) from problem


def _shortened(problem: Exception) -> str:
    """The first line of a problem that says what it is."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return lines[0] if lines else type(problem).__name__


def _yaml_text(settings: Mapping[str, Any]) -> str:
    text = io.StringIO()
    _yaml().dump(dict(settings), text)
    return text.getvalue()


def _check_setting(name: str, value: str) -> None:
    check_setting(name, value, _NAME)
    first, _, rest = name.partition(".")
    instead = _DECIDED.get(first)
    if instead is not None:
        raise UsageError(f"set: {first} is the testbed's own; {instead}")
    if first == _TLS and (not rest or rest in _TLS_DECIDED):
        raise UsageError(f"set: {name} is the testbed's own; give --tls")


def heap_of(total_bytes: int, nodes: int) -> int:
    """The heap of each of so many nodes, by Cassandra's own rule for an equal part of the machine.

    The rule: half of the memory up to 1 GiB, or a quarter of it up to 8 GiB, whichever is more. It
    goes by the memory the machine has, not by what is free, so that it is the same each time.
    """
    share = total_bytes // nodes
    heap = max(min(share // 2, _GIB), min(share // 4, 8 * _GIB))
    return max(_SMALLEST_BY_ITSELF, heap // _STEP * _STEP)


def check_memory(heap_bytes: int, nodes: int, available_bytes: int) -> None:
    """Refuses heaps that are too small to work with, or for which there isn't enough memory.

    Raises:
        UsageError: with the figures.
    """
    if heap_bytes < LEAST_HEAP_BYTES:
        raise UsageError(
            f"heap: {heap_bytes // _MIB} MiB are too little for Cassandra; give at least"
            f" {LEAST_HEAP_BYTES // _MIB}M"
        )
    needed = nodes * (heap_bytes + OVERHEAD_BYTES)
    if needed > available_bytes:
        words = "1 node" if nodes == 1 else f"{nodes} nodes"
        raise UsageError(
            f"{words} with a heap of {heap_bytes // _MIB} MiB and {OVERHEAD_BYTES // _MIB} MiB"
            f" beside it need {needed // _MIB} MiB of memory, and {available_bytes // _MIB} MiB"
            " are available: start fewer --nodes, or lower --heap"
        )


def check_bound(bound_bytes: int, heap_bytes: int) -> None:
    """Refuses a bound on a node's memory in which the node itself has no room.

    Raises:
        UsageError: with the figures.
    """
    needed = heap_bytes + OVERHEAD_BYTES
    if bound_bytes < needed:
        raise UsageError(
            f"memory: a node with a heap of {heap_bytes // _MIB} MiB and {OVERHEAD_BYTES // _MIB}"
            f" MiB beside it doesn't fit in {bound_bytes // _MIB} MiB: give at least"
            f" {needed // _MIB}M, or lower --heap"
        )
