"""The options of a Cassandra testbed, its memory, and the settings files of its nodes."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from kvmark.errors import UsageError
from kvmark.secret import Secret
from kvmark.testbed.cassandra.artifacts import Artifacts, exact_version
from kvmark.testbed.launch import Certificates
from kvmark.testbed.state import Node, Testbed, template
from kvmark.testbed.system import (
    Settings,
    TestbedOptions,
    check_options,
    option,
    port_option,
    settings_option,
    size_option,
)

_MOST_NODES: Final = 64
_LONGEST_PASSWORD: Final = 72
"""The limit of bcrypt, with which the server stores passwords; in bytes."""
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]*(\.[\w-]+)*", re.IGNORECASE)
_RING: Final = 2**64
_MAIN: Final = "org.apache.cassandra.service.CassandraDaemon"

# Settings that a testbed decides itself, by the advice.
_DECIDED: Final = {
    "give --port": "native_transport_port",
    "give --password": "authenticator authorizer role_manager",
    "a testbed listens on this machine only": "listen_address rpc_address listen_interface"
    " rpc_interface",
    "kvmark chooses it": "broadcast_address broadcast_rpc_address cluster_name seed_provider",
    "kvmark chooses a free one": "storage_port ssl_storage_port",
    "each node has an equal part of the ring": "num_tokens initial_token auto_bootstrap"
    " partitioner",
    "nodes have own folders": "data_file_directories commitlog_directory hints_directory"
    " saved_caches_directory cdc_raw_directory local_system_data_file_directory",
}
_TLS: Final = "client_encryption_options"
_TLS_DECIDED: Final = ("enabled", "keystore", "keystore_password", "store_type", "optional")
_LOGIN: Final = {
    "authenticator": "PasswordAuthenticator",
    "authorizer": "CassandraAuthorizer",
    "role_manager": "CassandraRoleManager",
}

_MIB: Final = 2**20
_GIB: Final = 2**30
_LEAST_HEAP_BYTES: Final = 256 * _MIB
"""With less, a node starts but only collects garbage."""
_OVERHEAD_BYTES: Final = 420 * _MIB
"""Resident memory of a node without its heap, measured under load."""
_LEAST_DEFAULT_BYTES: Final = 512 * _MIB
_STEP_BYTES: Final = 64 * _MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraOptions(TestbedOptions):
    """The options of a Cassandra testbed."""

    nodes: int = option(
        1, "nodes, at 127.0.0.1, 127.0.0.2 and so on.", "N", least=1, most=_MOST_NODES
    )
    version: str = option("5.0", "5.0, 6.0, or an exact version.", "VERSION", read=exact_version)
    """A key of `artifacts.VERSIONS`, or an exact version."""
    heap_bytes: int | None = size_option(
        None, "of each node, such as 512M; else as the machine has it.", "heap"
    )
    """Of each node; None for a default by the machine and the number of nodes."""
    memory_bytes: int | None = size_option(
        None, "most of each node, its files in the page cache too, such as 1G; as root.", "memory"
    )
    """The bound on a node and the page cache for its files together; None for no bound."""
    port: int | None = port_option("of all nodes; else 9042 or a free one.")
    """Where clients connect, on each node's own address; None for 9042, or a free one if taken."""
    password: Secret | None = None
    """Of the user `cassandra`; None for nodes without login."""
    tls: bool = False
    settings: Settings = settings_option("any setting of cassandra.yaml, nested ones with dots.")
    """Settings of cassandra.yaml; values are YAML."""
    network: bool = False
    """Whether each node has its own address and link, which faults can disturb."""


def check(options: CassandraOptions) -> None:
    """Refuses options that can't be used.

    Raises:
        UsageError: a value is outside its range, or a setting is the testbed's own.
    """
    exact_version(options.version)
    check_options(options, _NAME, _DECIDED, _LONGEST_PASSWORD)
    for name, _ in options.settings:
        first, _, rest = name.partition(".")
        if first == _TLS and (not rest or rest in _TLS_DECIDED):
            raise UsageError(f"set: {name} is the testbed's own; give --tls")
    # Contradictions are refused before anything is fetched.
    settings_tree(options.settings)


