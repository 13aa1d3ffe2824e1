"""The headings of the options in `--help`."""

from typing import Any

import pytest

from kvmark.cli.panels import HEADINGS, panels
from kvmark.cli.registry import CompleteGroup


def options_of(name: str) -> list[Any]:
    """The options of a command."""
    params = CompleteGroup().commands[name].params
    return [one for one in params if one.param_type_name == "option"]


@pytest.mark.parametrize("name", ["run", "ycsb", "study", "up", "compare"])
def test_every_option_has_one_heading(name: str) -> None:
    options = options_of(name)
    listed = [one for _, found in panels(options) for one in found]
    assert sorted(map(id, listed)) == sorted(map(id, options))


def test_run_begins_with_the_ten_everyday_options() -> None:
    shown = panels(options_of("run"))
    heading, first = next(shown)
    assert heading == "Everyday options"
    assert tuple(one.opts[0].lstrip("-") for one in first) == HEADINGS["Everyday options"]
    assert [heading for heading, _ in shown] == list(HEADINGS)[1:]
