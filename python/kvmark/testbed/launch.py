"""Starts the servers of a testbed: for the first time, and again on their data.

All systems use it, so that a failed start always leaves the same: no process and no network; after
a first start no folder either, and after a later one every file.

Certificates are made with the openssl program. The authority's key is removed at once, so that
nothing else can make a certificate that clients of the testbed trust.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

import psutil

from kvmark.errors import KvmarkError, SystemUnderTestError, UsageError
from kvmark.removal import discard_folder, remove_file
from kvmark.secret import Secret
from kvmark.testbed import network as networks
from kvmark.testbed import process
from kvmark.testbed.process import joining, make_group, remove_group
from kvmark.testbed.saved import check_version, with_saved_data
from kvmark.testbed.state import Node, Testbed, owner_of, template, write_private
from kvmark.testbed.system import System, Tell, TestbedOptions, made_with, system_of

RETURNS_WITHIN_S: Final = 1800.0
"""The time in which each server starts again: it reads all its data."""
CERTIFICATE_FILES: Final = r"tls/(ca\.crt|ca\.key|server\.(crt|key|p12)|p12-password|openssl\.cnf)"
"""The files of certificates, as paths in a testbed's folder."""

_PASSWORD: Final = "password"  # noqa: S105 - a file's name
_IN_USE: Final = re.compile(
    r"address already in use|cannot bind socket|is in use by another process|failed to bind port",
    re.IGNORECASE,
)


class PortTakenError(UsageError):
    """Another program has taken a port that was free when it was chosen."""

    def __init__(self, node: Node) -> None:
        ports = ", ".join(map(str, (node.port, *node.more_ports)))
        super().__init__(
            f"a port of {node.host} ({ports}) was taken by another program just now: try again"
        )


def planned(
    system: str,
    folder: Path,
    options: TestbedOptions,
    nodes: Sequence[Node],
    url: str,
    *,
    facts: Mapping[str, Any] = MappingProxyType({}),
    username: str | None = None,
    network: networks.Network | None = None,
    **decided: Any,
) -> Testbed:
    """A testbed before its first process; its version is added later.

    Args:
        system: the system's name.
        folder: its folder.
        options: the user's options.
        nodes: its servers.
        url: the value of `--system`, without the files of secrets.
        facts: values that the system's own module needs later.
        username: the password's user; None where the scheme says TLS and a password is enough.
        network: the testbed's network.
        decided: values of options that the user left open.
    """
    places = {}
    if getattr(options, "password", None) is not None:
        places["password_file"] = str(folder / _PASSWORD)
    if getattr(options, "tls", False):
        places["ca_file"] = str(Certificates(folder / "tls").authority)
    own = {"password_file": f"username={username}", "ca_file": "tls=true"} if username else {}
    for name, place in places.items():
        for option in filter(None, (own.get(name), f"{name}={quote(place)}")):
            url += f"{'&' if '?' in url else '?'}{option}"
    return Testbed(
        name=folder.name,
        system=system,
        version="",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        url=url,
        nodes=tuple(nodes),
        network=network,
        facts={**facts, **places},
        made_with=made_with(options, port=nodes[0].port, **decided),
        folder=folder,
    )


def find_server(program: str, package: str, path: str | None = None) -> str:
    """The path of a server's program, on the search path or in the folders of `path`.

    Raises:
        UsageError: it is missing.
    """
    return process.find_program(
        program,
        f"{program} is missing: install it with `sudo apt-get install {package}`, or name"
        " another program with --server",
        path,
    )


def check_memory(servers: int, each_bytes: int, advice: str) -> None:
    """Refuses servers that need more memory than is available.

    Raises:
        UsageError: with the figures.
    """
    available = psutil.virtual_memory().available
    if servers * each_bytes > available:
        count = "1 server" if servers == 1 else f"{servers} servers"
        raise UsageError(
            f"{count} of {each_bytes / 2**20:.0f} MiB need more memory than the"
            f" {available / 2**20:.0f} MiB that are available: {advice}"
        )


