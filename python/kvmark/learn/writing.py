"""A learnt workload as the file that users run and change."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kvmark.learn.learning import Learned, sentences

__all__ = ["workload_text"]

_WIDTH: Final = 100


def workload_text(learned: Learned) -> str:
    """YAML with what is lost in front of it."""
    head = [f"# Learnt of {learned.trace}, {learned.operations:,} operations on keys:"]
    for sentence in sentences(learned.parts):
        head += textwrap.wrap(sentence, _WIDTH, initial_indent="# - ", subsequent_indent="#   ")
    head.append("# Leave rate and arrival out for as fast as clients go.")
    return "\n".join((*head, *_lines(learned.workload, ""), ""))


def _lines(content: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in content.items():
        if isinstance(value, dict) and key not in ("key", "mix"):
            yield f"{indent}{key}:"
            yield from _lines(value, f"{indent}  ")
        elif key == "groups":
            yield f"{indent}{key}:"
            for group in value:
                first, *others = _lines(group, f"{indent}    ")
                yield f"{indent}  - {first.lstrip()}"
                yield from others
        else:
            # JSON is YAML, and breaks between numbers inside brackets.
            text = value if _is_plain(value) else json.dumps(value, ensure_ascii=False)
            yield from _wrapped(f"{indent}{key}: {text}", f"{indent}  ")


def _is_plain(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isalpha()


def _wrapped(line: str, indent: str) -> list[str]:
    if '"' in line:
        return [line]
    return textwrap.wrap(line, _WIDTH, subsequent_indent=indent, break_long_words=False)
