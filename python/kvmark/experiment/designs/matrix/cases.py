"""The cases of a study: every combination of levels that is wanted, and the order of their runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TypeVar

from kvmark import records
from kvmark.errors import SpecError
from kvmark.spec.study import Level, StudySpec
from kvmark.spec.suggest import did_you_mean, shown

__all__ = ["Case", "combinations", "matches", "ordered", "parse_choice"]

Choice = Mapping[str, Sequence[str]]
Key = TypeVar("Key")


@dataclass(frozen=True)
class Case:
    """One combination of levels."""

    levels: Mapping[str, Level]

    @property
    def labels(self) -> dict[str, str]:
        """The label of each factor's level."""
        return {name: level.label for name, level in self.levels.items()}

    @cached_property
    def title(self) -> str:
        """The case in words; the same for no other case of the study."""
        return records.Case.of_levels(self.labels).title


def combinations(
    spec: StudySpec, factors: Sequence[str], only: Sequence[Choice] = ()
) -> tuple[Case, ...]:
    """The combinations of these factors' levels that the study wants, in its order.

    Rules that name a factor which isn't varied say nothing.
    """
    levels = spec.levels
    rules = [rule for rule in spec.exclude if rule.keys() <= set(factors)]
    found = (
        Case(dict(zip(factors, chosen, strict=True)))
        for chosen in product(*(levels[name] for name in factors))
    )
    return tuple(
        case
        for case in found
        if (not spec.include or any(matches(case.labels, wanted) for wanted in spec.include))
        and not any(matches(case.labels, rule) for rule in rules)
        and all(matches(case.labels, choice) for choice in only)
    )


def matches(labels: Mapping[str, str], choice: Choice) -> bool:
    """Whether each factor that is named has one of the labels; one that isn't varied has any."""
    return all(name not in labels or labels[name] in wanted for name, wanted in choice.items())


def parse_choice(text: str, levels: Mapping[str, Sequence[Level]]) -> dict[str, tuple[str, ...]]:
    """Reads `factor=level,level` as it stands on a command line.

    Raises:
        SpecError: it isn't of the form, or there is no such factor or level.
    """
    name, equals, listed = text.partition("=")
    if not equals:
        raise SpecError(f"only: {shown(text)} names no level; write factor=level,level")
    if name not in levels:
        raise SpecError(f"only: there is no factor {shown(name)}{did_you_mean(name, levels)}")
    known = [level.label for level in levels[name]]
    wanted = tuple(part.strip() for part in listed.split(","))
    for label in wanted:
        if label not in known:
            hint = did_you_mean(label, known)
            raise SpecError(f"only: {name} has no level {shown(label)}{hint}")
    return {name: wanted}


def ordered(
    cases: Sequence[Case],
    repetitions: int,
    seed: int,
    together: Callable[[Case], Key],
    *,
    shuffled: bool,
) -> Iterator[tuple[int, Case]]:
    """Every run, as a repetition from 0 and its case.

    Repetitions are the outer loop, so that each is a block in which drift of the machine is shared
    by all cases. Within a block cases that share what `together` says come one after the other,
    because changing it is expensive: a cluster starts anew. Both the order of these parts and that
    within each are drawn from the seed, anew for each block.
    """
    parts: dict[Key, list[Case]] = {}
    for case in cases:
        parts.setdefault(together(case), []).append(case)
    if len(cases) == 1:
        yield from ((repetition, cases[0]) for repetition in range(repetitions))
        return
    for repetition in range(repetitions):
        chance = random.Random(f"{seed} {repetition}")  # noqa: S311 - an order, not a secret
        blocks = [list(block) for block in parts.values()]
        if shuffled:
            chance.shuffle(blocks)
        for block in blocks:
            if shuffled:
                chance.shuffle(block)
            yield from ((repetition, case) for case in block)
