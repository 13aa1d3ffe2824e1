"""Which block of an experiment a run is in: runs of one block were made together.

What differs from block to block is shared by the runs of one, so that their ratio is known better
than each of them. Nothing of weight is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kvmark.records.model import Manifest

__all__ = ["Block", "block_of", "experiment", "repetition_of"]

#: Where a spec says it: the experiment's part, its name in it, the number of the block.
_NUMBERED: Final = (
    ("ab", "name", "block"),
    ("study", "id", "repetition"),
    ("capacity", "name", "number"),
    ("sequence", None, "repetition"),
)


@dataclass(frozen=True, slots=True)
class Block:
    """A block by its number, from 0."""

    experiment: str
    number: int


def block_of(manifest: Manifest) -> Block | None:
    """The block that a run is in; none where it was made alone."""
    for part, name, number in _NUMBERED:
        told = experiment(manifest, part)
        if name is not None and told.get(name) is not None and told.get(number) is not None:
            return Block(str(told[name]), int(told[number]))
    return None


def repetition_of(manifest: Manifest) -> int | None:
    """Which repetition of a command, a study or a comparison a run is; none where it is alone."""
    for part, _, number in _NUMBERED:
        told = experiment(manifest, part).get(number)
        if told is not None:
            return int(told)
    return None


def experiment(manifest: Manifest, part: str) -> Mapping[str, Any]:
    """What the spec says of the experiment that a run is for; empty where it is for none."""
    told = manifest.spec.get(part)
    return told if isinstance(told, Mapping) else {}
