"""The tables of a study: cases, effects, failed cases, and the costs of proxies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from kvmark.analysis.path_costs import PathCost, ProxyCosts
from kvmark.analysis.study import EffectOfCase, StudyEffect, StudyRow
from kvmark.analysis.summary.run import QUANTILES
from kvmark.report.model import units
from kvmark.report.model.answers import StudyAnswer, case_titles
from kvmark.report.model.tables import Cell, Column, Field, Grid, Tone, build, changes, key, word
from kvmark.report.model.units import Bounded
from kvmark.report.views.runs_list import verdict_cell
from kvmark.report.views.sequence import CASE_VERDICT, SUCCESSFUL

_TIMES: Final = ("mean", "p50", "p95", "p99", "p999", "max")
_OPTIONAL_TIMES: Final = frozenset({"mean", "p999"})
_LENGTHS: Final = {"operations": "operations", "seconds": "s"}
_PUBLISHED: Final = ("throughput", *_TIMES, *_LENGTHS)
_LEAST_SECTION: Final = 2
_BYTES_PER_KB: Final = 1000
_BYTES_PER_MB: Final = 1e6
_EFFECTS_NOTE: Final = (
    "Each effect compares cases that differ in nothing else, within the same repetition; "
    "a single repetition has its interval over the cases, or none. An effect differs where the "
    "interval of one case, widened for their number, lies wholly above another's."
)
_PROXY_FIGURES: Final = {
    "proxy_cpu": "the proxy's processor time",
    "proxy_memory_bytes": "the proxy's memory",
}


def study_grid(answer: StudyAnswer) -> Grid:
    """Every case: levels, throughput, response times, errors, verdict, published figures."""
    rows, times = answer.rows, _times(answer)
    unit = units.time_unit(time for row in rows for time in times_ns(row, times))

    def time_cell(name: str, row: StudyRow) -> str:
        return units.duration(times_ns(row, [name])[0], unit)

    def level(name: str, row: StudyRow) -> str:
        return row.levels[name]

    fields: list[Field[StudyRow]] = [
        *((key(name, number=_is_numeric(rows, name)), partial(level, name))
          for name in answer.factors),
        (Column(answer.unit, "measured"),
         lambda row: Cell(units.estimate(row.throughput), "strong")),
    ]  # fmt: skip
    if len({len(_runs(row)) for row in rows}) > 1:
        fields.append((Column("n", "measured"), lambda row: units.whole(len(_runs(row)))))
    if "operations" in answer.columns:
        fields.append((Column("operations", "measured"), lambda row: _mean(row, row.completed)))
    if "seconds" in answer.columns:
        fields.append((Column("s", "measured"), _seconds))
    band = f"response time, {unit.name}"
    fields += [(Column(name, band), partial(time_cell, name)) for name in times]
    if answer.disk_reads:
        fields.append((Column("disk, kB/op"), _disk))
    if any(row.retries for row in rows):
        fields.append((Column("retries"), _retries))
    fields += [
        (Column("errors"), lambda row: _mean(row, row.errors_total)),
        (word("verdict"), _verdict),
    ]
    return build(
        answer.title,
        rows,
        [*fields, *_published_fields(answer)],
        _study_notes(answer),
        _section_starts(answer),
    )


def _published_fields(answer: StudyAnswer) -> Iterator[Field[StudyRow]]:
    rows = answer.rows
    if any(row.published is not None and row.published.table for row in rows):
        yield word("table", "published"), _published_table
    headings = {"throughput": answer.unit, **_LENGTHS}
    for name in _PUBLISHED:
        if any(_published(name, row) is not None for row in rows):
            heading = headings.get(name, f"{name} ms")
            yield Column(heading, "published"), partial(_published_cell, name)


def _published_table(row: StudyRow) -> Cell:
    name = None if row.published is None else row.published.table
    return Cell(units.ABSENT if name is None else name, "muted")


def _published(name: str, row: StudyRow) -> float | None:
    """A published figure of a case; none where the report has none."""
    field = f"{name}_ms" if name in _TIMES else name
    return getattr(row.published, field, None)


def _published_cell(name: str, row: StudyRow) -> Cell:
    return Cell(units.significant(_published(name, row)), "muted")


def effects_grid(answer: StudyAnswer) -> Grid:
    """The change from level to level, next to the published change."""

    def change(effect: StudyEffect) -> Cell:
        if effect.extremes is not None:
            return Cell("differs", "strong")
        return Cell(_signed(effect.change), "strong")

    def interval(effect: StudyEffect) -> str:
        if effect.extremes is not None:
            return f"{_range(*effect.extremes)} by case"
        return _interval(effect.change)

    fields: list[Field[StudyEffect]] = [
        (key("effect"), lambda effect: effect.asked.title),
        (word("of"), lambda effect: effect.asked.of.replace("_", " ")),
        (Column("change, %", "measured"), change),
        (Column("95 % interval", "measured"), interval),
        (Column("cases", "measured"), lambda effect: units.whole(len(effect.by_case))),
    ]
    if any(effect.published for effect in answer.effects):
        fields += [
            (Column("change, %", "published"),
             lambda effect: Cell(_signed(effect.published), "muted")),
            (Column("cases", "published"),
             lambda effect: Cell(units.whole(effect.published_cases), "muted")),
        ]  # fmt: skip
    notes = (_EFFECTS_NOTE, *_exclusion_notes(answer.effects))
    return build("Effects over all cases", answer.effects, fields, notes)


def effects_by_case_grid(effect: StudyEffect) -> Grid:
    """One effect, case by case."""

    def level(name: str, case: EffectOfCase) -> str:
        return case.levels[name]

    names = effect.by_case[0].levels if effect.by_case else ()
    fields: list[Field[EffectOfCase]] = [
        *((key(name), partial(level, name)) for name in names),
        (Column("change, %"), lambda case: _signed(case.change)),
        (Column("95 % interval"), lambda case: _interval(case.change)),
    ]
    return build(effect.asked.title, effect.by_case, fields)


def failures_grid(answer: StudyAnswer) -> Grid | None:
    """The reasons why cases failed; none if none did."""
    reasons: dict[str, list[str]] = {}
    title = case_titles(answer)
    for row in answer.rows:
        for reason in dict.fromkeys(row.failures):
            reasons.setdefault(reason, []).append(title(row))
    if not reasons:
        return None
    fields: list[Field[tuple[str, list[str]]]] = [
        (key("cases", number=True), lambda item: units.whole(len(item[1]))),
        (word("first"), lambda item: item[1][0]),
        (word("reason"), lambda item: item[0]),
    ]
    return build("Cases that came to no end", reasons.items(), fields)


def effect_text(effect: StudyEffect) -> str:
    """An effect's change, or the range over its cases: `+90 to +250 %, case by case`."""
    if effect.extremes is not None:
        return f"{_range(*effect.extremes)} %, case by case"
    return units.ABSENT if effect.change is None else change_text(effect.change)


