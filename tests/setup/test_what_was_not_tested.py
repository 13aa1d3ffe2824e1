"""`make test` says what it could not test, and CI fails by it.

The clone is a miniature whose tests, in Rust and in Python, are carried out by the real scripts. A
program that only looks like kvmark stands beside the Python that runs them.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import all_tests
import pytest
from all_tests import Skip

ROOT = Path(__file__).resolve().parents[2]
WORKSPACE = """
[workspace]
resolver = "3"
members = ["crates/*"]
"""
CRATE = """
[package]
name = "answer"
version = "0.1.0"
edition = "2024"
"""
RUST = """
#[test]
fn an_answer_needs_nothing() {}

#[test]
#[ignore = "needs a node of Cassandra"]
fn an_answer_comes_from_a_node() {
    assert_eq!(std::env::var("KVMARK_TEST_CQL").unwrap(), "127.0.0.1:9042");
}
"""
PYTHON = """
import pytest

def test_an_answer_needs_nothing():
    pass

def test_an_answer_is_late():
    pytest.skip("this kernel knows no lateness")
"""
NO_NODE = 'test "$1" = down || { echo "kvmark: Java is missing" >&2; exit 2; }'
A_NODE = """echo '{"url": "cql://127.0.0.1:9042"}'"""
LATE = "tests/test_answers.py::test_an_answer_is_late"
ENTRY = """
[[skip]]
test = "{test}"
says = "no lateness"
because = "not every kernel does"
"""


@dataclass(frozen=True)
class Clone:
    """A miniature clone, and a Python of its own."""

    root: Path
    python: Path

    def has(self, name: str, text: str) -> None:
        """Writes a file."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def kvmark(self, script: str) -> None:
        """Gives it a kvmark that does this."""
        program = self.python.with_name("kvmark")
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def run(self, script: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Runs one of the scripts."""
        kept = {name: text for name, text in os.environ.items() if name not in KEPT_AWAY}
        own = {"CARGO_TARGET_DIR": str(self.root.parent / "target"), "PYTHONPATH": PACKAGES}
        return subprocess.run(
            [str(self.python), str(self.root / "scripts" / script), *words],
            env={**kept, **own, **more},
            capture_output=True,
            text=True,
            check=False,
        )

    def tested(self, exits: int = 0, **more: str) -> list[str]:
        """What is said of each test that was not carried out, or that all were."""
        done = self.run("all_tests.py", **more)
        assert done.returncode == exits, done.stdout + done.stderr
        lines = done.stdout.splitlines()
        return [line for line in lines if line.startswith(("not tested:", "Every test"))]


KEPT_AWAY = {"CI", "KVMARK_TEST_CQL", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"}
PACKAGES = os.pathsep.join(filter(None, sys.path))


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """A clone in which a node of Cassandra can be had, and one test in Python is skipped."""
    clone = Clone(tmp_path / "clone", tmp_path / "bin" / "python")
    shutil.copytree(ROOT / "scripts", clone.root / "scripts")
    clone.python.parent.mkdir()
    clone.python.symlink_to(Path(sys.executable).resolve())
    clone.kvmark(A_NODE)
    clone.has("Cargo.toml", WORKSPACE)
    clone.has("crates/answer/Cargo.toml", CRATE)
    clone.has("crates/answer/src/lib.rs", "")
    clone.has("crates/answer/tests/answers.rs", RUST)
    clone.has("tests/test_answers.py", PYTHON)
    clone.has("tests/may_be_skipped.toml", "")
    lock = ["cargo", "generate-lockfile", "--offline", "--quiet"]
    subprocess.run(lock, cwd=clone.root, check=True)
    return clone


def test_what_was_not_tested_is_named_with_its_reason(clone: Clone) -> None:
    clone.kvmark(NO_NODE)
    assert clone.tested() == [
        "not tested: answers::an_answer_comes_from_a_node: needs a node of Cassandra:"
        " kvmark: Java is missing",
        f"not tested: {LATE}: this kernel knows no lateness",
    ]


def test_in_ci_what_was_not_tested_is_a_failure_unless_the_list_allows_it(clone: Clone) -> None:
    assert len(clone.tested(exits=1, CI="true")) == 1, "there is a node for the one in Rust"
    clone.has("tests/may_be_skipped.toml", ENTRY.format(test=LATE))
    [allowed] = clone.tested(CI="true")
    assert allowed.endswith("[allowed: not every kernel does]")


def test_a_node_that_is_promised_and_not_there_fails_its_tests(clone: Clone) -> None:
    [rest] = clone.tested(exits=1, KVMARK_TEST_CQL="127.0.0.1:1")
    assert rest == "not tested: all tests in Python: those in Rust failed"


def test_a_test_in_python_that_fails_fails_the_whole(clone: Clone) -> None:
    clone.has("tests/test_answers.py", "def test_an_answer_is_right():\n    assert False\n")
    clone.tested(exits=1)


def test_only_a_test_of_this_name_that_is_skipped_for_this_reason_is_allowed() -> None:
    entries = all_tests.read_allowed(ENTRY.format(test="tests/test_answers.py::*"))
    allowed, reason = Skip(LATE, "this kernel knows no lateness"), "this kernel knows no lateness"
    assert all_tests.told([allowed], entries)[0] == 0
    for other in (Skip(LATE, "Redis is missing"), Skip("tests/test_other.py::test_a", reason)):
        assert all_tests.told([allowed, other], entries)[0] == 1


def test_where_every_test_was_carried_out_that_is_said() -> None:
    assert all_tests.told([], []) == (0, ["Every test was carried out."])


@pytest.mark.parametrize(("text", "problem"), [
    (4 * ENTRY.format(test=LATE), "has 4 entries: at most 3 may be"),
    ('[[skip]]\ntest = "*"\nsays = "kernel"\n', "because"),
    ('[[skip]]\ntest = "*"\nsays = ""\nbecause = "so"\n', "must be filled in"),
    ("[[skip]", "may_be_skipped.toml"),
])  # fmt: skip
def test_a_list_with_a_fourth_exception_or_one_without_its_reason_is_refused(
    text: str, problem: str
) -> None:
    with pytest.raises(all_tests.WrongList, match=problem):
        all_tests.read_allowed(text)


def test_an_expected_failure_is_a_skip_too() -> None:
    case = '<testcase file="tests/a.py" name="test_a"><skipped type="pytest.xfail" message="so"/>'
    assert all_tests.skipped(f"<a>{case}</testcase></a>") == [Skip("tests/a.py::test_a", "so")]


def test_the_projects_own_exceptions_are_three_at_most_and_name_tests_that_there_are() -> None:
    for entry in all_tests.read_allowed((ROOT / "tests" / "may_be_skipped.toml").read_text()):
        folder, _, name = entry.test.partition("::")
        files = [file.read_text() for file in ROOT.glob(folder.replace("tests/*", "tests/**/*.py"))]
        assert any(f"def {name.rstrip('*')}" in text for text in files)
