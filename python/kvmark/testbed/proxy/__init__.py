"""Proxies in front of a system: HAProxy, Shotover and cql-proxy.

They only pass requests on, so that a measurement shows the cost of the additional hop.

HAProxy is installed; the others are built once, at exact versions, in kvmark's folder in the user's
cache. Shotover is a library, which a program of a few lines makes a proxy; cql-proxy is a module of
Go.
"""

from __future__ import annotations

import os
import re
import resource
import socket
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

import psutil

from kvmark.cache import cache_folder
from kvmark.drivers import drivers
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed import state
from kvmark.testbed.console import fingerprint
from kvmark.testbed.launch import launch, planned
from kvmark.testbed.network import HOST, choose_ports
from kvmark.testbed.process import find_program, locked, run_captured, run_streaming
from kvmark.testbed.state import Node, Testbed, make_folder, owner_of, template, write_private
from kvmark.testbed.system import Meter, System, Tell, TestbedOptions, check_bounds, option

Kind = Literal["haproxy", "shotover", "cql-proxy"]
Build = Literal["debug", "release"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_OWN_FILES: Final = re.compile(
    rf"{state.OWN_FILES}"
    r"|[a-z-]+/(haproxy\.cfg|topology\.yaml|config\.yaml|cql-proxy\.yaml|server\.log)"
)
_HEALTHY_WITHIN_S: Final = 30.0
_CONNECTS_WITHIN_S: Final = 5.0

_SHOTOVER_PROTOCOLS: Final = {
    "redis": ("Valkey", "ValkeySinkSingle"),
    "cql": ("Cassandra", "CassandraSinkSingle"),
}
"""Shotover's names of the drivers' protocols, as a source and as a sink."""

_LONGEST_PORT: Final = 5
_MOST_THREADS: Final = 64
_MOST_CONNECTIONS: Final = 20_000
_RESERVED_FILES: Final = 200
_FILES_PER_CONNECTION: Final = 2

_FILES: Final[Mapping[Kind, tuple[str, ...]]] = {
    "haproxy": ("haproxy.cfg",),
    "shotover": ("topology.yaml", "config.yaml"),
    "cql-proxy": ("cql-proxy.yaml",),
}
_COMMANDS: Final[Mapping[Kind, str]] = {
    "haproxy": "{program} -db -f {folder}/haproxy.cfg",
    "shotover": "{program} --topology-file {folder}/topology.yaml"
    " --config-file {folder}/config.yaml --core-threads {threads}",
    # Go's runtime takes the number of its threads from its environment only.
    "cql-proxy": "env GOMAXPROCS={threads} {program} --config {folder}/cql-proxy.yaml",
}
_SHOTOVER: Final = "0.7.4"
_CQL_PROXY: Final = "0.2.0"
_GO_MODULE: Final = "github.com/datastax/cql-proxy"
_VERSION: Final = re.compile(r"version (\d[\w.]*)")
_PROFILES: Final[Mapping[Build, str]] = {"debug": "dev", "release": "release"}
"""Cargo's names of the builds."""
_LONGEST: Final = 300

# Addresses differ between testbeds and don't affect measurements.
_PLACE: Final = re.compile(r"([\w.-]+|\[[0-9a-f:]+\]):\d+|(?<=port: )\d+")


@dataclass(frozen=True, slots=True)
class Target:
    """The system behind a proxy."""

    driver: str
    address: str
    """Host and port; a host alone has the driver's default port."""
    text: str
    """The URL without credentials."""
    encrypted: bool = False
    password: bool = False
    """Whether clients need a password."""
    cluster: bool = False
    """Whether clients get the addresses of other nodes."""

    @property
    def place(self) -> tuple[str, int]:
        """The host, or its address, and the port."""
        host, colon, port = self.address.rpartition(":")
        if colon and port.isdecimal() and len(port) <= _LONGEST_PORT:
            return host.strip("[]"), int(port)
        return self.address.strip("[]"), drivers()[self.driver].port or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyOptions(TestbedOptions):
    """The options of a proxy."""

    kind: Kind = option(MISSING, "which one. Shotover and cql-proxy are built once.")
    to: Target = option(MISSING, "the system to stand before, a URL or up:NAME.", "URL")
    port: int | None = option(None, "its own; else a free one.", "PORT")
    threads: int | None = option(
        None, "its threads; else as many as there are cores.", "N", most=_MOST_THREADS
    )
    build: Build | None = option(None, "how Shotover is compiled; else release.")


def check(options: ProxyOptions) -> None:
    """Refuses options that a kind of proxy doesn't support, before anything is built or started.

    Raises:
        UsageError: names the option and an alternative.
    """
    kind, to = options.kind, options.to
    if to.address.startswith("/") or "," in to.address:
        raise UsageError(f"to: a proxy stands before one host and port, not before {to.address}")
    if kind == "shotover" and to.driver not in _SHOTOVER_PROTOCOLS:
        raise UsageError(f"to: shotover doesn't speak what {to.text} does; take haproxy")
    if kind == "cql-proxy" and to.driver != "cql":
        raise UsageError(f"to: cql-proxy speaks CQL, and {to.text} doesn't; give a cql:// URL")
    if to.cluster and kind != "cql-proxy":
        raise UsageError(
            f"to: clients of {to.text} get the addresses of all its nodes and go round {kind}; give"
            " a system of one node"
        )
    if to.encrypted and kind != "haproxy":
        raise UsageError(f"to: {kind} would have to decrypt {to.text}; take haproxy, or no TLS")
    if to.password and kind == "cql-proxy":
        raise UsageError(
            "to: cql-proxy logs in by itself, so that its command would have a password; give a"
            " system without one"
        )
    if options.build is not None and kind != "shotover":
        raise UsageError(f"build: {kind} comes in one build; leave --build out")
    check_bounds(options)


def up(options: ProxyOptions, root: Path, tell: Tell = lambda _: None) -> Testbed:
    """Starts a proxy in a new folder below `root`, and waits until it accepts connections.

    If that fails, neither a process nor the folder is left.

    Args:
        options: the proxy.
        root: the folder of testbeds.
        tell: reports progress: a proxy may have to be built first.

    Raises:
        UsageError: the proxy can't be started here.
        SystemUnderTestError: the system can't be reached, or the proxy can't be built or started.
    """
    check(options)
    _check_nodes(options, root)
    _check_target(*options.to.place)
    kind, to = options.kind, options.to
    program = find_proxy(kind, options.build or "release", tell)
    (port,) = choose_ports(options.port)
    folder = make_folder(root, kind, options.name)
    threads = options.threads or len(options.cores) or len(os.sched_getaffinity(0))
    decided: dict[str, Any] = {"to": to.text, "threads": threads}
    facts = {
        **decided,
        "kind": kind,
        "version": f"{kind} {program.version}",
        "build": program.build,
        "behind": "{}:{}".format(*to.place),
        "files": files(kind, port, to, threads),
    }
    node = Node(
        name=kind,
        role="proxy",
        host=HOST,
        port=port,
        command=command(kind, program.path, folder / kind, threads),
        cores=options.cores,
    )
    scheme, _, rest = to.text.partition("://")
    # The system's URL with the proxy's address.
    url = f"{scheme}://{node.address}{re.sub(r'^[^/?]*', '', rest)}"
    testbed = planned(
        "proxy", folder, options, [node], url, facts=facts, build=program.build or None, **decided
    )
    return launch(testbed, options, SYSTEM, _prepare)


def _check_again(testbed: Testbed, tell: Tell) -> None:
    """Checks the system behind the proxy, and finds or builds the proxy's program."""
    host, _, port = testbed.facts["behind"].rpartition(":")
    _check_target(host, int(port))
    find_proxy(testbed.facts["kind"], testbed.facts["build"] or "release", tell)


def _prepare(testbed: Testbed, *_: object) -> None:
    for name, text in testbed.facts["files"].items():
        write_private(testbed.folder_of(testbed.nodes[0]) / name, text)


def _check_nodes(options: ProxyOptions, root: Path) -> None:
    """Refuses a testbed of several nodes behind a proxy that doesn't hide nodes."""
    owner = owner_of("{}:{}".format(*options.to.place), root)
    nodes = 0 if owner is None else sum(node.role == "peer" for node in owner.nodes)
    if owner is not None and nodes > 1 and options.kind != "cql-proxy":
        raise UsageError(
            f"to: {owner.name} has {nodes} nodes, and its clients find the others and go round"
            f" {options.kind}; start one node with kvmark up cassandra --nodes 1"
        )


def files(kind: Kind, port: int, to: Target, threads: int) -> dict[str, str]:
    """The files that a proxy reads, by name."""
    source, sink = _SHOTOVER_PROTOCOLS.get(to.driver, ("", ""))
    to_host, to_port = to.place
    values = {
        "host": HOST,
        "port": port,
        "to_host": f"[{to_host}]" if ":" in to_host else to_host,
        "to_port": to_port,
        "threads": threads,
        "connections": _connections(),
        "source": source,
        "sink": sink,
    }
    return {name: template(f"proxy/{name}").format(**values) for name in _FILES[kind]}


def command(kind: Kind, program: str, folder: Path, threads: int) -> tuple[str, ...]:
    """The command that runs a proxy in the foreground."""
    values = {"program": program, "folder": folder, "threads": threads}
    return tuple(word.format(**values) for word in _COMMANDS[kind].split())


def _connections() -> int:
    """The limit of open connections: high, but within this process's own limit of files.

    HAProxy allocates memory for the whole limit.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    return max(1, min(_MOST_CONNECTIONS, (soft - _RESERVED_FILES) // _FILES_PER_CONNECTION))


def _check_target(host: str, port: int) -> None:
    """Checks that the system behind the proxy accepts connections.

    Raises:
        SystemUnderTestError: it doesn't.
    """
    try:
        socket.create_connection((host, port), timeout=_CONNECTS_WITHIN_S).close()
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise SystemUnderTestError(
            f"to: {host}:{port} can't be reached ({reason}): start the system first, or"
            " correct --to"
        ) from problem


def _wait_for_proxy(testbed: Testbed, node: Node, within_s: float) -> None:
    def accepts() -> bool:
        # The kernel answers whether the proxy listens, and not another program that has taken the
        # port: a connection would also connect to the system behind.
        if node.process is None:
            return False
        try:
            connections = psutil.Process(node.process.pid).net_connections(kind="tcp")
        except psutil.Error:
            return False
        listening = (one for one in connections if one.status == psutil.CONN_LISTEN)
        return node.port in {one.laddr.port for one in listening}

    testbed.wait_until(accepts, "accept connections", within_s, node)


def _describe(testbed: Testbed) -> Mapping[str, Any]:
    """Kind, version, build, threads, and the files that the proxy reads, for a manifest."""
    facts = testbed.facts
    known = {name: facts[name] for name in ("kind", "build", "threads")}
    without_places = {name: _PLACE.sub("", text) for name, text in facts["files"].items()}
    return {
        **testbed.described(),
        **known,
        "to": facts["to"],
        "fingerprint": fingerprint({**known, "files": without_places, "version": testbed.version}),
        "settings": facts["files"],
    }


@dataclass(frozen=True, slots=True)
class Program:
    """A proxy's program on this machine."""

    path: str
    version: str
    build: str = ""
    """Empty for a program that has one build."""


@dataclass(frozen=True, slots=True)
class _Recipe:
    """The files and the command that build a program in its folder, for a build and its profile."""

    version: str
    files: Mapping[str, str]
    command: tuple[str, ...]
    product: str
    """The program, as a path in the folder."""
    tool: str
    """The error if the tool that builds it is missing."""


_RECIPES: Final[Mapping[Kind, _Recipe]] = {
    "shotover": _Recipe(
        version=_SHOTOVER,
        files={
            "Cargo.toml": template("proxy/shotover.toml").format(version=_SHOTOVER),
            "src/main.rs": template("proxy/shotover.rs"),
        },
        command=("cargo", "build", "--profile", "{profile}"),
        product="target/{build}/kvmark-shotover",
        tool="Cargo, which builds Shotover, is missing: install Rust",
    ),
    "cql-proxy": _Recipe(
        version=_CQL_PROXY,
        files={
            "go.mod": f"module kvmark/cql-proxy\n\ngo 1.21\n\nrequire {_GO_MODULE} v{_CQL_PROXY}\n"
        },
        command=("go", "build", "-mod=mod", "-o", "cql-proxy", _GO_MODULE),
        product="cql-proxy",
        tool="Go, which builds cql-proxy, is missing: install it with `sudo apt-get install"
        " golang-go`",
    ),
}


def find_proxy(kind: Kind, build: Build, tell: Tell) -> Program:
    """A proxy's program. If it is missing, it is built, which takes minutes.

    Raises:
        UsageError: it, or its build tool, is missing.
        SystemUnderTestError: it can't be built.
    """
    if kind == "haproxy":
        missing = "haproxy is missing: install it with `sudo apt-get install haproxy`"
        # Debian's folder is only in root's search path.
        folders = f"{os.environ.get('PATH') or os.defpath}:/usr/sbin:/usr/local/sbin"
        path = find_program("haproxy", missing, folders)
        version = _VERSION.search(run_captured([path, "-v"]).stdout)
        return Program(path, version[1] if version else "")
    program = built_path(kind, build)
    if not program.exists():
        _build(kind, build, tell)
    return Program(str(program), _RECIPES[kind].version, build if kind == "shotover" else "")


def built_path(kind: Kind, build: Build = "release") -> Path:
    """The path of a proxy's program after it is built."""
    return _folder(kind) / _RECIPES[kind].product.format(build=build)


def _folder(kind: Kind) -> Path:
    """The folder where a program is built."""
    return cache_folder() / f"{kind}-{_RECIPES[kind].version}"


def _build(kind: Kind, build: Build, tell: Tell) -> None:
    recipe, folder = _RECIPES[kind], _folder(kind)
    program, *words = recipe.command
    tool, name = find_program(program, recipe.tool), folder.name
    place = f"{name} can't be built in {folder}"
    with locked(folder / ".lock", f"building {name}", place, tell):
        if built_path(kind, build).exists():
            return
        for file, text in recipe.files.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        step = f"Building {name}, which takes some minutes once"
        tell(step)
        # Settings of the user's other builds don't apply.
        alien = {"CARGO_TARGET_DIR", "RUSTFLAGS"}
        code, lines = run_streaming(
            [tool, *(word.format(profile=_PROFILES[build]) for word in words)],
            lambda line: tell(f"{step}: {line}"),
            folder=folder,
            environment={k: v for k, v in os.environ.items() if k not in alien},
        )
    if code != 0:
        reasons = [line for line in lines if line.startswith("error")] or list(filter(None, lines))
        reason = (reasons or ["it printed nothing"])[-1]
        raise SystemUnderTestError(
            f"{name} can't be built with {program}, look at the network and at its"
            f" registry: {reason[:_LONGEST]}"
        )


SYSTEM: Final = System(
    "proxy",
    ProxyOptions,
    up,
    _wait_for_proxy,
    _wait_for_proxy,
    _describe,
    lambda _, __: Meter(),
    _OWN_FILES,
    _HEALTHY_WITHIN_S,
    named_by="kind",
    version_of=lambda testbed: str(testbed.facts["version"]),
    required=f"a proxy needs its kind and a system: write --kind {'|'.join(KINDS)} --to URL",
    check_again=_check_again,
)
