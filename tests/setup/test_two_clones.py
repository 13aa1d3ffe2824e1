"""Two clones share Cargo's target folder, and neither gets the other's code.

The clones are miniatures with one crate of the workspace and one dependency outside it. The scripts
are the real ones, copied into each clone.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
PACKAGE = '[package]\nname = "{}"\nversion = "0.1.0"\nedition = "2024"\n'
WORKSPACE = '[workspace]\nresolver = "3"\nmembers = ["crates/*"]\n'
DEPENDENCY = '\n[dependencies]\nheavy = { path = "../../../heavy" }\n'
BUILD = ("build", "--release", "--offline")
A_DAY_S = 86_400


@dataclass(frozen=True)
class Clone:
    """A miniature clone whose program prints its answer."""

    root: Path
    target: Path

    def through_script(self, *arguments: str) -> str:
        """Runs Cargo as the Makefile does."""
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
        """The output of the built program."""
        return self.run(str(self.target / platform / "release" / "answer")).split()[0]


@pytest.fixture
def clones(tmp_path: Path) -> list[Clone]:
    """Two clones with one target folder; the second's files are older than the first's build."""
    heavy, found = tmp_path / "heavy" / "src", []
    heavy.mkdir(parents=True)
    (heavy.parent / "Cargo.toml").write_text(PACKAGE.format("heavy") + "\n[workspace]\n")
    (heavy / "lib.rs").write_text('pub fn word() -> &\'static str { "heavy" }\n')
    for answer, name in enumerate(("first", "second"), 1):
        root = tmp_path / name
        (root / "crates" / "answer" / "src").mkdir(parents=True)
        (root / "Cargo.toml").write_text(WORKSPACE)
        manifest = PACKAGE.format("answer") + DEPENDENCY
        (root / "crates" / "answer" / "Cargo.toml").write_text(manifest)
        shutil.copytree(SCRIPTS, root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
        found.append(Clone(root, tmp_path / "target"))
        found[-1].answer(answer, age_s=(answer - 1) * A_DAY_S)
    return found


def test_cargo_alone_packages_the_other_clones_code(clones: list[Clone]) -> None:
    first, second = clones
    for clone in clones:
        clone.run("cargo", *BUILD)
    assert second.packaged() == "1", "the trap is gone: remove the cleaning in scripts/"
    second.through_script(*BUILD)
    assert second.packaged() == "2"
    first.through_script(*BUILD)
    assert first.packaged() == "1"


def test_each_clone_gets_its_own_code_for_a_named_target_too(clones: list[Clone]) -> None:
    first, second = clones
    platform = first.run("rustc", "--print", "host-tuple").strip()
    for clone, answer in [(first, "1"), (second, "2"), (first, "1")]:
        clone.through_script(*BUILD, "--target", platform)
        assert clone.packaged(platform) == answer


def test_only_changed_crates_of_the_workspace_are_compiled_again(clones: list[Clone]) -> None:
    first, second = clones
    first.through_script(*BUILD)
    assert "Fresh answer" in first.through_script(*BUILD, "--verbose")
    messages = second.through_script(*BUILD, "--verbose")
    assert "Fresh heavy" in messages
    assert "Compiling answer" in messages
    second.answer(3, age_s=2 * A_DAY_S)
    second.through_script(*BUILD)
    assert second.packaged() == "3"