def change_text(change: Bounded) -> str:
    """A change in percent with its interval, such as `−51 % (−55 to −47)`."""
    interval = _interval(change)
    return f"{_signed(change)} %" + ("" if interval == units.ABSENT else f" ({interval})")


def _disk(row: StudyRow) -> str:
    return units.significant(None if row.disk_bytes is None else row.disk_bytes / _BYTES_PER_KB)


def _retries(row: StudyRow) -> str:
    return units.ABSENT if row.retries is None else _mean(row, row.retries)


def _seconds(row: StudyRow) -> str:
    return units.significant(None if row.figures is None else row.figures.runtime_ms.value / 1000)


def _verdict(row: StudyRow) -> Cell:
    """The verdict; of a case without a measurement, its state."""
    if row.figures is not None:
        return verdict_cell(row.figures.verdict.judgement)
    failed = any(reason != "not run" for reason in row.failures)
    return Cell("FAILED", "invalid") if failed else Cell("not run", "muted")


def _exclusion_notes(effects: Sequence[StudyEffect]) -> Iterator[str]:
    """The number of pairs of cases that are excluded from the effects."""
    for effect in effects:
        for count, reason in (
            (effect.imprecise, "throughput is imprecise"),
            (effect.cold, "servers were cold in every run"),
            (effect.unrepeated, "repetitions are too few"),
        ):
            pairs = "one pair of cases" if count == 1 else f"{count} pairs"
            if count:
                yield f"{effect.asked.title}: {pairs} left out, since a side's {reason}."


