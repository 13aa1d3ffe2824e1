"""The spec's laws in the plan's words, which differ in the name of the tag."""

from __future__ import annotations

from typing import Any, Final

from pydantic import TypeAdapter

from kvmark.plan.model import Distribution, SizeLaw
from kvmark.spec import laws

__all__ = ["distribution", "size_law"]

_SIZE_LAWS: Final[TypeAdapter[SizeLaw]] = TypeAdapter(SizeLaw)
_DISTRIBUTIONS: Final[TypeAdapter[Distribution]] = TypeAdapter(Distribution)


def size_law(law: laws.Length) -> SizeLaw:
    """How long something is, or how many there are."""
    return _SIZE_LAWS.validate_python(_tagged(law.model_dump()))


def distribution(law: laws.Keys) -> Distribution:
    """Which of many is chosen; how many there are stands beside it."""
    return _DISTRIBUTIONS.validate_python(_tagged(law.model_dump()))


def _tagged(content: dict[str, Any]) -> dict[str, Any]:
    content.pop("expected_new", None)
    if "of" in content:
        content["of"] = _tagged(content["of"])
    return {"law": content.pop("distribution"), **content}
