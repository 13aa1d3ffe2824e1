"""Finding and building the programs: into the user's cache, never into the clone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.common.process import PeerFailedError

SCRIPTS: Final = Path(__file__).resolve().parents[2] / "scripts"
YCSB: Final = Path(__file__).resolve().parents[1] / "ycsb"
CACHE: Final = Path.home() / ".cache" / "kvmark"
KVMARK: Final = [str(Path(sys.executable).with_name("kvmark"))]
MAVEN: Final = ("mvn", "-B", "-ntp", "-q")
JAVA_ADVICE: Final = "install Maven and Java with `sudo apt-get install maven default-jdk-headless`"


class PeerMissingError(PeerFailedError):
    """A program isn't available; the text has advice."""


Find = Callable[[], list[str]]


def find(peers: Mapping[str, Find]) -> tuple[dict[str, list[str]], list[str]]:
    """The programs that are available, and a sentence for each other one."""
    found: dict[str, list[str]] = {}
    missing: list[str] = []
    for name, look in peers.items():
        try:
            found[name] = look()
        except PeerMissingError as reason:
            missing.append(str(reason))
    return found, missing


def program(name: str, advice: str) -> str:
    """A program of the machine.

    Raises:
        PeerMissingError: it isn't installed.
    """
    found = shutil.which(name)
    if found is None:
        raise PeerMissingError(f"{name} is missing: {advice}.")
    return found


def java() -> str:
    """Java, where Maven is there too.

    Raises:
        PeerMissingError: one of them isn't installed.
    """
    program("mvn", JAVA_ADVICE)
    return program("java", JAVA_ADVICE)


def find_ycsb(binding: str) -> list[str]:
    """YCSB's core from Maven with a binding of this repository, compiled where it changed."""
    virtual_machine, built = java(), CACHE / "ycsb-bindings"
    command = [*MAVEN, f"-Dbuild.folder={built}", "package"]
    make(command, YCSB, "YCSB's bindings can't be built with Maven")
    classes = f"{built}/target/ycsb-bindings.jar:{built}/lib/*"
    client = [virtual_machine, "-cp", classes, "site.ycsb.Client", "-t", "-db"]
    return [*client, f"kvmark.peer.{binding}", "-p", "workload=site.ycsb.workloads.CoreWorkload"]


def find_example(crate: str, name: str, rocksdb: str | None = None) -> list[str]:
    """An example of a crate, for one build of RocksDB if that matters."""
    cargo("build", "-p", crate, "--example", name, rocksdb=rocksdb)
    return [str(_target() / (rocksdb or "") / "release" / "examples" / name)]


def cargo(command: str, *words: str, rocksdb: str | None = None) -> str:
    """Calls Cargo as the Makefile does and returns its output.

    Raises:
        PeerMissingError: it failed.
    """
    whole = [sys.executable, "cargo.py", command, "--release", "--locked", *words]
    return make(whole, SCRIPTS, f"Cargo can't {command} {' '.join(words)}", _variables(rocksdb))


def make(
    command: Sequence[str], folder: Path, failed: str, variables: Mapping[str, str] | None = None
) -> str:
    """Executes a step of a build and returns its output.

    Raises:
        PeerMissingError: it failed; the text has the last line of its output.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(  # noqa: S603 - programs of a benchmark
        command,
        cwd=folder,
        env={**os.environ, **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        errors = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()
        raise PeerMissingError(f"{failed} ({errors[-1]}): fix that and run this again.")
    return done.stdout


def _target() -> Path:
    """Cargo's folder."""
    place = "import target_folder; print(target_folder.place())"
    return Path(make([sys.executable, "-c", place], SCRIPTS, "Cargo has no folder").strip())


def _variables(rocksdb: str | None) -> dict[str, str]:
    if rocksdb is None:
        return {}
    # In two folders, neither build replaces the other.
    return {"KVMARK_ROCKSDB": rocksdb, "CARGO_TARGET_DIR": str(_target() / rocksdb)}
