"""The names of the keys that plans write: what else a store holds, somebody else wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kvmark.plan.model import (
    Argument,
    FormatGenerator,
    Generator,
    KeyGenerator,
    KeyText,
    NameGenerator,
    Plan,
    UuidGenerator,
)

__all__ = ["key_names"]

_PLACE: Final = re.compile(r"\{(\w+)\}")
_NUMBER: Final = "-?[0-9]+"
_LONGEST: Final = 20
"""Digits of the largest number of 64 bits."""
_RARE: Final = 1e-4
"""How likely the smallest of all hashes may have fewer digits than a key of ours must have."""
_ENDLESS: Final = 10**9
"""More records than clients insert that no number of operations ends, or by several at a time."""
_NUMBERS: Final = frozenset({"ordinal", "number", "computed", "split", "gaussian", "timestamp"})
_UUID: Final = "[0-9a-f-]{36}"
_SIZED: Final = r"[-0-9A-Z_a-z]{10}\.*"
_FIRST_KEY: Final = 1
"""The place of a command's first key among its words."""


def key_names(plans: Iterable[Plan]) -> re.Pattern[str]:
    """Matches every key that these plans can write.

    A key of the user's own statements is a word with a generated name, or the first after the
    command. A statement with other keys writes some that don't match, never the other way round.
    """
    names = {name for plan in plans for name in _names(plan)}
    return re.compile("|".join(sorted(names)))


def _names(plan: Plan) -> Iterator[str]:
    # Where keys of several tables lie together, some drivers put the table's name before them.
    record = _record_key(plan)
    yield f"({re.escape(plan.dataset.table)}-)?{record}"
    for statement in plan.statements:
        for text in statement.texts:
            for place, word in enumerate(text.split()):
                pattern = _word(word.strip('[]"'), statement.arguments, record)
                is_named = any(
                    isinstance(one.generator, KeyGenerator | NameGenerator | FormatGenerator)
                    for one in statement.arguments
                    if f"{{{one.name}}}" in word
                )
                if pattern is not None and (is_named or place == _FIRST_KEY):
                    yield pattern


def _record_key(plan: Plan) -> str:
    key, fewest = plan.dataset.key, 1
    if key.order == "hashed":
        # Hashes are even below 2^63: `user5` is somebody's count, not one of a thousand of them.
        smallest = _RARE * 2**63 / max(_most_records(plan), 1)
        fewest = max(len(str(int(smallest))), 1)
    return _key_text(key, fewest)


def _most_records(plan: Plan) -> int:
    """How many records there can be, with those that clients insert."""
    dataset = plan.dataset
    there = dataset.start + dataset.count
    if dataset.full_at is not None:
        return max(there, dataset.full_at)
    # What is loaded is counted already.
    active = [one for phase in plan.phases if phase.name != "load" for one in phase.groups]
    inserted = (
        _ENDLESS if one.operations is None or weight.statement is not None else one.operations
        for one in active
        for weight in plan.groups[one.group].mix
        if weight.kind == "insert" and weight.weight > 0
    )
    return there + sum(inserted)


def _key_text(text: KeyText, fewest: int = 1) -> str:
    if text.order == "sized":
        return _SIZED
    # As it is written: no zeros before it but those that fill it up.
    width = max(text.zero_padding, 1)
    if fewest > width:
        return f"{re.escape(text.prefix)}[1-9][0-9]{{{fewest - 1},{_LONGEST - 1}}}"
    number = f"[0-9]{{{width}}}"
    if width < _LONGEST:
        number = f"({number}|[1-9][0-9]{{{width},{_LONGEST - 1}}})"
    return f"{re.escape(text.prefix)}{number}"


def _word(word: str, arguments: Sequence[Argument], record: str) -> str | None:
    """A pattern for a word of a statement; None where anything may stand in it."""
    pattern, end = "", 0
    for place in _PLACE.finditer(word):
        argument = next((one for one in arguments if one.name == place[1]), None)
        inserted = None if argument is None else _generated(argument.generator, arguments, record)
        if inserted is None:
            return None
        pattern += re.escape(word[end : place.start()]) + f"({inserted})"
        end = place.end()
    return pattern + re.escape(word[end:])


def _generated(generator: Generator, arguments: Sequence[Argument], record: str) -> str | None:
    """A pattern for what a generator writes; None where that may be anything."""
    if isinstance(generator, KeyGenerator):
        return record
    if isinstance(generator, NameGenerator):
        return _key_text(generator.text)
    if isinstance(generator, UuidGenerator):
        return _UUID
    if isinstance(generator, FormatGenerator):
        pattern = ""
        for part in generator.parts:
            pattern += re.escape(part.literal)
            if part.argument is not None:
                inserted = _generated(arguments[part.argument].generator, arguments, record)
                if inserted is None:
                    return None
                pattern += f"({inserted})"
        return pattern
    return _NUMBER if generator.generator in _NUMBERS else None