def launch(
    testbed: Testbed,
    options: Any,
    system: System,
    prepare: Callable[[Testbed, Any, Certificates | None], None],
    complete: Callable[[Testbed, Any], None] = lambda _, __: None,
) -> Testbed:
    """Starts a planned testbed in its empty folder, and waits until it is healthy.

    Args:
        testbed: the plan.
        options: the user's options.
        system: the kind of system.
        prepare: writes further files that the servers read into their folders, by the options.
        complete: sets up servers that were started.

    Raises:
        UsageError: the testbed can't be started here.
        SystemUnderTestError: a server doesn't start, or isn't healthy in time.
    """
    testbed = testbed.model_copy(update={"was_up": False})
    within_s = system.healthy_within_s if options.dataset is None else RETURNS_WITHIN_S
    try:
        testbed = with_saved_data(testbed, options, system)
        if testbed.network is not None:
            # Written before the network is made, so that it can always be removed.
            testbed.write()
            networks.build_network(testbed.network)
            _give_service(testbed)
        password: Secret | None = getattr(options, "password", None)
        if password is not None:
            write_private(testbed.folder / _PASSWORD, password.reveal())
        certificates = _make_certificates(testbed) if getattr(options, "tls", False) else None
        for node in testbed.nodes:
            testbed.folder_of(node).mkdir(exist_ok=True)
        prepare(testbed, options, certificates)
        testbed = _with_groups(testbed, testbed.nodes)
        for node in testbed.nodes:
            testbed = start_node(testbed, node.name)
        for node in testbed.nodes if testbed.dataset is not None else ():
            system.wait_for_answer(testbed, node, within_s)
        complete(testbed, options)
        for node in testbed.nodes:
            system.wait_for_node(testbed, node, within_s)
        known = {"version": system.version_of(testbed), "was_up": True}
        testbed = testbed.model_copy(update=known)
        check_version(testbed)
        testbed.write()
    except BaseException as problem:
        failed = isinstance(problem, SystemUnderTestError)
        refused = _refusal(testbed, system, problem) if failed else None
        stop_servers(testbed)
        if not (failed and refused is None and system.keeps_log):
            # A foreign file keeps the folder, but doesn't hide the error.
            discard_folder(testbed.folder, system.own_files)
        if refused is not None:
            raise refused from problem
        raise
    return testbed


def _refusal(testbed: Testbed, system: System, problem: BaseException) -> KvmarkError | None:
    """The error for the reason in the log of a server that ended, or for the data it began with."""
    dataset = testbed.dataset
    for node in testbed.nodes:
        log = testbed.log_of(node)
        if node.lives:
            continue
        if _IN_USE.search(process.tail(log)):
            return PortTakenError(node)
        reason = system.refusal(log)
        if reason is not None:
            return UsageError(reason)
        if dataset is not None and node.process is not None and not system.keeps_log:
            wrote = f"{dataset.system} {dataset.version} wrote"
            return UsageError(
                f"{problem}; it began with dataset '{dataset.name}', which {wrote}: start that"
                " version"
            )
    return None


def bring_back(testbed: Testbed, tell: Tell = lambda _: None) -> Testbed:
    """Starts the servers of a testbed that are down, with the same settings and on their data.

    Other servers continue. If it fails, the servers that it started are stopped.

    Raises:
        UsageError: a port or address isn't free any more; or the testbed never was up.
        SystemUnderTestError: a server doesn't start, or isn't healthy in time; all files are kept.
    """
    system = system_of(testbed)
    with process.exclusive(testbed.folder) as is_locked:
        if not is_locked:
            raise UsageError(
                f"another kvmark is starting testbed '{testbed.folder.name}' just now: wait for it"
            )
        testbed = Testbed.read(testbed.folder)
        if not testbed.was_up:
            name = testbed.name
            raise UsageError(
                f"testbed '{name}' has never been up, its start goes on or has failed: wait, or"
                f" remove it with kvmark down {name} --remove, or start another with --new"
            )
        gone = [node for node in testbed.nodes if not node.lives]
        if not gone:
            return testbed
        _check_ports(testbed, gone)
        system.check_again(testbed, tell)
        tell(f"Starting {testbed.name} again: {', '.join(node.name for node in gone)}")
        try:
            if testbed.network is not None and len(gone) == len(testbed.nodes):
                networks.rebuild_network(testbed.network)
                _give_service(testbed)
            testbed = _with_groups(testbed, gone)
            for node in gone:
                testbed = start_node(testbed, node.name)
            for node in testbed.nodes:
                system.wait_for_node(testbed, node, RETURNS_WITHIN_S)
        except BaseException:
            if len(gone) == len(testbed.nodes):
                stop_servers(testbed)
            else:
                # Those that weren't started again have ended.
                process.stop(filter(None, (testbed.node(node.name).process for node in gone)))
            raise
        return testbed


def start_node(testbed: Testbed, name: str) -> Testbed:
    """Starts one server on its cores and in its control group; doesn't wait for it.

    Returns:
        The testbed with the server's new process, after writing its file.

    Raises:
        UsageError: a core can't be used.
        SystemUnderTestError: the program can't be executed.
    """
    node = testbed.node(name)
    command = node.command if node.group is None else joining(node.group, node.command)
    started = process.start(
        command, testbed.log_of(node), cores=node.cores, stop_signal=node.stop_signal
    )
    changed = testbed.with_nodes({name: {"process": started}})
    changed.write()
    return changed


