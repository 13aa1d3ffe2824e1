"""What the machine must have before anything can be built, and how to get it.

Everything here is a look at the machine: nothing is compiled and nothing is changed, except that on
Debian as root the missing packages are installed. Run as a program it does the same for what only
the tests use.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import libclang

OLDEST_PYTHON = (3, 11)
OLDEST_RUST = (1, 88)
JAVA = 17
JVMS = Path("/usr/lib/jvm")
ADMINISTRATORS = "/usr/sbin:/usr/local/sbin"


@dataclass(frozen=True)
class Need:
    """Something that must be there, and the Debian package that brings it."""

    what: str
    package: str
    present: bool

    def sentence(self) -> str:
        """What is missing and the command that installs it."""
        return f"{self.what} is missing: install it with `sudo apt-get install {self.package}`."


class NotReady(Exception):
    """The machine lacks something that can't be installed from here; the text says what to do."""


def needs() -> list[Need]:
    """Everything that comes from packages of the system."""
    compiler = shutil.which("c++") is not None and shutil.which("cc") is not None
    venv = all(importlib.util.find_spec(name) is not None for name in ("venv", "ensurepip"))
    found = [
        Need(
            "A C++ compiler (RocksDB is built with it)",
            "build-essential",
            compiler,
        ),
        Need("Python's venv module", "python3-venv", venv),
        Need("git", "git", shutil.which("git") is not None),
    ]
    if not libclang.is_packaged():
        there = libclang.folder() is not None
        found.append(Need("libclang (it reads RocksDB's C header)", "libclang-dev", there))
    return found


def in_ci() -> bool:
    """Whether this is the run that a change must pass, as CI=true says."""
    return os.environ.get("CI", "").lower() not in {"", "0", "false"}


def has_program(name: str) -> bool:
    """Whether a program is on the search path, or where Debian puts the administrator's."""
    return shutil.which(name) is not None or shutil.which(name, path=ADMINISTRATORS) is not None


def has_java() -> bool:
    """Whether there is the Java that Cassandra runs on, where kvmark looks for it."""
    home, first = os.environ.get("JAVA_HOME"), shutil.which("java")
    named = [Path(home, "bin", "java")] if home else []
    for java in (*named, *([first] if first else []), *JVMS.glob(f"*-{JAVA}-*/bin/java")):
        with contextlib.suppress(OSError):
            command = [str(java), "-version"]
            said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
            if re.search(rf'version "{JAVA}\b', said):
                return True
    return False


def needs_of_tests() -> list[Need]:
    """What tests use beside that, from packages of the system; without it they are skipped."""
    java = Need(f"Java {JAVA} (Cassandra runs on it)", f"openjdk-{JAVA}-jre-headless", has_java())
    programs = (
        ("redis-server (tests measure a real one)", "redis-server", ["redis-server"]),
        ("redis-benchmark (it is measured beside kvmark)", "redis-tools", ["redis-benchmark"]),
        ("memcached (tests measure a real one)", "memcached", ["memcached"]),
        ("chromium (tests look at reports in it)", "chromium", ["chromium"]),
        ("Maven (it fetches Cassandra)", "maven", ["mvn"]),
        ("haproxy (it is measured before a server)", "haproxy", ["haproxy"]),
        ("valgrind (it counts the engine's instructions)", "valgrind", ["valgrind"]),
        ("openssl (it makes servers' certificates)", "openssl", ["openssl"]),
        ("ip or tc (servers are given links of their own)", "iproute2", ["ip", "tc"]),
        ("nsenter or setpriv (servers are started by it)", "util-linux", ["nsenter", "setpriv"]),
        ("mount (tests fill small disks)", "mount", ["mount"]),
    )
    others = [
        Need(what, package, all(map(has_program, names))) for what, package, names in programs
    ]
    return [*others, java]


def can_install() -> bool:
    """Whether packages of the system can be installed from here."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(missing: list[Need]) -> None:
    """Installs packages on Debian as root.

    Raises NotReady elsewhere, with one sentence for each missing thing.
    """
    if not can_install():
        raise NotReady("\n".join(need.sentence() for need in missing))
    packages = [need.package for need in missing]
    print("installing", *packages, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    quiet = ["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
    for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        # It tells of each package that it unpacks; of what fails it writes to standard error.
        words, told = [*quiet, *command], subprocess.DEVNULL
        if subprocess.run(words, env=environment, stdout=told, check=False).returncode != 0:
            raise NotReady("\n".join(need.sentence() for need in missing))


def version_in(text: str) -> tuple[int, int]:
    """The first `major.minor` in a program's answer; (0, 0) when there is none."""
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def check_python() -> None:
    """Raises NotReady when the running Python is too old."""
    if sys.version_info[:2] < OLDEST_PYTHON:
        raise NotReady(
            f"Python {sys.version_info[0]}.{sys.version_info[1]} is too old: install Python 3.11 "
            "or newer and name it, for example `make setup PYTHON=python3.11`."
        )


def check_rust() -> None:
    """Raises NotReady when there is no Rust or an old one."""
    advice = "install it with rustup (https://rustup.rs), then open a new shell"
    if shutil.which("cargo") is None or shutil.which("rustc") is None:
        raise NotReady(f"Rust is missing: {advice}.")
    command = ["rustc", "--version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        detail = (answer.stderr.strip().splitlines() or ["rustc gave no reason"])[0]
        raise NotReady(f"Rust does not start ({detail}): {advice}.")
    if version_in(answer.stdout) < OLDEST_RUST:
        wanted = ".".join(map(str, OLDEST_RUST))
        raise NotReady(
            f"{answer.stdout.strip()} is older than {wanted}: "
            "update it with `rustup update stable`."
        )


def make_ready() -> None:
    """Installs what is missing where that is possible.

    Raises NotReady with what the user has to do where it isn't.
    """
    check_python()
    check_rust()
    missing = [need for need in needs() if not need.present]
    if missing:
        install(missing)


def has_pip(venv: Path) -> bool:
    """Whether a virtual environment is there and can install packages."""
    python = venv / "bin" / "python"
    if not python.exists():
        return False
    probe = "import pip, sys; sys.exit(sys.version_info[:2] < (3, 11))"
    return subprocess.run([python, "-c", probe], capture_output=True, check=False).returncode == 0


def main() -> int:
    """Installs what only the tests use, or says what is missing; tests then skip what needs it.

    Where CI is set nothing may be missing.
    """
    try:
        missing = [need for need in needs_of_tests() if not need.present]
        if missing:
            install(missing)
    except NotReady as problem:
        print(problem, "The tests that need it are skipped.", sep="\n", file=sys.stderr)
        return 1 if in_ci() else 0
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
