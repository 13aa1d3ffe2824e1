"""Sentences that others published, held against our runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Final, Literal

from kvmark.analysis.compare.metrics import level
from kvmark.analysis.compare.ranking import ERROR_LEVEL, Ranking, rankings
from kvmark.records import Run, by_case
from kvmark.spec.metric import THROUGHPUT
from kvmark.stats import Effect, Level, contrast, holm

__all__ = ["Claim", "Finding", "Word", "claims"]

Word = Literal["confirmed", "contradicted", "open"]

#: The published order; its QUERY is a scan.
ORDER: Final = ("READ", "UPDATE", "INSERT", "SCAN")
#: The published order of workloads, the cheapest first.
WORKLOADS: Final = ("C", "D", "B", "F", "A", "E")
_GROWTH: Final = "RocksDB outgrows Redis as records are added"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one setting says of a sentence."""

    setting: str
    word: Word
    #: What was found, as a change: 0.2 is 20 % more.
    effect: Effect


@dataclass(frozen=True, slots=True)
class Claim:
    """A published sentence, and what the runs say of it; nothing where they can't."""

    sentence: str
    findings: tuple[Finding, ...]

    @property
    def word(self) -> Word:
        """Contradicted if a setting contradicts it, confirmed if all of them confirm it."""
        words = {finding.word for finding in self.findings}
        if "contradicted" in words:
            return "contradicted"
        return "confirmed" if words == {"confirmed"} else "open"


def claims(runs: Sequence[Run]) -> tuple[Claim, ...]:
    """The published sentences on costs and growth.

    Raises:
        RecordsError: a run's files can't be read.
    """
    by_operation, by_workload = rankings(runs, "operation"), rankings(runs, "workload")
    steps = (
        Claim(f"{what}{one} costs less than {other}", tuple(_steps(ranked, one, other)))
        for what, ranked, order in (
            ("", by_operation, ORDER),
            ("workload ", by_workload, WORKLOADS),
        )
        for one, other in pairwise(order)
    )
    return (*steps, Claim(_GROWTH, tuple(_growth(runs))))


def _steps(by_operation: Sequence[Ranking], one: str, other: str) -> Iterator[Finding]:
    for ranking in by_operation:
        pair = ranking.pair(one, other)
        if pair is None:
            continue
        word: Word = "open"
        if pair.ordered:
            word = "confirmed" if pair.cheaper == one else "contradicted"
        setting = f"{ranking.setting}: {pair.cheaper} is cheaper"
        yield Finding(setting, word, pair.effect)


def _growth(runs: Sequence[Run]) -> Iterator[Finding]:
    """How much more RocksDB's throughput grew than Redis's, from the least to the most records."""
    found: list[tuple[str, Effect]] = []
    for case, same in by_case(runs, without=("system", "records")).items():
        # As fast as the clients go: at a rate nothing grows.
        stores = _levels(same) if case.target_rate is None else {}
        for rocksdb, redis in product(stores.get("RocksDB", ()), stores.get("Redis", ())):
            sizes = sorted(rocksdb.keys() & redis.keys())
            if len(sizes) < 2:
                continue
            least, most = sizes[0], sizes[-1]
            weighted = (
                (1.0, rocksdb[most]), (-1.0, rocksdb[least]),
                (-1.0, redis[most]), (1.0, redis[least]),
            )  # fmt: skip
            effect = contrast(weighted, "ratio of growths, Welch's interval")
            found.append((f"{case.title} from {least:,} to {most:,} records", effect))
    known = [effect.p_value for _, effect in found if effect.p_value is not None]
    adjusted = iter(holm(known))
    for setting, effect in found:
        p_value = None if effect.p_value is None else next(adjusted)
        word: Word = "open"
        if p_value is not None and p_value < ERROR_LEVEL:
            word = "confirmed" if effect.change > 0 else "contradicted"
        yield Finding(setting, word, effect)


def _levels(runs: Sequence[Run]) -> Mapping[str, list[dict[int, Level]]]:
    """Throughput by number of records, of each store and of each way in which it was measured."""
    found: dict[str, list[dict[int, Level]]] = {}
    for store, same in by_case(runs, without=("records",)).items():
        sizes = {}
        for case, repeated in by_case(same).items():
            measured = level(repeated, THROUGHPUT)
            if measured is not None:
                sizes[case.records] = measured
        found.setdefault(store.store, []).append(sizes)
    return found
