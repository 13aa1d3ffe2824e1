"""Python's plan and the engine's are the same type; a change on one side alone fails here."""

import itertools
import json
from importlib.resources import files
from typing import Any

import pytest
from pydantic import BaseModel

from kvmark import _engine, catalog
from kvmark.plan import model
from kvmark.plan.model import Plan
from plans import plan_of

Schema = dict[str, Any]

ENGINE: Schema = json.loads(files("kvmark.plan").joinpath("plan.schema.json").read_text("utf-8"))
PYTHON: Schema = Plan.model_json_schema()

WORDS = {"Check", "Distribution", "Generator", "RowColumn", "RowShare", "SizeLaw", "Visit"}
"""Parts that Python only writes: the engine's check of every ready workload's plan holds them."""
WIDTHS = {"uint32": (0, 2**32 - 1), "uint64": (0, 2**64 - 1), "int64": (-(2**63), 2**63 - 1)}


def normal(part: Any, root: Schema) -> Any:
    """A schema reduced to what it accepts, so that two generators' spellings compare equal."""
    if part is True or not set(part) - {"title", "description"}:
        return "anything"
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        return ("map to", "anything") if name in WORDS else normal(root["$defs"][name], root)
    if "enum" in part or "const" in part:
        return ("one of", tuple(sorted(part.get("enum", [part.get("const")]))))
    kind = part.get("type")
    if isinstance(kind, list):
        return normal_choice([{**part, "type": one} for one in kind], root)
    for word in ("oneOf", "anyOf"):
        if word in part:
            return normal_choice(part[word], root)
    if kind == "object":
        return normal_object(part, root)
    if kind == "array":
        return ("list of", normal(part["items"], root))
    if kind == "integer":
        least, largest = WIDTHS.get(part.get("format"), (None, None))
        return ("integer", part.get("minimum", least), part.get("maximum", largest))
    return kind


def normal_choice(parts: list[Schema], root: Schema) -> Any:
    choices = {one for part in parts for one in each_word(normal(part, root))}
    words = {choice for choice in choices if choice[0] == "one of"}
    if words:
        joined = ("one of", tuple(sorted(word for choice in words for word in choice[1])))
        choices = {joined, *choices - words}
    return next(iter(choices)) if len(choices) == 1 else ("any of", frozenset(choices))


def each_word(choice: Any) -> list[Any]:
    """One object for each word of its fields: alike ones may be written as one or as several."""
    if choice[0] != "object":
        return [choice]
    _, fields, *rest = choice
    ways = [
        [(name, ("one of", (word,))) for word in kind[1]] if kind[0] == "one of" else [(name, kind)]
        for name, kind in fields
    ]
    return [("object", frozenset(way), *rest) for way in itertools.product(*ways)]


def normal_object(part: Schema, root: Schema) -> Any:
    if "properties" not in part:
        return ("map to", normal(part["additionalProperties"], root))
    fields = {name: normal(one, root) for name, one in part["properties"].items()}
    # The engine reads a missing value as none, Python always writes it: both accept null.
    nullable = {name for name, one in fields.items() if "null" in str(one)}
    required = frozenset(part.get("required", [])) - nullable
    closed = part.get("additionalProperties")
    return ("object", frozenset(fields.items()), required, closed)


def test_python_s_plan_accepts_exactly_what_the_engine_s_does() -> None:
    assert normal(PYTHON, PYTHON) == normal(ENGINE, ENGINE)


@pytest.mark.parametrize(
    ("definition", "change"),
    [
        ("Weight", lambda part: part["properties"].pop("weight")),
        ("Weight", lambda part: part["required"].remove("weight")),
        ("Weight", lambda part: part.update(additionalProperties=True)),
        ("Seeds", lambda part: part["properties"]["mix"].update(format="uint32")),
        ("KeyOrder", lambda part: part["oneOf"].pop()),
        ("Phase", lambda part: part["properties"]["duration_ns"].update(type="integer")),
    ],
)
def test_a_change_on_one_side_alone_is_noticed(definition: str, change: Any) -> None:
    drifted = json.loads(json.dumps(ENGINE))
    change(drifted["$defs"][definition])
    assert normal(PYTHON, PYTHON) != normal(drifted, drifted)


def test_the_schema_forbids_unknown_fields_everywhere() -> None:
    objects = [part for part in ENGINE["$defs"].values() if "properties" in part]
    assert all(part["additionalProperties"] is False for part in [ENGINE, *objects])


def test_no_field_of_a_plan_has_a_default() -> None:
    parts = [one for one in vars(model).values() if isinstance(one, type)]
    plans = [one for one in parts if issubclass(one, BaseModel) and one is not BaseModel]
    fields = [field for part in plans for field in part.model_fields.values()]
    assert len(fields) > 50
    assert all(field.is_required() for field in fields)


@pytest.mark.parametrize("name", catalog.names())
def test_the_engine_reads_every_ready_workload_s_plan_as_it_was_written(name: str) -> None:
    text = plan_of(name, seed=2**64 - 1).to_json()
    assert json.loads(_engine.check_plan(text)) == json.loads(text)
