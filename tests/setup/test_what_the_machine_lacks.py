"""`make setup` names what the machine lacks, and the command that installs it.

The machine is a folder of programs that is the whole PATH; setup stops before it builds anything.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import programs

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
GOOD_RUST = "echo 'rustc 1.95.0 (59807616e 2026-04-14)'"
JAVA_17 = """echo 'openjdk version "17.0.15" 2025-04-15' >&2"""
JAVA_21 = """echo 'openjdk version "21.0.7" 2025-04-15' >&2"""
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can install packages")
# The programs that tests use, beside Java.
PROGRAMS = (
    "redis-server", "redis-benchmark", "memcached", "postgres", "npm", "chromium", "mvn", "haproxy",
    "strace", "valgrind", "openssl", "ip", "tc", "nsenter", "setpriv", "mount",
)  # fmt: skip
Has = Callable[..., None]


@pytest.fixture
def has(tmp_path: Path) -> Has:
    """Gives the machine programs with a script."""

    def add(*names: str, script: str = "true") -> None:
        for name in names:
            programs.script(tmp_path / name, script)

    return add


def errors_of(folder: Path, *words: str, exits: int, **variables: str) -> str:
    """The messages of a script that must not raise."""
    environment = {"PATH": str(folder), "XDG_CACHE_HOME": str(folder), **variables}
    command = [sys.executable, "-B", *words]
    done = subprocess.run(
        command, cwd=SCRIPTS, env=environment, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == exits
    return done.stderr


def set_up(folder: Path, **variables: str) -> str:
    """The messages of setup, which must fail."""
    return errors_of(folder, "setup.py", exits=1, **variables)


def for_tests(folder: Path, exits: int = 0, **variables: str) -> str:
    """The messages about the programs that only tests need."""
    elsewhere = f"needs.JVMS, needs.ADMINISTRATORS = pathlib.Path('{folder}'), ''"
    code = f"import needs, pathlib, sys; {elsewhere}; sys.exit(needs.main())"
    return errors_of(folder, "-c", code, exits=exits, **variables)


def test_a_rust_that_is_missing_old_or_broken_is_named(tmp_path: Path, has: Has) -> None:
    assert set_up(tmp_path).startswith("Rust is missing: install it with rustup")
    has("cargo")
    has("rustc", script="echo 'rustc 1.87.0'")
    message = "rustc 1.87.0 is older than 1.88: update it with `rustup update stable`.\n"
    assert set_up(tmp_path) == message
    has("rustc", script="echo 'error: no default toolchain' >&2; exit 1")
    assert "error: no default toolchain" in set_up(tmp_path)


def test_elsewhere_than_on_debian_each_missing_program_has_its_sentence(
    tmp_path: Path, has: Has
) -> None:
    has("cargo", "git")
    has("rustc", script=GOOD_RUST)
    (compiler,) = set_up(tmp_path).splitlines()
    assert compiler.startswith("A C++ compiler")
    assert compiler.endswith("install it with `sudo apt-get install build-essential`.")
    unknown = "KVMARK_ROCKSDB=sauce means nothing: it is `release`, `unity` or `crate`.\n"
    assert set_up(tmp_path, KVMARK_ROCKSDB="sauce") == unknown


@AS_ROOT
def test_on_debian_root_installs_only_missing_packages(tmp_path: Path, has: Has) -> None:
    log = tmp_path / "apt.log"
    has("cargo", "cc", "c++")
    has("rustc", script=GOOD_RUST)
    has("apt-get", script=f'echo "$@" >> {log}; case "$*" in *install*) exit 1;; esac')
    errors = set_up(tmp_path)
    update, install = log.read_text().splitlines()
    assert update.endswith("update")
    assert install.endswith("install -y --no-install-recommends git")
    assert errors.count("is missing") == 1, "a failed installation prints the sentences"


def test_programs_that_only_tests_need_are_required_in_ci(tmp_path: Path, has: Has) -> None:
    has(*PROGRAMS)
    has("java", script=JAVA_17)
    assert for_tests(tmp_path, CI="true") == ""
    for program in ("redis-benchmark", "chromium"):
        (tmp_path / program).unlink()
    tools, chromium, consequence = for_tests(tmp_path).splitlines()
    assert tools.endswith("install it with `sudo apt-get install redis-tools`.")
    assert chromium.endswith("install it with `sudo apt-get install chromium`.")
    assert consequence == "The tests that need it are skipped."
    assert "chromium" in for_tests(tmp_path, exits=1, CI="true")


def test_another_java_will_do_only_beside_that_of_cassandra(tmp_path: Path, has: Has) -> None:
    has(*PROGRAMS)
    has("java", script=JAVA_21)
    assert "apt-get install openjdk-17-jre-headless" in for_tests(tmp_path)
    has("java-17-openjdk/bin/java", script=JAVA_17)
    assert for_tests(tmp_path) == ""


@AS_ROOT
def test_on_debian_root_installs_the_programs_of_tests(tmp_path: Path, has: Has) -> None:
    log = tmp_path / "apt.log"
    has("apt-get", script=f'echo "$@" >> {log}')
    assert for_tests(tmp_path) == ""
    packages = log.read_text().splitlines()[1].split()
    assert {"redis-server", "redis-tools", "iproute2", "openjdk-17-jre-headless"} <= {*packages}
