"""`make setup` on a machine that lacks something says what, and the command that brings it.

The machine is a folder of programs that is the whole PATH; setup stops before it builds anything.
"""

import os
import subprocess
import sys
from dataclasses import dataclass, field
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

    def ready_for_tests(self) -> str:
        """What is said of that which only tests need; it must not fail."""
        done = self.run("needs.py")
        assert done.returncode == 0
        return done.stderr

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Runs a script, which must not raise."""
        environment = {"PATH": str(self.programs), "XDG_CACHE_HOME": str(self.programs)}
        environment |= self.variables
        command = [sys.executable, "-B", str(SCRIPTS / script)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
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
    maven, compiler = machine.set_up().splitlines()
    assert maven.startswith("Maven (it fetches RocksDB's release build) is missing")
    assert maven.endswith("RocksDB is compiled from source instead.")
    assert compiler.startswith("A C++ compiler")
    assert compiler.endswith("install it with `sudo apt-get install build-essential`.")


def test_a_word_that_names_no_build_of_rocksdb_is_told(machine: Machine) -> None:
    machine.has("cargo")
    machine.has("rustc", GOOD_RUST)
    machine.variables["KVMARK_ROCKSDB"] = "sauce"
    assert machine.set_up() == "KVMARK_ROCKSDB=sauce means nothing: it is `release` or `source`.\n"


def test_who_compiles_rocksdb_needs_no_maven(machine: Machine) -> None:
    machine.has("cargo")
    machine.has("rustc", GOOD_RUST)
    machine.variables["KVMARK_ROCKSDB"] = "source"
    assert "Maven" not in machine.set_up()


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
    assert install.endswith("install -y --no-install-recommends git maven")
    assert said.count("is missing") == 2, "the sentences are said when installing fails"


def test_what_only_tests_need_is_named_and_stops_nothing(machine: Machine) -> None:
    machine.has("redis-server")
    tools, chromium, consequence = machine.ready_for_tests().splitlines()
    assert tools.endswith("install it with `sudo apt-get install redis-tools`.")
    assert chromium.endswith("install it with `sudo apt-get install chromium`.")
    assert consequence == "The tests that need it are skipped."


def test_where_tests_have_all_they_need_nothing_is_said(machine: Machine) -> None:
    for program in ("redis-server", "redis-benchmark", "chromium"):
        machine.has(program)
    assert machine.ready_for_tests() == ""


@AS_ROOT
def test_on_debian_root_installs_what_tests_need(machine: Machine) -> None:
    log = machine.programs / "apt.log"
    machine.has("apt-get", f'echo "$@" >> {log}')
    assert machine.ready_for_tests() == ""
    _, install = log.read_text().splitlines()
    assert install.endswith("--no-install-recommends redis-server redis-tools chromium")
