"""The JSON Schema of all documents that commands print: docs/reference/kvmark.schema.json.

It is made of the types of the answers, as `output.document` writes their values: what isn't finite
is null, histograms are left out. A document's name and version stand in its `schema`.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from kvmark.cli.documents import DOCUMENTS
from kvmark.cli.output import schema_of
from kvmark.stats import Counts

__all__ = ["json_schema"]

_PLAIN: Final[Mapping[Any, Any]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": ["number", "null"]},
    str: {"type": "string"},
    Path: {"type": "string"},
    types.NoneType: {"type": "null"},
    Any: {},
    object: {},
}


def json_schema() -> dict[str, Any]:
    """The schema of any document; that of a kind stands in `$defs` by the kind's name."""
    found: dict[str, Any] = {}
    for name, one in DOCUMENTS.items():
        commands = ", ".join(f"kvmark {command}" for command in one.commands)
        properties = {"schema": {"const": schema_of(name)}}
        properties |= {field: _of(kind, found) for field, kind in one.fields.items()}
        described = {"description": f"{one.purpose} ({commands})"}
        found[name] = {**described, **_object(properties)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What kvmark prints with --json",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in DOCUMENTS],
        "$defs": dict(sorted(found.items())),
    }


def _of(kind: Any, found: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type's values; that of a class of fields is put into `found`."""
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _of(inner[0], found)
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, types.UnionType):
        return _any([_of(one, found) for one in inner])
    if origin is tuple and inner[-1] is not Ellipsis:
        each = [_of(one, found) for one in inner]
        return {"type": "array", "prefixItems": each, "minItems": len(each), "items": False}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _of(inner[1], found)}
    if isinstance(origin, type) and issubclass(origin, Sequence | set | frozenset):
        return {"type": "array", "items": _of(inner[0], found)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    if is_dataclass(kind):
        return _of_fields(kind, found)
    raise TypeError(f"{kind} has no form in JSON: give it one in kvmark.cli.json_schema")


def _of_fields(kind: Any, found: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__
    if name not in found:
        found[name] = {}  # It may have itself among its fields.
        hints = get_type_hints(kind)
        written = [one.name for one in fields(kind) if hints[one.name] is not Counts]
        said = {"description": " ".join((kind.__doc__ or "").split("\n\n")[0].split())}
        found[name] = {**said, **_object({one: _of(hints[one], found) for one in written})}
    return {"$ref": f"#/$defs/{name}"}


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(properties)}


def _any(each: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is one of several; plain types are written as one."""
    if all(one.keys() == {"type"} for one in each):
        kinds = [one["type"] for one in each]
        flat = [kind for one in kinds for kind in ([one] if isinstance(one, str) else one)]
        return {"type": list(dict.fromkeys(flat))}
    return {"anyOf": list(each)}


def _text(value: object, levels: int, indent: str = "") -> str:
    """A value as JSON text with one line for what lies so many levels deep."""
    if levels == 0 or not isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    deeper = f"{indent}  "
    lines = (f'{deeper}"{name}": {_text(one, levels - 1, deeper)}' for name, one in value.items())
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


if __name__ == "__main__":
    print(_text(json_schema(), levels=4))
