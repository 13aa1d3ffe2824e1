"""Names in plans: of the keys that they write, and of their operations in records.

What else a store holds, somebody else wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from kvmark.plan.lines import read_lines
from kvmark.plan.model import Argument, KeyText, Lines, Plan, Words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
_MOST_HASHES: Final = 5_000_000
"""More hashes than these aren't made to hold keys against them: 8 bytes each."""
_FNV_BASIS: Final = 0xCBF2_9CE4_8422_2325
_FNV_PRIME: Final = 1_099_511_628_211


@dataclass(frozen=True)
class _RecordKeys:
    """The keys of a plan's records."""

    #: The number's digits, or the line of a file, are a group.
    pattern: re.Pattern[str]
    order: str | Lines
    #: How many records there can be.
    most: int

    def has(self, key: str) -> bool:
        """Whether a record's number makes the key."""
        found = self.pattern.fullmatch(key)
        if found is None or self.order == "sized":
            return found is not None
        if isinstance(self.order, Lines):
            return found["number"] in self._lines
        number = int(found["number"])
        if self.order == "ordered":
            return number < self.most
        if self.most > _MOST_HASHES:
            return True
        place = int(self._hashes.searchsorted(number)) if number < 1 << 63 else self.most
        return place < self.most and int(self._hashes[place]) == number

    @cached_property
    def _lines(self) -> frozenset[str]:
        return read_lines(self.order.lines) if isinstance(self.order, Lines) else frozenset()

    @cached_property
    def _hashes(self) -> NDArray[np.int64]:
        found = ycsb_hashes(self.most)
        found.sort()
        return found


@dataclass(frozen=True)
class KeyNames:
    """The keys that plans write."""

    records: tuple[_RecordKeys, ...]
    #: Keys of the user's own statements.
    words: re.Pattern[str] | None

    def has(self, key: str) -> bool:
        """Whether one of the plans writes the key."""
        is_word = self.words is not None and self.words.fullmatch(key) is not None
        return is_word or any(one.has(key) for one in self.records)


def key_names(plans: Iterable[Plan]) -> KeyNames:
    """The keys that these plans can write.

    A key of the user's own statements is a word with a generated name, or the first after the
    command. A statement with other keys writes unknown ones, never the other way round.
    """
    # Most cases of a study have the same records, whose hashes are made once.
    most: dict[tuple[str, KeyText], int] = {}
    words: set[str] = set()
    for plan in plans:
        of_records = plan.dataset.table, plan.dataset.key
        most[of_records] = max(_most_records(plan), most.get(of_records, 0))
        words |= set(_words(plan))
    records = (
        # Where keys of several tables lie together, some drivers put the table's name first.
        _RecordKeys(
            re.compile(f"({re.escape(table)}-)?{_record_key(key, count, 'number')}"),
            key.order,
            count,
        )
        for (table, key), count in most.items()
    )
    return KeyNames(tuple(records), re.compile("|".join(sorted(words))) if words else None)


def ycsb_hashes(count: int) -> NDArray[np.int64]:
    """The numbers in the keys of the first records, hashed as YCSB does: FNV-1a of eight octets.

    Source: YCSB 0.17.0, `Utils.fnvhash64`.
    """
    import numpy as np  # noqa: PLC0415 - only a resumed study needs it

    ordinals = np.arange(count, dtype=np.uint64)
    hashes = np.full(count, _FNV_BASIS, dtype=np.uint64)
    for octet in range(8):
        hashes ^= (ordinals >> np.uint64(8 * octet)) & np.uint64(0xFF)
        hashes *= np.uint64(_FNV_PRIME)
    return np.abs(hashes.view(np.int64))


