"""The programs of the proxies: HAProxy from the system, the others built once into the cache.

Shotover is a library: a program of a few lines makes a proxy of it. cql-proxy is a Go module. Both
are built at exact versions into kvmark's folder in the user's cache.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kvmark.cache import cache_folder
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed.cache import locked, run_told
from kvmark.testbed.proxy.wanted import Build, Kind

SHOTOVER: Final = "0.7.4"
"""The version of Shotover's crate."""
CQL_PROXY: Final = "0.2.0"
"""The version of cql-proxy's module."""

_GO_MODULE: Final = "github.com/datastax/cql-proxy"
_VERSION: Final = re.compile(r"version (\d[\w.]*)")
_LONGEST: Final = 300
_SHOTOVER_FILES: Final[Mapping[str, str]] = {
    "Cargo.toml": f"""\
[package]
name = "kvmark-shotover"
version = "{SHOTOVER}"
edition = "2021"
publish = false

[dependencies.shotover]
version = "={SHOTOVER}"
default-features = false
features = ["cassandra", "valkey"]

[workspace]
""",
    "src/main.rs": """\
//! Shotover with the sources and sinks that its crate brings.

fn main() {
    shotover::runner::Shotover::new().run_block();
}
""",
}
_CQL_PROXY_FILES: Final[Mapping[str, str]] = {
    "go.mod": f"module kvmark/cql-proxy\n\ngo 1.21\n\nrequire {_GO_MODULE} v{CQL_PROXY}\n"
}


@dataclass(frozen=True, slots=True)
class Program:
    """A proxy's program on this machine."""

    path: str
    version: str
    build: str
    """How it was compiled; empty where it comes compiled."""


@dataclass(frozen=True, slots=True)
class _Recipe:
    """How a program is built in a folder of its own."""

    name: str
    files: Mapping[str, str]
    command: tuple[str, ...]
    product: str
    """The program, as a path in the folder."""
    tool: str
    """Who builds it, and how it is installed."""


def find_program(
    kind: Kind, build: Build, tell: Callable[[str], None], cache: Path | None = None
) -> Program:
    """A proxy's program; built if it isn't there yet, which takes minutes.

    Args:
        kind: which proxy.
        build: how Shotover is compiled.
        tell: is told what is being built.
        cache: the folder to build in; None for kvmark's in the user's cache folder.

    Raises:
        UsageError: it, or what builds it, is missing.
        SystemUnderTestError: it can't be built.
    """
    if kind == "haproxy":
        return _haproxy()
    recipe = _recipe(kind, build)
    program = built_path(kind, build, cache)
    if not program.exists():
        _build(recipe, _folder(recipe, cache), tell)
    version = SHOTOVER if kind == "shotover" else CQL_PROXY
    return Program(str(program), version, build if kind == "shotover" else "")


def built_path(kind: Kind, build: Build = "release", cache: Path | None = None) -> Path:
    """Where a proxy's program lies once it is built."""
    recipe = _recipe(kind, build)
    return _folder(recipe, cache) / recipe.product


def _haproxy() -> Program:
    found = shutil.which("haproxy")
    # Debian puts it where only the administrator's search path leads.
    found = found or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise UsageError("haproxy is missing: install it with `sudo apt-get install haproxy`")
    said = subprocess.run(  # noqa: S603 - the words are ours
        [found, "-v"], capture_output=True, text=True, check=False
    )
    known = _VERSION.search(said.stdout)
    return Program(found, known[1] if known else "", "")


def _recipe(kind: Kind, build: Build) -> _Recipe:
    if kind == "shotover":
        release = ("--release",) if build == "release" else ()
        return _Recipe(
            name=f"shotover-{SHOTOVER}",
            files=_SHOTOVER_FILES,
            command=("cargo", "build", *release),
            product=f"target/{build}/kvmark-shotover",
            tool="Cargo, which builds Shotover, is missing: install Rust",
        )
    return _Recipe(
        name=f"cql-proxy-{CQL_PROXY}",
        files=_CQL_PROXY_FILES,
        command=("go", "build", "-mod=mod", "-o", "cql-proxy", _GO_MODULE),
        product="cql-proxy",
        tool="Go, which builds cql-proxy, is missing: install it with `sudo apt-get install"
        " golang-go`",
    )


def _folder(recipe: _Recipe, cache: Path | None) -> Path:
    return (cache_folder() if cache is None else cache) / recipe.name


def _build(recipe: _Recipe, folder: Path, tell: Callable[[str], None]) -> None:
    tool = shutil.which(recipe.command[0])
    if tool is None:
        raise UsageError(recipe.tool)
    try:
        with locked(folder / ".lock", f"building {recipe.name}", tell):
            if (folder / recipe.product).exists():
                return
            for name, text in recipe.files.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            _run([tool, *recipe.command[1:]], folder, recipe.name, tell)
    except OSError as problem:
        raise UsageError(
            f"{recipe.name} can't be built in {folder} because {problem.strerror}: name another"
            " cache folder with XDG_CACHE_HOME"
        ) from problem


def _run(command: Sequence[str], folder: Path, name: str, tell: Callable[[str], None]) -> None:
    """Builds; its lines are told as they come, and the last ones are the reason if it fails."""
    step = f"Building {name}, which takes some minutes once"
    tell(step)
    said: list[str] = []
    # Where other builds put their output, and how, is no concern of this one.
    own = {k: v for k, v in os.environ.items() if k not in {"CARGO_TARGET_DIR", "RUSTFLAGS"}}

    def hear(line: str) -> None:
        said.append(line.strip())
        tell(f"{step}: {line.strip()}")

    if run_told(command, hear, folder=folder, environment=own) != 0:
        reasons = [line for line in said if line.startswith("error")] or [
            line for line in said if line
        ]
        reason = (reasons or ["it said nothing"])[-1]
        raise SystemUnderTestError(
            f"{name} can't be built with {Path(command[0]).name}, look at the network and at its"
            f" registry: {reason[:_LONGEST]}"
        )
