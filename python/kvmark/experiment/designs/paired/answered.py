"""An interleaved comparison that was cut short, from the runs that it left."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kvmark.errors import RecordsError
from kvmark.experiment.designs.paired.ab import SIDES, Blocks, Kept, Precision, Side
from kvmark.experiment.designs.paired.judging import decided, found_in
from kvmark.records import Entry, Records
from kvmark.records.words import USABLE
from kvmark.spec.metric import parse_comparable

__all__ = ["kept"]


def kept(records: Records, name: str, *, allow_invalid: bool) -> Kept:
    """The comparison of that name.

    Raises:
        RecordsError: there is no run of it.
    """
    entries = [(entry, side) for entry in records.list() if (side := _side(entry, name))]
    if not entries:
        raise RecordsError(
            f"there is no run of a comparison '{name}' in {records.root}: give the tag of its runs"
            " as kvmark runs lists it, without :base or :candidate"
        )
    told = [_told(records, entry) for entry, _ in entries]
    asked = told[0].get("asked", {})
    metric = parse_comparable(str(asked.get("metric", "throughput")))
    precision = _precision(asked)
    found: dict[int, dict[Side, tuple[str, float]]] = {}
    blocks = Blocks()
    for (entry, side), own in zip(entries, told, strict=True):
        value = found_in(records, entry.id, metric, allow_invalid=allow_invalid)
        if value.value is None:
            blocks.left_out.append(value.problem)
        else:
            found.setdefault(int(own["block"]), {})[side] = (entry.id, value.value)
    whole = [found[block] for block in sorted(found) if len(found[block]) == len(SIDES)]
    blocks.complete += [{side: run for side, (run, _) in block.items()} for block in whole]
    ratios = [math.log(block["candidate"][1] / block["base"][1]) for block in whole]
    blocks.standing = decided(ratios, precision) if ratios else None
    return Kept(metric, precision, blocks)


def _side(entry: Entry, name: str) -> Side | None:
    if entry.state not in USABLE:
        return None
    return next((side for side in SIDES if f"{name}:{side}" in entry.tags), None)


def _told(records: Records, entry: Entry) -> Mapping[str, Any]:
    """What a run says of its place in the comparison.

    Raises:
        RecordsError: it says nothing.
    """
    told = records.open(entry.id).manifest.spec.get("ab")
    if not isinstance(told, Mapping) or "block" not in told:
        raise RecordsError(f"run {entry.id} is of no comparison though its tags say so")
    return told


def _precision(asked: Mapping[str, Any]) -> Precision:
    within, find = asked.get("within"), asked.get("find")
    most = int(asked.get("most_blocks", 100))
    return Precision(0.01 if within is None and find is None else within, find, most)
