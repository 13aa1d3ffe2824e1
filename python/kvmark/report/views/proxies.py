"""The costs of proxies: their table and sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, Literal

from kvmark.analysis.study import PathCost, ProxyCosts
from kvmark.analysis.summary.run import QUANTILES
from kvmark.records import Judgement
from kvmark.report.model import units
from kvmark.report.model.page import Figure
from kvmark.report.model.tables import Cell, Grid, Table
from kvmark.report.model.units import Bounded
from kvmark.report.views import charts
from kvmark.report.views.figures import BOUNDED_SCHEMA, frame

_BYTES_PER_MB: Final = 1e6
_US_PER_MS: Final = 1e3
_FIGURES: Final = {
    "proxy_cpu": "the proxy's processor time",
    "proxy_memory_bytes": "the proxy's memory",
}


def proxies_grid(factors: Sequence[str], proxies: ProxyCosts) -> Grid:
    """The costs of each proxy, then the published costs."""
    costs, published = proxies.costs, set(map(id, proxies.published))

    def is_published(cost: PathCost) -> bool:
        return id(cost) in published

    def level(name: str, cost: PathCost) -> str:
        return cost.levels.get(name, units.ABSENT)

    def memory(cost: PathCost) -> float | None:
        size = cost.proxy_memory_bytes
        return None if size is None else size / _BYTES_PER_MB

    def lost(cost: PathCost) -> Cell:
        text = units.estimate(cost.throughput_lost).replace("-", "−")
        return Cell(text, "muted" if is_published(cost) else "strong")

    table = Table(
        "What the way through each proxy costs",
        (*costs, *proxies.published),
        lambda cost: "muted" if is_published(cost) else "plain",
    )
    for name in factors:
        if any(name in cost.levels for cost in costs):
            table.key(name, partial(level, name))
    table.key("through", lambda cost: ("published: " if is_published(cost) else "") + cost.through)
    table.word("build", lambda cost: getattr(cost.proxy, "build", "") or units.ABSENT)
    table.number("threads", lambda cost: getattr(cost.proxy, "threads", None))
    table.number("lost, %", lost, "throughput")
    table.numbers(
        {name: "p99.9" if name == "p999" else name for name in QUANTILES},
        lambda name, cost: _added(cost, name, published=is_published(cost)),
        "response time added",
    )
    table.number("CPU, µs/op", lambda cost: cost.proxy_cpu, "proxy")
    table.number("memory, MB", memory, "proxy")
    table.number("blocks", lambda cost: None if is_published(cost) else cost.blocks)
    return table.grid(_proxy_notes(proxies), frozenset({0, len(costs)}))


def with_doubt(
    sentence: str, subjects: Literal["cases", "runs"], judgements: Iterable[Judgement]
) -> str:
    """A sentence about figures, which notes if not all of them, or none, are VALID."""
    found = set(judgements)
    if found <= {Judgement.VALID}:
        return sentence
    doubt = "that aren't all VALID" if Judgement.VALID in found else "of which none is VALID"
    return f"{sentence.removesuffix('.')}, from {subjects} {doubt}."


def cost_sentences(proxies: ProxyCosts, *, brief: bool = False) -> Iterator[str]:
    """The costs of each proxy in a sentence, or the throughput alone."""
    for cost in proxies.costs:
        if cost.throughput_lost is not None:
            levels = ", ".join(f"{name} {label}" for name, label in cost.levels.items())
            path = f"Through {cost.through}" + (f" ({levels})" if levels else "")
            median = ""
            if cost.response_added["p50"] is not None and not brief:
                median = f", and the median response time changes by {_added(cost, 'p50')}"
            yield f"{path} {_loss(cost.throughput_lost)}{_published(cost, proxies)}{median}."


def _published(cost: PathCost, proxies: ProxyCosts) -> str:
    """The published loss through the same build with as many threads; empty without one."""
    same = (one for one in proxies.published if cost.proxy and _build(one) == _build(cost))
    lost = next((one.throughput_lost for one in same), None)
    return f", published {units.significant(lost.value)} %" if lost else ""


def _build(cost: PathCost) -> str:
    """The build and the threads of a proxy, or its level."""
    proxy = cost.proxy
    return f"{proxy.build}-{proxy.threads}" if proxy and proxy.build else cost.through


def proxies_figure(proxies: ProxyCosts) -> Figure:
    """The share of the direct throughput that is left through each proxy."""
    rows: list[tuple[object, ...]] = []
    for costs, series in ((proxies.costs, "measured"), (proxies.published, "published")):
        for cost in costs:
            if cost.throughput_lost is not None:
                left = cost.throughput_lost.put(lambda lost: 100 - lost, "%")
                rows.append(
                    ("", _build(cost), series, left.value, left.low, left.high, cost.blocks)
                )
    data = frame(rows, {"panel": str, "through": str, **BOUNDED_SCHEMA})
    caption = "Throughput in percent of the direct one, logarithmic. Bars are 95 % intervals."
    spec = charts.level_chart(data, "throughput left, %", "through")
    return Figure("throughput-left", "Throughput through each proxy", caption, data, spec)


def _added(cost: PathCost, name: str, *, published: bool = False) -> str:
    """A difference with its sign, which may be negative."""
    added = cost.response_added[name]
    if added is None:
        return units.ABSENT
    unit = "ms"
    if max(abs(added.value), added.error or 0.0) < 1 and not published:
        added, unit = added.put(lambda time_ms: time_ms * _US_PER_MS, "µs"), "µs"
    # Published figures have tenths.
    shown = f"{added.value:.1f}" if published else units.estimate(added)
    return f"{shown.replace('-', '−') if added.value <= 0 else f'+{shown}'} {unit}"


def _loss(lost: Bounded) -> str:
    """The loss in words, unless chance explains it."""
    if lost.low is None or lost.high is None:
        return f"{units.significant(lost.value)} % of the throughput is lost"
    if lost.low <= 0 <= lost.high:
        return f"no loss of throughput is seen ({units.estimate(lost).replace('-', '−')} %)"
    verb = "lost" if lost.value > 0 else "won"
    interval = " to ".join(map(units.significant, sorted((abs(lost.low), abs(lost.high)))))
    return f"{units.significant(abs(lost.value))} % of the throughput is {verb} ({interval})"


def _proxy_notes(proxies: ProxyCosts) -> Iterator[str]:
    yield (
        "Each way against the straight one of the same blocks. ± is half the width of the 95 %"
        " confidence interval over blocks; differences of quantiles are those of merged histograms."
    )
    if not all(cost.blocks for cost in proxies.costs):
        yield (
            "Of a way without blocks, the throughput or the straight way's isn't precise enough to"
            " stand in a comparison, or it has fewer repetitions than the study's minimum."
        )
    if any(cost.proxy for cost in proxies.costs):
        yield (
            "A proxy that kvmark started shares this machine's cores with clients and system,"
            " unless each is bound to cores of its own."
        )
    if any(cost.proxy is None for cost in proxies.costs):
        yield (
            "Of a proxy that kvmark up proxy didn't start, neither build and threads nor processor"
            " time and memory are known."
        )
    for cost in proxies.costs:
        for name, reason in cost.missing.items():
            if cost.proxy is not None and name in _FIGURES:
                yield f"Through {cost.through}, {_FIGURES[name]} is missing: {reason}."
    if proxies.published:
        yield (
            f"Published: {proxies.source}. One run each, on another machine and to a tenth of a"
            " millisecond: for orientation, not a comparison."
        )
