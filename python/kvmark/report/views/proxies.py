"""What ways through proxies cost, drawn: one table, beside what was published, and sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvmark.analysis.models.path_costs import COST_QUANTILES, PathCost, Proxy
from kvmark.report.format import units
from kvmark.report.format.grid import Cell, Column, Grid, Tone
from kvmark.report.model.study_answers import Ways

__all__ = ["cost_sentences", "costs_grid"]

_BYTES_PER_MB = 1e6
_FIGURES = {
    "proxy_cpu": "the proxy's processor time",
    "proxy_memory_bytes": "the proxy's memory",
}
_NAMES = {"p999": "p99.9"}


def costs_grid(factors: Sequence[str], ways: Ways) -> Grid:
    """A row for each way but the straight one; what was published stands below."""
    others = [name for name in factors if any(name in one.levels for one in ways.costs)]
    return Grid(
        title="What the way through each proxy costs",
        columns=(
            *(Column(name, number=False, key=True) for name in others),
            Column("through", number=False, key=True),
            Column("build", number=False),
            Column("threads"),
            Column("lost, %", "throughput"),
            *(Column(_NAMES.get(name, name), "response time added, ms") for name in COST_QUANTILES),
            Column("CPU, µs/op", "proxy"),
            Column("memory, MB", "proxy"),
            Column("blocks"),
        ),
        rows=(
            *(_row(cost, others) for cost in ways.costs),
            *(_row(cost, others, "muted") for cost in ways.published),
        ),
        section_starts=frozenset({0, len(ways.costs)}),
        notes=tuple(_notes(ways)),
    )


def cost_sentences(ways: Ways) -> list[str]:
    """The cost of each way in a sentence."""
    return [told for cost in ways.costs if (told := _sentence(cost))]


def _row(cost: PathCost, others: Iterable[str], tone: Tone = "plain") -> tuple[Cell, ...]:
    proxy, memory = cost.proxy, cost.proxy_memory_bytes
    published = tone == "muted"
    threads = None if proxy is None else proxy.threads
    return (
        *(Cell(cost.levels.get(name, units.ABSENT), tone) for name in others),
        Cell(f"published: {cost.through}" if published else cost.through, tone),
        Cell(_build(proxy), tone),
        Cell(units.whole(threads), tone),
        Cell(
            units.estimate(cost.throughput_lost).replace("-", "−"),
            "muted" if published else "strong",
        ),
        *(Cell(_added(cost, name, published=published), tone) for name in COST_QUANTILES),
        Cell(units.estimate(cost.proxy_cpu), tone),
        Cell(units.significant(None if memory is None else memory / _BYTES_PER_MB), tone),
        Cell(units.ABSENT if published else units.whole(cost.blocks), tone),
    )


def _build(proxy: Proxy | None) -> str:
    return proxy.build if proxy and proxy.build else units.ABSENT


def _added(cost: PathCost, name: str, *, published: bool = False) -> str:
    """A difference with its sign: a way may be quicker than the straight one."""
    found = cost.response_added[name]
    if found is None:
        return units.ABSENT
    # Published were tenths.
    text = f"{found.value:.1f}" if published else units.estimate(found)
    return text.replace("-", "−") if found.value <= 0 else f"+{text}"


def _sentence(cost: PathCost) -> str:
    lost, added = cost.throughput_lost, cost.response_added["p50"]
    if lost is None:
        return ""
    named = ", ".join(f"{name} {label}" for name, label in cost.levels.items())
    where = f"Through {cost.through}" + (f" ({named})" if named else "")
    change = _added(cost, "p50")
    median = "" if added is None else f", and the median response time changes by {change} ms"
    return f"{where} {_loss(lost)}{median}."


def _loss(lost: units.Bounded) -> str:
    """The loss in words; one that chance explains isn't one."""
    if lost.low is None or lost.high is None:
        return f"{units.significant(lost.value)} % of the throughput is lost"
    if lost.low <= 0 <= lost.high:
        return "no loss of throughput is seen"
    what = "lost" if lost.value > 0 else "won"
    ends = sorted((abs(lost.low), abs(lost.high)))
    interval = " to ".join(map(units.significant, ends))
    return f"{units.significant(abs(lost.value))} % of the throughput is {what} ({interval})"


def _notes(ways: Ways) -> Iterable[str]:
    yield (
        "Each way against the straight one of the same blocks. ± is half the width of the 95 %"
        " confidence interval over blocks; differences of quantiles are those of merged histograms."
    )
    if not all(cost.blocks for cost in ways.costs):
        yield (
            "Of a way without blocks, the throughput or the straight way's isn't precise enough to"
            " stand in a comparison, or it has fewer repetitions than the study's minimum."
        )
    if any(cost.proxy for cost in ways.costs):
        yield (
            "A proxy that kvmark started shares this machine's cores with clients and system,"
            " unless each is bound to cores of its own."
        )
    if any(cost.proxy is None for cost in ways.costs):
        yield (
            "Of a proxy that kvmark up proxy didn't start, neither build and threads nor processor"
            " time and memory are known."
        )
    for cost in ways.costs:
        for name, reason in cost.missing.items():
            if cost.proxy is not None and name in _FIGURES:
                yield f"Through {cost.through}, {_FIGURES[name]} is missing: {reason}."
    if ways.published:
        yield (
            f"Published: {ways.source}. One run each, on another machine and to a tenth of a"
            " millisecond: for orientation, not a comparison."
        )
