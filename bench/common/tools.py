"""Finding and building peers: into the user's cache, never into the clone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.common.process import PeerFailedError

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
CACHE = Path.home() / ".cache" / "kvmark"
YCSB_CLIENT = "site.ycsb.Client"


class PeerMissingError(PeerFailedError):
    """A peer can't be had here; one sentence says what to install."""


def find_kvmark() -> list[str]:
    """The program beside the Python that runs this."""
    return [str(Path(sys.executable).with_name("kvmark"))]


def find_ycsb(sources: Path, name: str, binding: str) -> list[str]:
    """The core from Maven with a binding of ours; what changed is compiled again."""
    advice = "install Maven and Java with `sudo apt-get install maven default-jdk-headless`"
    java, maven = program("java", advice), program("mvn", advice)
    built = CACHE / name
    command = [maven, "-B", "-ntp", "-q", f"-Dbuild.folder={built}", "package"]
    make(command, sources, "YCSB's binding can't be built with Maven")
    classes = f"{built}/target/{name}.jar:{built}/lib/*"
    return [java, "-cp", classes, YCSB_CLIENT, "-db", binding]


def find_example(crate: str, name: str, rocksdb: str | None = None) -> list[str]:
    """An example of one of our crates, for one build of RocksDB where it matters."""
    cargo("build", "-p", crate, "--example", name, rocksdb=rocksdb)
    return [str(target(rocksdb) / "examples" / name)]


def cargo(command: str, *words: str, rocksdb: str | None = None) -> str:
    """Calls Cargo as the Makefile does; what it printed.

    Raises:
        PeerMissingError: it failed.
    """
    whole = [sys.executable, "cargo.py", command, "--release", "--locked", *words]
    return make(whole, SCRIPTS, f"Cargo can't {command} {' '.join(words)}", _with(rocksdb))


def target(rocksdb: str | None = None) -> Path:
    """Where Cargo puts what it built.

    Raises:
        PeerMissingError: its folder can't be had.
    """
    place = "import target_folder; print(target_folder.place())"
    told = make([sys.executable, "-c", place], SCRIPTS, "Cargo has no folder", _with(rocksdb))
    return Path(told.strip()) / "release"


def _with(rocksdb: str | None) -> dict[str, str]:
    if rocksdb is None:
        return {}
    # Apart, so that neither build has to be made again after the other.
    return {"KVMARK_ROCKSDB": rocksdb, "CARGO_TARGET_DIR": str(target().parent / rocksdb)}


def find(
    peers: Mapping[str, Callable[[], list[str]]],
) -> tuple[dict[str, list[str]], list[str]]:
    """The programs that can be had, and a sentence for each that can't."""
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
        PeerMissingError: it isn't there.
    """
    found = shutil.which(name)
    if found is None:
        raise PeerMissingError(f"{name} is missing: {advice}.")
    return found


def make(
    command: Sequence[str], folder: Path, failed: str, more: Mapping[str, str] | None = None
) -> str:
    """Carries out a step of a build, with more variables if any are given; what it printed.

    Raises:
        PeerMissingError: it failed; the last line it printed says why.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(  # noqa: S603 - programs that a table names
        command,
        cwd=folder,
        env={**os.environ, **(more or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-1]
        raise PeerMissingError(f"{failed} ({said}): mend that and run this again.")
    return done.stdout
