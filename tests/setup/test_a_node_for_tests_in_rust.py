"""Tests in Rust are told where a node of Cassandra is, and never run without one.

A program that only looks like kvmark stands beside the Python that runs the script.
"""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "with_cassandra.py"
SAY = ("sh", "-c", "echo ${KVMARK_TEST_CQL-none}; exit 7")


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python in a folder of its own."""
    program = tmp_path / "python"
    program.symlink_to(sys.executable)
    return program


def run(python: Path, kvmark: str, **more: str) -> subprocess.CompletedProcess[str]:
    """What the script makes of a command, with a kvmark that does this."""
    program = python.with_name("kvmark")
    program.write_text(f'#!/bin/sh\necho "$1" >> {python.parent}/said\n{kvmark}\n')
    program.chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin", **more}
    return subprocess.run(
        [str(python), str(SCRIPT), *SAY],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def said(python: Path) -> list[str]:
    """The commands that kvmark was given."""
    log = python.with_name("said")
    return log.read_text().split() if log.exists() else []


def test_a_command_finds_the_node_which_is_gone_afterwards(python: Path) -> None:
    done = run(python, """echo '{"url": "cql://127.0.0.1:9042"}'""")
    assert (done.stdout, done.returncode) == ("127.0.0.1:9042\n", 7)
    assert said(python) == ["up", "down"]


def test_where_no_node_starts_the_reason_is_told_and_nothing_runs(python: Path) -> None:
    done = run(python, 'test "$1" = down || { echo "kvmark: Java is missing" >&2; exit 2; }')
    assert (done.stdout, done.returncode) == ("", 1)
    assert done.stderr == "There is no node of Cassandra: kvmark: Java is missing\n"


def test_a_node_that_is_there_already_is_used(python: Path) -> None:
    done = run(python, "exit 1", KVMARK_TEST_CQL="127.0.0.9:9042")
    assert (done.stdout, done.returncode) == ("127.0.0.9:9042\n", 7)
    assert said(python) == []
