"""Holds JSON documents of commands against the schema that is published."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

PUBLISHED = Path(__file__).parents[1] / "docs" / "reference" / "kvmark.schema.json"


def checked(document: Any) -> Any:
    """The document, which must be of a kind that the schema knows, and have no field beside it."""
    assert isinstance(document, dict), document
    _, name, _ = document["schema"].split("/")
    validator(name).validate(document)
    return document


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    known = exactly(json.loads(PUBLISHED.read_text())["$defs"])
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": known})


def exactly(schema: Any) -> Any:
    """The schema, but without room for more fields than it names."""
    if isinstance(schema, list):
        return [exactly(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: exactly(one) for key, one in schema.items()}
    closed = isinstance(schema.get("required"), list)
    return {**inner, "additionalProperties": False} if closed else inner