def token(index: int, nodes: int) -> int:
    """The end of a node's part of the ring; all parts are equal."""
    return -_RING // 2 + index * _RING // nodes


def settings_text(
    options: CassandraOptions, testbed: Testbed, node: Node, certificates: Certificates | None
) -> str:
    """The text of cassandra.yaml for one node; private, as it may have the keystore's password.

    Other settings have Cassandra's defaults.
    """
    hosts = [each.host for each in testbed.nodes]
    storage_port, _ = node.more_ports
    has_accord = exact_version(options.version).startswith("6.")
    # A node of 5.0 that starts again needs any living seed. One of 6.0 remembers the others, and
    # agrees with them sooner at its first start if there is one seed to ask.
    seeds = ",".join(f"{host}:{storage_port}" for host in (hosts[:1] if has_accord else hosts))
    settings: dict[str, Any] = {
        "cluster_name": testbed.facts["cluster_name"],
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "endpoint_snitch": "SimpleSnitch",
        "seed_provider": [
            {
                "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                "parameters": [{"seeds": seeds}],
            }
        ],
        "listen_address": node.host,
        "rpc_address": node.host,
        "storage_port": storage_port,
        "native_transport_port": node.port,
        "num_tokens": 1,
        "initial_token": str(token(hosts.index(node.host), len(hosts))),
        "auto_bootstrap": False,
        "commitlog_sync": "periodic",
    }
    if options.password is not None:
        settings |= _LOGIN
    if has_accord:
        # After it was killed, a node doesn't know its votes in transactions and refuses to start.
        # With other nodes it can learn again; alone it may continue, as no other node has a vote.
        policy = "REBOOTSTRAP" if len(hosts) > 1 else "ALLOW_UNSAFE_STARTUP"
        settings["accord"] = {"enabled": True, "journal": {"stop_marker_failure_policy": policy}}
    _merge(settings, settings_tree(options.settings))
    if settings["commitlog_sync"] == "periodic":
        settings.setdefault("commitlog_sync_period", "10000ms")
    if certificates is not None:
        encryption = {
            "enabled": True,
            "optional": False,
            "keystore": str(certificates.keystore),
            "keystore_password": certificates.keystore_password.read_text(),
            "store_type": "PKCS12",
        }
        _merge(settings, {_TLS: encryption})
    text = io.StringIO()
    _yaml().dump(settings, text)
    return text.getvalue()


def settings_tree(settings: Settings) -> dict[str, Any]:
    """Settings as a tree: names are split at their dots, values are read as YAML.

    Raises:
        UsageError: a value isn't YAML, or a setting is both a value and a group of others.
    """
    tree: dict[str, Any] = {}
    for name, text in settings:
        *groups, last = name.split(".")
        branch = tree
        for group in groups:
            inner = branch.setdefault(group, {})
            if not isinstance(inner, dict):
                raise UsageError(f"set: {name} is inside {group}, which was given a value already")
            branch = inner
        try:
            branch[last] = _yaml().load(text)
        except (YAMLError, ValueError) as problem:
            lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
            reason = lines[0] if lines else type(problem).__name__
            raise UsageError(f"set: the value of {name} is not YAML: {reason}") from problem
    return tree


