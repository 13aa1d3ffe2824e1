"""`make setup` on a machine that lacks something says what, and the command that brings it.

The machine is a folder of programs that is the whole PATH; setup stops before it builds anything.
"""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
GOOD_RUST = "echo 'rustc 1.95.0 (59807616e 2026-04-14)'"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can install packages")


@dataclass(frozen=True)
class Machine:
    """A machine with the programs that a test gives it, on which nothing was ever built."""

    programs: Path
    variables: dict[str, str] = field(default_factory=dict)

    def has(self, name: str, script: str = "true") -> None:
        """Gives it a program."""
        program = self.programs / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def set_up(self) -> str:
        """What setup, which must fail, has to say."""
        done = self.run("setup.py")
        assert done.returncode == 1
        return done.stderr

    def ready_for_tests(self, exits: int = 0, **more: str) -> str:
        """What is said of that which only tests need."""
        elsewhere = f"needs.JVMS, needs.ADMINISTRATORS = pathlib.Path('{self.programs}'), ''"
        code = f"import needs, pathlib, sys; {elsewhere}; sys.exit(needs.main())"
        done = self.carry_out("-c", code, **more)
        assert done.returncode == exits
        return done.stderr

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Runs a script, which must not raise."""
        return self.carry_out(str(SCRIPTS / script))

    def carry_out(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Runs Python where scripts lie; it must not raise."""
        own = {"PATH": str(self.programs), "XDG_CACHE_HOME": str(self.programs), **self.variables}
        command = [sys.executable, "-B", *words]
        done = subprocess.run(
            command, cwd=SCRIPTS, env={**own, **more}, capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr
        return done


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_rust_it_names_rustup(machine: Machine) -> None:
    assert machine.set_up().startswith("Rust is missing: install it with rustup")


def test_an_old_rust_is_to_be_updated(machine: Machine) -> None:
    machine.has("cargo")
    machine.has("rustc", "echo 'rustc 1.87.0'")
    said = machine.set_up()
    assert said == "rustc 1.87.0 is older than 1.88: update it with `rustup update stable`.\n"


def test_a_rust_that_does_not_start_gives_its_reason(machine: Machine) -> None:
    machine.has("cargo")
    machine.has("rustc", "echo 'error: no default toolchain' >&2; exit 1")
    assert "error: no default toolchain" in machine.set_up()


def test_elsewhere_than_on_debian_each_missing_thing_has_its_sentence(machine: Machine) -> None:
    machine.has("cargo")
    machine.has("rustc", GOOD_RUST)
    machine.has("git")
    (compiler,) = machine.set_up().splitlines()
    assert compiler.startswith("A C++ compiler")
    assert compiler.endswith("install it with `sudo apt-get install build-essential`.")


def test_a_word_that_names_no_build_of_rocksdb_is_told(machine: Machine) -> None:
    machine.has("cargo")
    machine.has("rustc", GOOD_RUST)
    machine.variables["KVMARK_ROCKSDB"] = "sauce"
    assert machine.set_up() == "KVMARK_ROCKSDB=sauce means nothing: it is `unity` or `crate`.\n"


@AS_ROOT
def test_on_debian_root_installs_what_is_missing_and_nothing_else(machine: Machine) -> None:
    log = machine.programs / "apt.log"
    machine.has("cargo")
    machine.has("rustc", GOOD_RUST)
    for compiler in ("cc", "c++"):
        machine.has(compiler)
    machine.has("apt-get", f'echo "$@" >> {log}; case "$*" in *install*) exit 1;; esac')
    said = machine.set_up()
    update, install = log.read_text().splitlines()
    assert update.endswith("update")
    assert install.endswith("install -y --no-install-recommends git")
    assert said.count("is missing") == 1, "the sentences are said when installing fails"


JAVA_17 = """echo 'openjdk version "17.0.15" 2025-04-15' >&2"""
JAVA_21 = """echo 'openjdk version "21.0.7" 2025-04-15' >&2"""
# What tests use, beside Java.
PACKAGES = {
    "redis-server": ["redis-server"],
    "redis-tools": ["redis-benchmark"],
    "memcached": ["memcached"],
    "chromium": ["chromium"],
    "maven": ["mvn"],
    "haproxy": ["haproxy"],
    "valgrind": ["valgrind"],
    "openssl": ["openssl"],
    "iproute2": ["ip", "tc"],
    "util-linux": ["nsenter", "setpriv"],
    "mount": ["mount"],
}


@pytest.fixture
def complete(machine: Machine) -> Machine:
    """A machine with all that tests use."""
    for program in chain.from_iterable(PACKAGES.values()):
        machine.has(program)
    machine.has("java", JAVA_17)
    return machine


def test_what_only_tests_need_is_named_and_stops_nothing(complete: Machine) -> None:
    for program in ("redis-benchmark", "chromium"):
        (complete.programs / program).unlink()
    tools, chromium, consequence = complete.ready_for_tests().splitlines()
    assert tools.endswith("install it with `sudo apt-get install redis-tools`.")
    assert chromium.endswith("install it with `sudo apt-get install chromium`.")
    assert consequence == "The tests that need it are skipped."


def test_in_ci_nothing_that_tests_need_may_be_missing(complete: Machine) -> None:
    assert complete.ready_for_tests(CI="true") == ""
    (complete.programs / "mvn").unlink()
    assert "apt-get install maven" in complete.ready_for_tests(exits=1, CI="true")


def test_where_tests_have_all_they_need_nothing_is_said(complete: Machine) -> None:
    assert complete.ready_for_tests() == ""


def test_another_java_than_cassandras_is_none(complete: Machine) -> None:
    complete.has("java", JAVA_21)
    assert "apt-get install openjdk-17-jre-headless" in complete.ready_for_tests()


def test_a_java_beside_the_first_one_will_do(complete: Machine) -> None:
    complete.has("java", JAVA_21)
    other = Machine(complete.programs / "java-17-openjdk" / "bin")
    other.programs.mkdir(parents=True)
    other.has("java", JAVA_17)
    assert complete.ready_for_tests() == ""


@AS_ROOT
def test_on_debian_root_installs_what_tests_need(machine: Machine) -> None:
    log = machine.programs / "apt.log"
    machine.has("apt-get", f'echo "$@" >> {log}')
    assert machine.ready_for_tests() == ""
    _, install = log.read_text().splitlines()
    packages = install.partition("--no-install-recommends ")[2].split()
    assert packages == [*PACKAGES, "openjdk-17-jre-headless"]
