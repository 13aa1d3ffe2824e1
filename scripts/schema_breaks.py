"""What a reader of JSON documents would miss when one schema takes another's place.

A field more, or a word more among several, breaks no reader; a field that is gone, that needn't be
there any more or holds something else does, unless the document has a new version.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_INNER = ("items", "additionalProperties")
_EACH = ("anyOf", "prefixItems")
_EQUAL = ("type", "const", "minItems")


def breaks(before: str, after: str) -> list[str]:
    """What the documents of the schema `before` lose, a phrase each, where their version stays."""
    comparison = _Comparison(json.loads(before), json.loads(after))
    return list(comparison.broken())


class _Comparison:
    def __init__(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        self.before, self.after = before["$defs"], after["$defs"]
        self.seen: set[tuple[str, str]] = set()

    def broken(self) -> Iterator[str]:
        for name, old in self.before.items():
            new = self.after.get(name)
            version = old["properties"].get("schema")
            if new and version and version == new["properties"].get("schema"):
                yield from self.of(name, old, new)

    def of(self, place: str, old: Any, new: Any) -> Iterator[str]:
        names = (self.name_of(old), self.name_of(new))
        if all(names) and names in self.seen:
            return
        self.seen.add(names)
        old, new = self.before.get(names[0], old), self.after.get(names[1], new)
        if not _same_kind(old, new):
            yield f"{place} holds something else"
            return
        if not isinstance(old, dict):  # `false`: nothing may be there.
            return
        for field, one in old.get("properties", {}).items():
            if field not in new["properties"]:
                yield f"{place}.{field} is gone"
            elif field in old["required"] and field not in new["required"]:
                yield f"{place}.{field} needn't be there any more"
            else:
                yield from self.of(f"{place}.{field}", one, new["properties"][field])
        for key in _INNER:
            if key in old:
                yield from self.of(f"{place}[]", old[key], new[key])
        for key in _EACH:
            for one, other in zip(old.get(key, ()), new.get(key, ()), strict=True):
                yield from self.of(place, one, other)

    @staticmethod
    def name_of(schema: Any) -> str:
        return schema.get("$ref", "").rpartition("/")[2] if isinstance(schema, dict) else ""


def _same_kind(old: Any, new: Any) -> bool:
    """Whether values of one are values of the other, their parts aside."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return bool(old == new)
    return (
        all(old.get(key) == new.get(key) for key in _EQUAL)
        and old.keys() - {"description"} == new.keys() - {"description"}
        and set(map(str, old.get("enum", ()))) <= set(map(str, new.get("enum", ())))
        and all(len(old.get(key, ())) == len(new.get(key, ())) for key in _EACH)
    )