def _signed(change: Bounded | None) -> str:
    return units.ABSENT if change is None else _percent(change.value)


def _percent(percent: float) -> str:
    digits = units.significant(abs(percent), 2)
    sign = "" if digits == "0" else "+" if percent > 0 else "−"
    return f"{sign}{digits}"


def _interval(change: Bounded | None) -> str:
    if change is None or change.low is None or change.high is None:
        return units.ABSENT
    return _range(change.low, change.high)


def _range(low: float, high: float) -> str:
    return f"{_percent(low)} to {_percent(high)}"


def _runs(row: StudyRow) -> tuple[str, ...]:
    return () if row.figures is None else row.figures.runs


def _times(answer: StudyAnswer) -> list[str]:
    return [name for name in _TIMES if name not in _OPTIONAL_TIMES or name in answer.columns]


def _mean(row: StudyRow, count: int) -> str:
    """A count over all runs of a case as the mean of one, like published figures."""
    if row.figures is None:
        return units.ABSENT
    mean = count / len(row.figures.runs)
    return units.whole(int(mean)) if mean.is_integer() else units.significant(mean)


def times_ns(row: StudyRow, names: Sequence[str]) -> list[int | None]:
    """Response times of a case by name, in nanoseconds; none with too few operations."""
    if row.figures is None:
        return [None] * len(names)
    times = row.figures.response
    mean_ns = None if times.mean_ns is None else round(times.mean_ns)
    others = {"mean": mean_ns, "max": times.max_ns}
    return [others[name] if name in others else times.shown_ns(name) for name in names]


def _is_numeric(rows: Sequence[StudyRow], name: str) -> bool:
    return all(row.levels[name].replace(".", "", 1).isdecimal() for row in rows)


def _section_starts(answer: StudyAnswer) -> frozenset[int]:
    """The rows at which a level other than the last factor's changes, unless sections are short."""
    starts = changes([tuple(map(row.levels.get, answer.factors[:-1])) for row in answer.rows])
    is_long = len(answer.rows) >= _LEAST_SECTION * len(starts)
    return starts if is_long else frozenset([0])


def _study_notes(answer: StudyAnswer) -> Iterator[str]:
    rows = answer.rows
    if answer.repetitions > 1:
        once = any(row.figures and len(row.figures.runs) == 1 for row in rows)
        single = ", of a case with one run over its intervals" if once else ""
        yield (
            "± is half the width of the 95 % confidence interval of the mean over n ="
            f" {answer.repetitions} runs{single}. Counts are those of one run, on average."
        )
        yield CASE_VERDICT
    elif any(row.throughput is not None and row.throughput.error for row in rows):
        yield "± is half the width of the 95 % confidence interval over the intervals of one run."
    else:
        yield "One short run per case: no error can be given."
    yield SUCCESSFUL
    if any(time is None for row in rows for time in times_ns(row, _times(answer))):
        yield f"{units.ABSENT} stands where there is no figure, or too few operations for one."
    if answer.disk_reads and any(row.disk_bytes is not None for row in rows):
        yield (
            "Disk: what all nodes together read from their disks, for an operation; what the page"
            " cache held is not read."
        )
    if any(row.retries for row in rows):
        yield (
            "Retries: attempts beyond an operation's first; a response time begins with the first."
        )
    if answer.published_source and any(row.published for row in rows):
        yield (
            f"Published: {answer.published_source}. "
            "Other machines and another client: for orientation, not a comparison."
        )
    yield from answer.notes