def _words(plan: Plan) -> Iterator[str]:
    record = _record_key(plan.dataset.key, _most_records(plan))
    for statement in plan.statements:
        for text in statement.texts:
            for place, bracketed in enumerate(text.split()):
                word = bracketed.strip('[]"')
                inside = [one for one in statement.arguments if f"{{{one.name}}}" in word]
                kinds = {one.generator["generator"] for one in inside}
                if kinds == {"key"} and word == f"{{{inside[0].name}}}":
                    # A record's key and no more is known by its number.
                    continue
                parts = _PLACE.split(word)
                known = {one.name: one.generator for one in statement.arguments}
                inserted = [known.get(name) for name in parts[1::2]]
                pattern = _joined(parts[::2], inserted, statement.arguments, record)
                is_named = bool(kinds & {"key", "name", "format"})
                if pattern is not None and (is_named or place == _FIRST_KEY):
                    yield pattern


def _record_key(key: KeyText, most: int, group: str = "") -> str | None:
    """A pattern for the keys of this number of records; None if only the group's text shows it."""
    if isinstance(key.order, Lines):
        return f"(?P<{group}>.+)" if group else None
    fewest = 1
    if key.order == "hashed":
        # Hashes are even below 2^63: `user5` is somebody's count, not one of a thousand of them.
        smallest = _RARE * 2**63 / max(most, 1)
        fewest = max(len(str(int(smallest))), 1)
    return _key_text(key, fewest, group)


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


def _key_text(text: KeyText, fewest: int = 1, group: str = "") -> str:
    """A pattern for keys; their numbers are the group, if one is named."""
    if text.order == "sized":
        return _SIZED
    begin = f"(?P<{group}>" if group else "("
    # As it is written: no zeros before it but those that fill it up.
    width = max(text.zero_padding, 1)
    if fewest > width:
        return f"{re.escape(text.prefix)}{begin}[1-9][0-9]{{{fewest - 1},{_LONGEST - 1}}})"
    number = f"[0-9]{{{width}}}"
    if width < _LONGEST:
        number = f"{number}|[1-9][0-9]{{{width},{_LONGEST - 1}}}"
    return f"{re.escape(text.prefix)}{begin}{number})"


def _joined(
    literals: Sequence[str],
    inserted: Sequence[Words | None],
    arguments: Sequence[Argument],
    record: str | None,
) -> str | None:
    """A pattern for literals with values between them; None if one can be anything."""
    values = [None if one is None else _generated(one, arguments, record) for one in inserted]
    pattern = ""
    for literal, value in zip_longest(literals, values, fillvalue=""):
        if value is None:
            return None
        pattern += re.escape(literal) + (f"({value})" if value else "")
    return pattern


def _generated(generator: Words, arguments: Sequence[Argument], record: str | None) -> str | None:
    """A pattern for a generator's values; None if they can be anything."""
    kind: Any = generator["generator"]
    if kind == "name":
        return _key_text(KeyText.model_validate(generator["text"]))
    if kind == "format":
        parts: Any = generator["parts"]
        places = [part["argument"] for part in parts if part["argument"] is not None]
        inserted = [arguments[place].generator for place in places]
        return _joined([part["literal"] for part in parts], inserted, arguments, record)
    return {"key": record, "uuid": _UUID}.get(kind, _NUMBER if kind in _NUMBERS else None)


def operation_names(plan: Plan) -> tuple[str, ...]:
    """Those of the measured groups: a statement's name, or the kind's."""
    found: dict[str, None] = {}
    measured = [phase for phase in plan.phases if phase.name == "measure"]
    groups = {active.group for phase in measured for active in phase.groups}
    for index in sorted(groups):
        fill = plan.groups[index].on_miss
        if fill is not None:
            own = fill.statement
            found["INSERT" if own is None else plan.statements[own].name] = None
        for entry in plan.groups[index].mix:
            if entry.statement is None:
                found[entry.kind.replace("_", "-").upper()] = None
                # Its parts have names too.
                parts = ("READ", "UPDATE") if entry.kind == "read_modify_write" else ()
                found |= dict.fromkeys(parts)
                continue
            statement = plan.statements[entry.statement]
            found[statement.name] = None
            if statement.when_full is not None:
                found[plan.statements[statement.when_full].name] = None
    return tuple(found)
