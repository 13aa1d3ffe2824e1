"""The JSON Schema of all documents that commands print: docs/reference/kvmark.schema.json.

It is made of the types of the answers, as `output.document` writes their values: what isn't finite
is null, histograms are left out. A document's name and version stand in its `schema`.
"""

from __future__ import annotations

import json
from typing import Any, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from kvmark.cli.documents import DOCUMENTS, Answers
from kvmark.cli.output import schema_of
from kvmark.stats import Counts

__all__ = ["json_schema"]

_CONFIG: Final = ConfigDict(arbitrary_types_allowed=True)


def json_schema() -> dict[str, Any]:
    """The schema of any document; that of a kind stands in `$defs` by the kind's name."""
    _, made = TypeAdapter.json_schemas(
        ((name, "serialization", _kind(name, one)) for name, one in DOCUMENTS.items()),
        title="What kvmark prints with --json",
        schema_generator=_Written,
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in DOCUMENTS],
        **made,
    }


def _kind(name: str, one: Answers) -> TypeAdapter[Any]:
    """The type of a kind's documents."""
    commands = ", ".join(f"kvmark {command}" for command in one.commands)
    fields: dict[str, Any] = {field: (kind, ...) for field, kind in one.fields.items()}
    fields["schema_"] = (Literal[schema_of(name)], Field(alias="schema"))
    doc = f"{one.purpose} ({commands})"
    return TypeAdapter(create_model(name, __config__=_CONFIG, __doc__=doc, **fields))


class _Written(GenerateJsonSchema):
    """The schema of values as `output.document` writes them."""

    def float_schema(self, _: core_schema.FloatSchema) -> JsonSchemaValue:
        return {"type": ["number", "null"]}

    def dataclass_args_schema(self, schema: core_schema.DataclassArgsSchema) -> JsonSchemaValue:
        written = [one for one in schema["fields"] if not _are_counts(one["schema"])]
        return super().dataclass_args_schema({**schema, "fields": written})

    def field_is_required(self, *_: Any, **__: Any) -> bool:
        return True

    def field_title_should_be_set(self, *_: Any) -> bool:
        return False


def _are_counts(schema: Any) -> bool:
    """Whether a field's values are a histogram's."""
    name = schema.get("schema_ref", schema.get("ref", ""))
    return str(name).startswith(f"{Counts.__module__}.{Counts.__qualname__}:")


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=1, ensure_ascii=False))