def proxies_grid(factors: Sequence[str], proxies: ProxyCosts) -> Grid:
    """The costs of each proxy, then the published costs."""
    names = [name for name in factors if any(name in cost.levels for cost in proxies.costs)]
    published = set(map(id, proxies.published))

    def is_published(cost: PathCost) -> bool:
        return id(cost) in published

    def level(name: str, cost: PathCost) -> str:
        return cost.levels.get(name, units.ABSENT)

    def lost(cost: PathCost) -> Cell:
        text = units.estimate(cost.throughput_lost).replace("-", "−")
        return Cell(text, "muted" if is_published(cost) else "strong")

    def added(name: str, cost: PathCost) -> str:
        return _added(cost, name, published=is_published(cost))

    def tone(cost: PathCost) -> Tone:
        return "muted" if is_published(cost) else "plain"

    fields: list[Field[PathCost]] = [
        *((key(name), partial(level, name)) for name in names),
        (key("through"), lambda cost: ("published: " if is_published(cost) else "") + cost.through),
        (word("build"), lambda cost: getattr(cost.proxy, "build", "") or units.ABSENT),
        (Column("threads"), lambda cost: units.whole(getattr(cost.proxy, "threads", None))),
        (Column("lost, %", "throughput"), lost),
        *((Column("p99.9" if name == "p999" else name, "response time added, ms"),
           partial(added, name)) for name in QUANTILES),
        (Column("CPU, µs/op", "proxy"), lambda cost: units.estimate(cost.proxy_cpu)),
        (Column("memory, MB", "proxy"), _proxy_memory),
        (Column("blocks"),
         lambda cost: units.ABSENT if is_published(cost) else units.whole(cost.blocks)),
    ]  # fmt: skip
    return build(
        "What the way through each proxy costs",
        (*proxies.costs, *proxies.published),
        fields,
        _proxy_notes(proxies),
        frozenset({0, len(proxies.costs)}),
        tone,
    )


def cost_sentences(proxies: ProxyCosts) -> list[str]:
    """The costs of each proxy in a sentence."""
    return [sentence for cost in proxies.costs if (sentence := _cost_sentence(cost))]


def _proxy_memory(cost: PathCost) -> str:
    memory = cost.proxy_memory_bytes
    return units.significant(None if memory is None else memory / _BYTES_PER_MB)


def _added(cost: PathCost, name: str, *, published: bool = False) -> str:
    """A difference with its sign, which may be negative."""
    added = cost.response_added[name]
    if added is None:
        return units.ABSENT
    # Published figures have tenths.
    text = f"{added.value:.1f}" if published else units.estimate(added)
    return text.replace("-", "−") if added.value <= 0 else f"+{text}"


def _cost_sentence(cost: PathCost) -> str:
    if cost.throughput_lost is None:
        return ""
    levels = ", ".join(f"{name} {label}" for name, label in cost.levels.items())
    path = f"Through {cost.through}" + (f" ({levels})" if levels else "")
    median = ""
    if cost.response_added["p50"] is not None:
        median = f", and the median response time changes by {_added(cost, 'p50')} ms"
    return f"{path} {_loss(cost.throughput_lost)}{median}."


def _loss(lost: Bounded) -> str:
    """The loss in words, unless chance explains it."""
    if lost.low is None or lost.high is None:
        return f"{units.significant(lost.value)} % of the throughput is lost"
    if lost.low <= 0 <= lost.high:
        return "no loss of throughput is seen"
    verb = "lost" if lost.value > 0 else "won"
    ends = sorted((abs(lost.low), abs(lost.high)))
    interval = " to ".join(map(units.significant, ends))
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
            if cost.proxy is not None and name in _PROXY_FIGURES:
                yield f"Through {cost.through}, {_PROXY_FIGURES[name]} is missing: {reason}."
    if proxies.published:
        yield (
            f"Published: {proxies.source}. One run each, on another machine and to a tenth of a"
            " millisecond: for orientation, not a comparison."
        )