def stop_servers(testbed: Testbed, grace_s: float = 15.0) -> tuple[Node, ...]:
    """Stops all servers, removes control groups and network, and returns the servers that lived.

    Servers that don't stop in time are killed.

    Raises:
        SystemUnderTestError: one can't be stopped.
    """
    nodes = {node.process: node for node in testbed.nodes if node.process is not None}
    stopped = tuple(nodes[each] for each in process.stop(nodes, grace_s))
    for node in testbed.nodes:
        if node.group is not None:
            remove_group(node.group)
    if testbed.network is not None:
        networks.remove_network(testbed.network)
    return stopped


def _check_ports(testbed: Testbed, gone: Sequence[Node]) -> None:
    """Refuses ports that another program has now."""
    places = [(node.host, port) for node in gone for port in (node.port, *node.more_ports)]
    for host, port in places if testbed.network is None else ():
        if not networks.is_free(port, host):
            owner = owner_of(f"{host}:{port}", testbed.folder.parent)
            who = "another program" if owner is None else f"testbed '{owner.name}'"
            raise UsageError(
                f"port {port} of {host}, which testbed '{testbed.name}' listened on, is in use by"
                f" {who}: stop that first, or start another testbed with --new"
            )


def _with_groups(testbed: Testbed, nodes: Sequence[Node]) -> Testbed:
    """The testbed after making the control groups of these servers, if their memory is bounded.

    Raises:
        UsageError: there can't be a group; none is left.
    """
    most_bytes = testbed.facts.get("memory_bytes")
    if most_bytes is None:
        return testbed
    groups: dict[str, Path] = {}
    try:
        for node in nodes:
            if node.group is not None:
                remove_group(node.group)
            name = f"{testbed.facts['cluster_name'].replace(' ', '-')}-{node.name}"
            groups[node.name] = make_group(name, most_bytes)
    except UsageError:
        for group in groups.values():
            remove_group(group)
        raise
    return testbed.with_nodes({name: {"group": group} for name, group in groups.items()})


def _give_service(testbed: Testbed) -> None:
    """Gives the service address, if there is one, to the first server."""
    if testbed.network is not None and "service" in testbed.facts:
        networks.move_service(testbed.network, testbed.nodes[0].name)


class Certificates:
    """The files of a testbed's certificates, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = folder / "ca.crt"
        """The certificate that clients trust."""
        self.server = folder / "server.crt"
        self.key = folder / "server.key"
        self.keystore = folder / "server.p12"
        """The server's certificate and key, after `make_keystore`."""
        self.keystore_password = folder / "p12-password"

    def make_keystore(self) -> None:
        """Makes a keystore with certificate and key for Java, and its password.

        Raises:
            UsageError: openssl isn't installed.
            SystemUnderTestError: it failed.
        """
        write_private(self.keystore_password, secrets.token_urlsafe(24))
        pair = ("-inkey", self.key, "-in", self.server, "-certfile", self.authority)
        output = ("-out", self.keystore, "-passout", f"file:{self.keystore_password}")
        _openssl("pkcs12", "-export", "-name", "server", *pair, *output)


def _make_certificates(testbed: Testbed) -> Certificates:
    """Makes the certificates for localhost and the servers' addresses.

    Raises:
        UsageError: openssl isn't installed.
        SystemUnderTestError: it failed.
    """
    hosts = [*dict.fromkeys(node.host for node in testbed.nodes)]
    hosts += [testbed.network.service] if testbed.network else []
    made = Certificates(testbed.folder / "tls")
    made.folder.mkdir(mode=0o700)
    request, signing_key = made.folder / "openssl.cnf", made.folder / "ca.key"
    request.write_text(
        template("openssl.cnf").format(addresses=", ".join(f"IP:{host}" for host in hosts))
    )
    common = ("req", "-x509", "-config", request, "-days", "3650", "-nodes")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout")
    own = ("-out", made.authority, "-extensions", "authority")
    _openssl(*common, *key, signing_key, *own)
    signed = ("-CA", made.authority, "-CAkey", signing_key, "-extensions", "server")
    _openssl(*common, *key, made.key, "-out", made.server, *signed)
    remove_file(signing_key)
    return made


def _openssl(*arguments: str | Path) -> None:
    missing = "openssl is missing: install it with `sudo apt-get install openssl`"
    program = process.find_program("openssl", missing)
    finished = process.run_captured([program, *arguments])
    if finished.returncode != 0:
        lines = finished.stderr.strip().splitlines() or ["it printed nothing"]
        raise SystemUnderTestError(f"openssl could not make a certificate: {lines[-1]}")
