"""Two clones share Cargo's target folder, and neither is ever given the other's code.

The clones are miniatures: one crate of the workspace's own, one dependency outside it that stands
for RocksDB. What is tested is the real scripts, copied into each as they lie in a real clone.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
WORKSPACE = """
[workspace]
resolver = "3"
members = ["crates/*"]
"""
OWN_CRATE = """
[package]
name = "answer"
version = "0.1.0"
edition = "2024"

[dependencies]
heavy = { path = "../../../heavy" }
"""
HEAVY_CRATE = """
[package]
name = "heavy"
version = "0.1.0"
edition = "2024"

[workspace]
"""
A_DAY_S = 86_400


@dataclass(frozen=True)
class Clone:
    """A miniature clone whose program prints its answer."""

    root: Path
    target: Path

    def cargo_alone(self, *arguments: str) -> None:
        """Runs cargo without our script."""
        self.run("cargo", *arguments)

    def through_script(self, *arguments: str) -> str:
        """Runs cargo as the Makefile does."""
        return self.run(sys.executable, "scripts/cargo.py", *arguments)

    def run(self, *command: str) -> str:
        """Runs a command that must succeed; its output and its messages."""
        environment = {**os.environ, "CARGO_TARGET_DIR": str(self.target)}
        done = subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def answer(self, answer: int, *, age_s: int = 0) -> None:
        """Writes the program, as old as a file that was checked out that long ago."""
        source = self.root / "crates" / "answer" / "src" / "main.rs"
        source.write_text(f'fn main() {{ println!("{answer} {{}}", heavy::word()); }}\n')
        for file in self.root.rglob("*"):
            written = file.stat().st_mtime - age_s
            os.utime(file, (written, written))

    def packaged(self, platform: str = "") -> str:
        """What the built program prints: the code that a wheel would contain."""
        return self.run(str(self.target / platform / "release" / "answer")).split()[0]


def make_clone(folder: Path, name: str) -> Clone:
    root = folder / name
    source = root / "crates" / "answer" / "src"
    source.mkdir(parents=True)
    (root / "Cargo.toml").write_text(WORKSPACE)
    (root / "crates" / "answer" / "Cargo.toml").write_text(OWN_CRATE)
    shutil.copytree(SCRIPTS, root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    return Clone(root, folder / "target")


@pytest.fixture
def clones(tmp_path: Path) -> tuple[Clone, Clone]:
    """Two clones with one target folder; the second's files are older than the first's build."""
    heavy = tmp_path / "heavy" / "src"
    heavy.mkdir(parents=True)
    (heavy.parent / "Cargo.toml").write_text(HEAVY_CRATE)
    (heavy / "lib.rs").write_text('pub fn word() -> &\'static str { "heavy" }\n')
    first, second = make_clone(tmp_path, "first"), make_clone(tmp_path, "second")
    first.answer(1)
    second.answer(2, age_s=A_DAY_S)
    return first, second


BUILD = ("build", "--release", "--offline")


def test_cargo_alone_packages_the_other_clones_code(clones: tuple[Clone, Clone]) -> None:
    first, second = clones
    first.cargo_alone(*BUILD)
    second.cargo_alone(*BUILD)
    assert second.packaged() == "1", (
        "the trap is gone: the cleaning in scripts/ isn't needed any more"
    )


def test_each_clone_is_given_its_own_code(clones: tuple[Clone, Clone]) -> None:
    first, second = clones
    for clone, answer in [(first, "1"), (second, "2"), (first, "1")]:
        clone.through_script(*BUILD)
        assert clone.packaged() == answer


def test_each_clone_is_given_its_own_code_for_a_named_target_too(
    clones: tuple[Clone, Clone],
) -> None:
    first, second = clones
    platform = first.run("rustc", "--print", "host-tuple").strip()
    for clone, answer in [(first, "1"), (second, "2"), (first, "1")]:
        clone.through_script(*BUILD, "--target", platform)
        assert clone.packaged(platform) == answer


def test_a_folder_filled_by_cargo_alone_is_not_trusted(clones: tuple[Clone, Clone]) -> None:
    first, second = clones
    first.cargo_alone(*BUILD)
    second.through_script(*BUILD)
    assert second.packaged() == "2"


def test_a_clone_remade_at_the_same_place_is_given_its_new_code(
    clones: tuple[Clone, Clone],
) -> None:
    first, _ = clones
    first.through_script(*BUILD)
    first.answer(3, age_s=A_DAY_S)
    first.through_script(*BUILD)
    assert first.packaged() == "3"


def test_the_dependencies_stay_compiled(clones: tuple[Clone, Clone]) -> None:
    first, second = clones
    first.through_script(*BUILD)
    messages = second.through_script(*BUILD, "--verbose")
    assert "Fresh heavy" in messages
    assert "Compiling answer" in messages


def test_nothing_is_compiled_again_when_nothing_changed(clones: tuple[Clone, Clone]) -> None:
    first, _ = clones
    first.through_script(*BUILD)
    assert "Fresh answer" in first.through_script(*BUILD, "--verbose")


def test_a_kill_between_forgetting_and_building_leaves_no_false_record(
    clones: tuple[Clone, Clone],
) -> None:
    first, second = clones
    first.through_script(*BUILD)
    (first.target / "kvmark-built-from.json").unlink()
    first.through_script(*BUILD)
    record = json.loads((first.target / "kvmark-built-from.json").read_text())
    assert set(record) == {"answer"}
    second.through_script(*BUILD)
    assert second.packaged() == "2"
