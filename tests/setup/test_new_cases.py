"""Tests in Rust have checks of overflow; property tests draw cases that stay, or new ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import cargo
import long_tests
import pytest

ROOT = Path(__file__).resolve().parents[2]
DRAWS = """
from hypothesis import given, strategies as st

@given(st.integers(0, 10**9))
def test_drawn(number):
    with open({log!r}, "a") as log:
        log.write(f"{{number}}\\n")
"""


def test_only_tests_are_compiled_with_checks_and_only_the_workspaces_crates() -> None:
    words = cargo.command(["test", "--release"])
    assert "profile.release.overflow-checks=true" in words
    assert 'profile.release.package."*".overflow-checks=false' in words
    for other in (["build", "--release"], ["run", "--release"], ["clippy", "--tests"]):
        assert cargo.command(other) == ["cargo", *other]


def test_every_crate_with_property_tests_is_in_the_long_ones() -> None:
    sources = [*ROOT.glob("crates/*/src/**/*.rs"), *ROOT.glob("crates/*/tests/**/*.rs")]
    using = {
        f"kvmark-{path.relative_to(ROOT / 'crates').parts[0]}"
        for path in sources
        if "proptest!" in path.read_text()
    }
    assert set(long_tests.crates(ROOT)) == using != set()


def test_no_property_test_in_rust_has_a_seed_of_its_own() -> None:
    assert not [path for path in ROOT.glob("crates/*/**/*.rs") if "RngSeed" in path.read_text()]


def test_the_seed_reaches_both_languages() -> None:
    (rust, more), (python, _) = long_tests.commands(77, ROOT)
    assert more["PROPTEST_RNG_SEED"] == "77"
    assert rust[1].endswith("cargo.py")
    assert "--hypothesis-seed=77" in python


def drawn(folder: Path, *words: str) -> list[str]:
    """The cases of a property test, with the profiles that all tests have."""
    log = folder / "drawn"
    log.unlink(missing_ok=True)
    for name in ("conftest.py", "known_documents.py"):
        (folder / name).write_text((ROOT / "tests" / name).read_text())
    (folder / "test_drawn.py").write_text(DRAWS.format(log=str(log)))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return log.read_text().split()


def test_cases_stay_the_same_until_new_ones_are_asked_for(tmp_path: Path) -> None:
    frozen = drawn(tmp_path)
    assert drawn(tmp_path) == frozen
    (_, (command, _)) = long_tests.commands(1, ROOT)
    asked = [word for word in command if word.startswith("--hypothesis")]
    assert json.dumps(command).count("--hypothesis") == len(asked) == 2
    first = drawn(tmp_path, "-m", "hypothesis", *asked)
    again = drawn(tmp_path, "-m", "hypothesis", *asked)
    (_, (command, _)) = long_tests.commands(2, ROOT)
    second = drawn(tmp_path, *(word for word in command if word.startswith("--hypothesis")))
    assert first == again
    assert len(first) > len(frozen)
    assert set(first) - set(second) - set(frozen)


@pytest.mark.parametrize(("words", "seed"), [(["--seed", "5"], "5"), ([], None)])
def test_the_seed_is_printed(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: list[str],
    seed: str | None,
) -> None:
    called: list[str] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        called.extend(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert long_tests.main(words) == 0
    said = capfd.readouterr().out
    given = next(word for word in called if word.startswith("--hypothesis-seed=")).partition("=")[2]
    assert said.count(f"seed {given}; again with `make test-long SEED={given}`") == 2
    assert seed in {None, given}
