"""Rankings drawn: a table per setting, the chain of what is really ordered, published sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from rich.text import Text

from kvmark.analysis.compare.published_claims import Claim
from kvmark.analysis.compare.ranking import Ranking
from kvmark.analysis.compare.selection import ExcludedRun
from kvmark.foreign_text import printable as printed
from kvmark.report.format import units
from kvmark.report.format.grid import (
    Cell,
    Column,
    Grid,
    Tone,
    escape_markdown,
    to_markdown,
    to_text,
    wrap,
)
from kvmark.report.views.comparison import percent, percent_range
from kvmark.report.views.history import excluded_sentences
from kvmark.report.views.plan_words import listed

__all__ = ["chain", "claims_grid", "ranking_grid", "ranking_markdown", "ranking_text"]

_TOGETHER: Final = (
    "Interval: 95 % confidence of each change alone. Confirmed and contradicted allow for chance in"
    " all comparisons made together (Holm's method): an interval without 0 can be open."
)
_TONES: dict[str, Tone] = {"confirmed": "valid", "contradicted": "invalid", "open": "muted"}


_NOTHING: Final = "There is nothing to rank: fewer than two things share a setting."


def ranking_text(
    rankings: Sequence[Ranking],
    claims: Sequence[Claim],
    width: int,
    excluded: Sequence[ExcludedRun] = (),
) -> Text:
    """All settings and sentences for a terminal, and the excluded runs."""
    lines = [] if rankings else [Text(_NOTHING)]
    for ranking in rankings:
        lines += [to_text(ranking_grid(ranking), width), Text()]
        lines += [Text(line) for line in wrap(printed(chain(ranking)), width)]
        lines += [Text(), Text()]
    if any(claim.findings for claim in claims):
        lines.append(to_text(claims_grid(claims), width))
    while lines and not lines[-1].plain:
        lines.pop()
    for sentence in excluded_sentences(excluded):
        lines += [Text(line, "yellow") for line in wrap(printed(sentence), width)]
    return Text("\n").join(lines)


def ranking_markdown(
    rankings: Sequence[Ranking], claims: Sequence[Claim], excluded: Sequence[ExcludedRun] = ()
) -> str:
    """All settings and sentences as Markdown, and the excluded runs."""
    blocks = [
        block
        for ranking in rankings
        for block in (to_markdown(ranking_grid(ranking)).strip(), escape_markdown(chain(ranking)))
    ]
    if any(claim.findings for claim in claims):
        blocks.append(to_markdown(claims_grid(claims)).strip())
    blocks += map(escape_markdown, excluded_sentences(excluded))
    return "\n\n".join(blocks) + "\n"


def ranking_grid(ranking: Ranking) -> Grid:
    """What was ranked, the cheapest first, and the step from each to the next."""
    unit = units.time_unit(one.cost.value for one in ranking.ranked)
    return Grid(
        title=ranking.setting,
        columns=(
            Column("", number=False, key=True),
            Column(f"{unit.name} per operation"),
            Column("interval"),
            Column("runs"),
            Column("dearer than the one above"),
            Column("beyond chance", number=False),
        ),
        rows=tuple(_rows(ranking, unit)),
    )


def chain(ranking: Ranking) -> str:
    """The order in signs: < where it is beyond chance, ≈ where it isn't, and how many pairs are."""
    names = [one.name for one in ranking.ranked]
    text = names[0] if names else ""
    for one, other in pairwise(names):
        pair = ranking.pair(one, other)
        text += f" {'<' if pair and pair.ordered else '≈'} {other}"
    ordered = sum(pair.ordered for pair in ranking.pairs)
    return f"{text}. Really ordered are {ordered} of {len(ranking.pairs)} pairs."


def claims_grid(claims: Sequence[Claim]) -> Grid:
    """Each published sentence with what every setting says of it."""
    rows = [
        (
            Cell(claim.sentence if first else ""),
            Cell(finding.setting),
            Cell(finding.word, _TONES[finding.word]),
            Cell(percent(finding.effect.change)),
            Cell(percent_range(finding.effect.ratio)),
        )
        for claim in claims
        for first, finding in zip([True] + [False] * len(claim.findings), claim.findings,
                                  strict=False)
    ]  # fmt: skip
    missing = [claim.sentence for claim in claims if not claim.findings]
    notes = (_TOGETHER, *((f"Not measured here: {listed(missing)}.",) if missing else ()))
    return Grid(
        title="Published sentences",
        columns=(
            Column("sentence", number=False, key=True),
            Column("setting", number=False, key=True),
            Column("here it is", number=False),
            Column("by"),
            Column("interval"),
        ),
        rows=tuple(rows),
        notes=notes,
    )


def _rows(ranking: Ranking, unit: units.TimeUnit) -> Iterator[tuple[Cell, ...]]:
    above: str | None = None
    for one in ranking.ranked:
        pair = ranking.pair(above, one.name) if above is not None else None
        low, high = one.cost.low, one.cost.high
        interval = units.ABSENT
        if low is not None and high is not None:
            interval = f"{units.duration(low, unit)} to {units.duration(high, unit)}"
        step = Cell(percent(pair.effect.change)) if pair else Cell("")
        told = Cell("")
        if pair is not None:
            told = Cell("yes", "valid") if pair.ordered else Cell("no", "muted")
        yield (
            Cell(one.name), Cell(units.duration(one.cost.value, unit), "strong"), Cell(interval),
            Cell(units.whole(one.runs)), step, told,
        )  # fmt: skip
        above = one.name
