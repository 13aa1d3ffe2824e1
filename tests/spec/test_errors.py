"""Errors say where, and each class has the exit code that its tree shows."""

import re

import pytest

from kvmark import errors
from kvmark.errors import KvmarkError, SpecError

# Lines such as "├── AnswerIsNo  1  a regression".
TREE = re.findall(r"─ (\w+) +(\d+)  ", errors.__doc__ or "")


@pytest.mark.parametrize(("name", "code"), TREE)
def test_an_error_has_its_exit_code_and_can_be_made_of_a_sentence(name: str, code: str) -> None:
    made = getattr(errors, name)("what is wrong")
    assert isinstance(made, KvmarkError)
    assert made.exit_code == int(code)
    assert str(made) == "what is wrong"


def test_the_tree_in_the_docstring_has_every_class() -> None:
    classes = {name for name, one in vars(errors).items() if isinstance(one, type)}
    assert classes == {*dict(TREE), "KvmarkError"}
    assert set(dict(TREE).values()) == {"1", "2", "3", "130"}


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
