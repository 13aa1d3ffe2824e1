"""Checks the machine for the programs that a build needs, and installs missing packages.

It changes nothing except that, on Debian as root, it installs the missing packages. As a program it
does the same for the packages that only tests use.
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
import progress

OLDEST_PYTHON = (3, 11)
OLDEST_RUST = (1, 88)
JAVA = 17
JVMS = Path("/usr/lib/jvm")
POSTGRES = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")))
ADMINISTRATORS = os.pathsep.join(["/usr/sbin", "/usr/local/sbin", *POSTGRES])


@dataclass(frozen=True)
class Need:
    """A program or module, and the Debian package that has it."""

    what: str
    package: str
    present: bool

    def sentence(self) -> str:
        """The missing program, and the command that installs it."""
        return f"{self.what} is missing: install it with `sudo apt-get install {self.package}`."


class NotReady(Exception):
    """Something is missing that can't be installed from here; the text has advice."""


def needs() -> list[Need]:
    """The programs that come from packages of the system."""
    compiler = shutil.which("c++") is not None and shutil.which("cc") is not None
    venv = all(importlib.util.find_spec(name) is not None for name in ("venv", "ensurepip"))
    found = [
        Need("A C++ compiler (RocksDB is built with it)", "build-essential", compiler),
        Need("Python's venv module", "python3-venv", venv),
        Need("git", "git", shutil.which("git") is not None),
    ]
    if not libclang.is_packaged():
        there = libclang.folder() is not None
        found.append(Need("libclang (it reads RocksDB's C header)", "libclang-dev", there))
    return found


def in_ci() -> bool:
    """Whether CI is set."""
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
    """The programs that only tests use, from packages of the system."""
    java = Need(f"Java {JAVA} (Cassandra runs on it)", f"openjdk-{JAVA}-jre-headless", has_java())
    programs = (
        ("redis-server (tests measure a real one)", "redis-server", ["redis-server"]),
        ("redis-benchmark (it is compared with kvmark)", "redis-tools", ["redis-benchmark"]),
        ("memcached (tests measure a real one)", "memcached", ["memcached"]),
        ("postgres (tests measure a real one)", "postgresql", ["postgres"]),
        ("npm (it fetches dynalite, which tests measure)", "npm", ["npm"]),
        ("chromium (tests look at reports in it)", "chromium", ["chromium"]),
        ("Maven (it fetches Cassandra)", "maven", ["mvn"]),
        ("haproxy (it is measured as a proxy)", "haproxy", ["haproxy"]),
        ("strace (it counts calls that wait for disks)", "strace", ["strace"]),
        ("valgrind (it counts the engine's instructions)", "valgrind", ["valgrind"]),
        ("openssl (it makes servers' certificates)", "openssl", ["openssl"]),
        ("ip or tc (testbeds have network links)", "iproute2", ["ip", "tc"]),
        ("nsenter or setpriv (they start servers)", "util-linux", ["nsenter", "setpriv"]),
        ("mount (tests fill small disks)", "mount", ["mount"]),
    )
    return [*(Need(what, name, all(map(has_program, n))) for what, name, n in programs), java]


def can_install() -> bool:
    """Whether packages of the system can be installed from here."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(wanted: list[Need]) -> None:
    """Installs missing packages on Debian as root.

    Raises NotReady elsewhere, with one sentence for each missing thing.
    """
    missing = [need for need in wanted if not need.present]
    if not missing:
        return
    if not can_install():
        raise NotReady("\n".join(need.sentence() for need in missing))
    packages = [need.package for need in missing]
    print("installing", *packages, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Another installation, such as the machine's own update, is waited for.
    options = ("Dpkg::Use-Pty=0", "DPkg::Lock::Timeout=300")
    quiet = ["apt-get", "-qq", *(word for option in options for word in ("-o", option))]
    for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        # Its standard output has a line for each package; errors are on standard error.
        words, output = [*quiet, *command], subprocess.DEVNULL
        if subprocess.run(words, env=environment, stdout=output, check=False).returncode != 0:
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

    Raises NotReady with advice where it isn't.
    """
    check_python()
    check_rust()
    install(needs())


def has_pip(venv: Path) -> bool:
    """Whether a virtual environment is there and can install packages."""
    python = venv / "bin" / "python"
    if not python.exists():
        return False
    probe = "import pip, sys; sys.exit(sys.version_info[:2] < (3, 11))"
    return subprocess.run([python, "-c", probe], capture_output=True, check=False).returncode == 0


def main() -> int:
    """Installs the programs that only tests use, or prints the missing ones.

    Tests that need a missing program are skipped; in CI none may be missing.
    """
    try:
        install(needs_of_tests())
    except NotReady as problem:
        print(problem, "The tests that need it are skipped.", sep="\n", file=sys.stderr)
        return 1 if in_ci() else 0
    return 0


if __name__ == "__main__":
    sys.exit(progress.exit_code(main))
