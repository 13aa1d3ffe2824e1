"""The programs of the proxies: HAProxy is installed, the others are built once into the cache.

Shotover is a library: a program of a few lines makes a proxy of it. cql-proxy is a Go module. Both
are built at exact versions in kvmark's folder in the user's cache.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from kvmark.cache import cache_folder
from kvmark.errors import SystemUnderTestError, UsageError
from kvmark.testbed.process import locked, run_captured, run_streaming
from kvmark.testbed.system import Tell

Kind = Literal["haproxy", "shotover", "cql-proxy"]
Build = Literal["debug", "release"]

_SHOTOVER: Final = "0.7.4"
_CQL_PROXY: Final = "0.2.0"
_GO_MODULE: Final = "github.com/datastax/cql-proxy"
_VERSION: Final = re.compile(r"version (\d[\w.]*)")
_LONGEST: Final = 300
_SHOTOVER_FILES: Final[Mapping[str, str]] = {
    "Cargo.toml": f"""\
[package]
name = "kvmark-shotover"
version = "{_SHOTOVER}"
edition = "2021"
publish = false

[dependencies.shotover]
version = "={_SHOTOVER}"
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
    "go.mod": f"module kvmark/cql-proxy\n\ngo 1.21\n\nrequire {_GO_MODULE} v{_CQL_PROXY}\n"
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
    """The files and the command that build a program in its folder."""

    name: str
    files: Mapping[str, str]
    command: tuple[str, ...]
    product: str
    """The program, as a path in the folder."""
    tool: str
    """The error if the tool that builds it is missing."""


def find_program(kind: Kind, build: Build, tell: Tell) -> Program:
    """A proxy's program. If it is missing, it is built, which takes minutes.

    Raises:
        UsageError: it, or its build tool, is missing.
        SystemUnderTestError: it can't be built.
    """
    if kind == "haproxy":
        return _haproxy()
    program = built_path(kind, build)
    if not program.exists():
        _build(_recipe(kind, build), tell)
    if kind == "shotover":
        return Program(str(program), _SHOTOVER, build)
    return Program(str(program), _CQL_PROXY)


def built_path(kind: Kind, build: Build = "release") -> Path:
    """The path of a proxy's program after it is built."""
    recipe = _recipe(kind, build)
    return cache_folder() / recipe.name / recipe.product


def _haproxy() -> Program:
    path = shutil.which("haproxy")
    # Debian's folder is only in root's search path.
    path = path or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
    if path is None:
        raise UsageError("haproxy is missing: install it with `sudo apt-get install haproxy`")
    version = _VERSION.search(run_captured([path, "-v"]).stdout)
    return Program(path, version[1] if version else "")


def _recipe(kind: Kind, build: Build) -> _Recipe:
    if kind == "shotover":
        release = ("--release",) if build == "release" else ()
        return _Recipe(
            name=f"shotover-{_SHOTOVER}",
            files=_SHOTOVER_FILES,
            command=("cargo", "build", *release),
            product=f"target/{build}/kvmark-shotover",
            tool="Cargo, which builds Shotover, is missing: install Rust",
        )
    return _Recipe(
        name=f"cql-proxy-{_CQL_PROXY}",
        files=_CQL_PROXY_FILES,
        command=("go", "build", "-mod=mod", "-o", "cql-proxy", _GO_MODULE),
        product="cql-proxy",
        tool="Go, which builds cql-proxy, is missing: install it with `sudo apt-get install"
        " golang-go`",
    )


def _build(recipe: _Recipe, tell: Tell) -> None:
    tool, folder = shutil.which(recipe.command[0]), cache_folder() / recipe.name
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


def _run(command: Sequence[str], folder: Path, name: str, tell: Tell) -> None:
    """Builds; reports each line. If it fails, the last one is the reason."""
    step = f"Building {name}, which takes some minutes once"
    tell(step)
    lines: list[str] = []
    # Settings of the user's other builds don't apply.
    own = {k: v for k, v in os.environ.items() if k not in {"CARGO_TARGET_DIR", "RUSTFLAGS"}}

    def on_line(line: str) -> None:
        lines.append(line.strip())
        tell(f"{step}: {line.strip()}")

    if run_streaming(command, on_line, folder=folder, environment=own) != 0:
        reasons = [line for line in lines if line.startswith("error")] or list(filter(None, lines))
        reason = (reasons or ["it printed nothing"])[-1]
        raise SystemUnderTestError(
            f"{name} can't be built with {Path(command[0]).name}, look at the network and at its"
            f" registry: {reason[:_LONGEST]}"
        )
