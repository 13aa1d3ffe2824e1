"""Tables of cases in TOML files, and the comparison of their expectations."""

import json
import tomllib
from pathlib import Path
from typing import Any


def table(test: str, name: str) -> dict[str, Any]:
    """The content of a TOML file in the folder of a test's file."""
    return tomllib.loads(Path(test).with_name(name).read_text("utf-8"))


def check(found: Any, expected: Any, place: str = "it") -> None:
    """Compares the expected parts: those of a list have places or names.

    A text may be the JSON of a value, since TOML has no null.
    """
    if not isinstance(expected, dict):
        assert expected in (found, json.dumps(found)), f"{place} is {found!r}"
        return
    if isinstance(found, list):
        named = {one["name"]: one for one in found if "name" in one}
        found = {**named, **{str(number): one for number, one in enumerate(found)}}
    for key, one in expected.items():
        check(found[key], one, f"{place}.{key}")