def jvm_text(testbed: Testbed, node: Node, artifacts: Artifacts, heap_bytes: int) -> str:
    """The options of a node's virtual machine, as an `@` file of Java.

    A node with bound cores uses their number, even while it may use more.
    """
    copies, folder = min(3, len(testbed.nodes)), testbed.folder_of(node)
    _, exporter_port = node.more_ports
    exporter = f"{node.host}:{exporter_port}:{folder / 'jmx-exporter.yaml'}"
    jamm = next(path for path in artifacts.jars if path.name.startswith("jamm-"))
    own = [
        f"-Xms{heap_bytes // _MIB}M",
        f"-Xmx{heap_bytes // _MIB}M",
        *([f"-XX:ActiveProcessorCount={len(node.cores)}"] if node.cores else []),
        f"-javaagent:{jamm}",
        f"-javaagent:{artifacts.exporter}={exporter}",
        f"-Dcassandra.config={(folder / 'cassandra.yaml').as_uri()}",
        f"-Dcassandra.storagedir={folder / 'data'}",
        f"-Dlogback.configurationFile={folder / 'logback.xml'}",
        # A killed node leaves files that libraries unpacked: they stay in its folder.
        f"-Djava.io.tmpdir={folder / 'tmp'}",
        f"-Djna.tmpdir={folder / 'tmp'}",
        f"-XX:ErrorFile={folder / 'hs_err.log'}",
        # The server's own tables have a copy on each node, up to three.
        f"-Dcassandra.system_auth.default_rf={copies}",
        f"-Dcassandra.system_distributed.default_rf={copies}",
        f"-Dcassandra.system_traces.default_rf={copies}",
        "-cp",
        ":".join(str(path) for path in artifacts.jars),
    ]
    lines = [template("cassandra/jvm.args"), "# The node's own.", *map(_quoted, own)]
    return "\n".join([*lines, _MAIN]) + "\n"


def _quoted(text: str) -> str:
    """A text of Java's `@` files in quotation marks."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _merge(settings: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Adds settings to others; groups are merged, values replace those before them."""
    for name, value in more.items():
        before = settings.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            _merge(before, value)
        else:
            settings[name] = value


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    # The server's version of YAML, in which `yes` and `off` are truth values.
    yaml.version = (1, 1)
    yaml.default_flow_style = False
    return yaml


def heap_of(total_bytes: int, nodes: int) -> int:
    """The default heap of each node, by Cassandra's own rule for an equal part of the machine.

    The rule: half of the memory up to 1 GiB, or a quarter of it up to 8 GiB, whichever is more. It
    depends on the machine's total memory, not on free memory, so that it is the same each time.
    """
    share = total_bytes // nodes
    heap = max(min(share // 2, _GIB), min(share // 4, 8 * _GIB))
    return max(_LEAST_DEFAULT_BYTES, heap // _STEP_BYTES * _STEP_BYTES)


def check_memory(heap_bytes: int, nodes: int, available_bytes: int) -> None:
    """Refuses heaps that are too small, or that need more memory than is available.

    Raises:
        UsageError: with the figures.
    """
    if heap_bytes < _LEAST_HEAP_BYTES:
        raise UsageError(
            f"heap: {heap_bytes // _MIB} MiB are too little for Cassandra; give at least"
            f" {_LEAST_HEAP_BYTES // _MIB}M"
        )
    needed = nodes * (heap_bytes + _OVERHEAD_BYTES)
    if needed > available_bytes:
        count = "1 node" if nodes == 1 else f"{nodes} nodes"
        raise UsageError(
            f"{count} with a heap of {heap_bytes // _MIB} MiB and {_OVERHEAD_BYTES // _MIB} MiB"
            f" beside it need {needed // _MIB} MiB of memory, and {available_bytes // _MIB} MiB"
            " are available: start fewer --nodes, or lower --heap"
        )


def check_bound(bound_bytes: int, heap_bytes: int) -> None:
    """Refuses a bound on a node's memory that is less than the node needs.

    Raises:
        UsageError: with the figures.
    """
    needed = heap_bytes + _OVERHEAD_BYTES
    if bound_bytes < needed:
        raise UsageError(
            f"memory: a node with a heap of {heap_bytes // _MIB} MiB and {_OVERHEAD_BYTES // _MIB}"
            f" MiB beside it doesn't fit in {bound_bytes // _MIB} MiB: give at least"
            f" {needed // _MIB}M, or lower --heap"
        )
