"""Errors say where, and each class has the exit code that its tree shows."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import kvmark
from kvmark import errors
from kvmark.errors import KvmarkError, SpecError

ROOT = Path(__file__).parents[2]

EXIT_CODES = {
    "AnswerIsNo": 1,
    "UsageError": 2,
    "SpecError": 2,
    "UnsupportedProperty": 2,
    "ImportFileError": 2,
    "ForeignFile": 2,
    "PlanError": 2,
    "RecordsError": 2,
    "SystemUnderTestError": 3,
    "RunError": 3,
    "FleetError": 3,
    "GeneratorDied": 3,
    "Interrupted": 130,
}


@pytest.mark.parametrize(("name", "code"), EXIT_CODES.items())
def test_an_error_has_its_exit_code_and_can_be_made_of_a_sentence(name: str, code: int) -> None:
    made = getattr(errors, name)("what is wrong")
    assert isinstance(made, KvmarkError)
    assert made.exit_code == code
    assert str(made) == "what is wrong"


def test_the_tree_in_the_docstring_has_every_class() -> None:
    assert errors.__doc__ is not None
    classes = {name for name, one in vars(errors).items() if isinstance(one, type)}
    assert classes == {*EXIT_CODES, "KvmarkError"}
    for name, code in EXIT_CODES.items():
        line = next(one for one in errors.__doc__.splitlines() if f"─ {name} " in one)
        assert line.split(name)[1].split()[0] == str(code)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ({"file": "w.yaml"}, "w.yaml: wrong"),
        ({"file": "w.yaml", "line": 7}, "w.yaml:7: wrong"),
        ({"file": "w.yaml", "line": 7, "column": 3}, "w.yaml:7:3: wrong"),
        ({}, "wrong"),
    ],
)
def test_a_place_stands_before_the_sentence(place: dict[str, object], text: str) -> None:
    assert str(SpecError("wrong", **place)) == text


def test_an_error_can_be_given_its_place_later() -> None:
    located = errors.UnsupportedProperty("wrong").at(file="w", line=2)
    assert str(located) == "w:2: wrong"
    assert isinstance(located, errors.UnsupportedProperty)


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = "import sys, kvmark; print(*[m for m in sys.modules if m.startswith('kvmark')])"
    loaded = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT / "python")},
    )
    assert loaded.stdout.split() == ["kvmark"]


def test_every_file_names_the_same_version() -> None:
    python = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    rust = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert kvmark.__version__ == python == rust
