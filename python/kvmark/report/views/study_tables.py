"""The tables of a study: every case, the effects, failed cases, and what proxies cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvmark.analysis.models.path_costs import COST_QUANTILES, PathCost, Proxy
from kvmark.analysis.study import StudyEffect, StudyRow
from kvmark.report.format import units
from kvmark.report.format.grid import Cell, Column, Grid, Tone
from kvmark.report.model.answers import StudyAnswer, Ways, case_titles
from kvmark.report.views.runs_list import verdict_cell
from kvmark.report.views.sequence import CASE_VERDICT, SUCCESSFUL

_TIMES = ("mean", "p50", "p95", "p99", "p999", "max")
_ASKED_TIMES = frozenset({"mean", "p999"})
_LENGTHS = ("operations", "seconds")
_PUBLISHED = ("throughput", *_TIMES, *_LENGTHS)
_LEAST_SECTION = 2
_BYTES_PER_KB = 1000
_EFFECTS_NOTE = (
    "Each effect compares cases that differ in nothing else, within the same repetition; "
    "a single repetition has its interval over the cases, or none. An effect differs where the "
    "interval of one case, widened for their number, lies wholly above another's."
)

_BYTES_PER_MB = 1e6
_FIGURES = {
    "proxy_cpu": "the proxy's processor time",
    "proxy_memory_bytes": "the proxy's memory",
}
_NAMES = {"p999": "p99.9"}


def study_grid(answer: StudyAnswer) -> Grid:
    """Every case: levels, throughput, response times, errors, verdict, published figures."""
    rows, times = answer.rows, _times(answer)
    unit = units.time_unit(time for row in rows for time in times_ns(row, times))
    theirs = [name for name in _PUBLISHED if _any_published(rows, name)]
    heads = {"throughput": answer.unit, "operations": "operations", "seconds": "s"}
    beside = [Column(heads.get(name, f"{name} ms"), "published") for name in theirs]
    counts = len({len(_runs(row)) for row in rows}) > 1
    return Grid(
        title=answer.title,
        columns=(
            *(Column(name, number=_is_numeric(rows, name), key=True) for name in answer.factors),
            Column(answer.unit, "measured"),
            *([Column("n", "measured")] if counts else []),
            *(Column(heads[name], "measured") for name in _lengths(answer)),
            *(Column(name, f"response time, {unit.name}") for name in times),
            *([Column("disk, kB/op")] if answer.disk_reads else []),
            *([Column("retries")] if _any_retries(rows) else []),
            Column("errors"),
            Column("verdict", number=False),
            *([Column("table", "published", number=False)] if _any_table(rows) else []),
            *beside,
        ),
        rows=tuple(_row(answer, row, unit, theirs, counts=counts) for row in rows),
        section_starts=_sections(answer),
        notes=tuple(_notes(answer)),
    )


def effects_grid(answer: StudyAnswer) -> Grid:
    """What changes from level to level, beside the published change."""
    published = any(effect.published for effect in answer.effects)
    return Grid(
        title="Effects over all cases",
        columns=(
            Column("effect", number=False, key=True),
            Column("of", number=False),
            Column("change, %", "measured"),
            Column("95 % interval", "measured"),
            Column("cases", "measured"),
            *(
                [Column("change, %", "published"), Column("cases", "published")]
                if published
                else []
            ),
        ),
        rows=tuple(_effect_row(effect, published=published) for effect in answer.effects),
        notes=(_EFFECTS_NOTE, *_left_out(answer.effects)),
    )


def effects_by_case_grid(effect: StudyEffect) -> Grid:
    """One effect, case by case."""
    names = list(effect.by_case[0].levels) if effect.by_case else []
    return Grid(
        title=effect.asked.title,
        columns=(
            *(Column(name, number=False, key=True) for name in names),
            Column("change, %"),
            Column("95 % interval"),
        ),
        rows=tuple(
            (
                *(Cell(one.levels[name]) for name in names),
                Cell(_signed(one.change.value)),
                Cell(_interval(one.change)),
            )
            for one in effect.by_case
        ),
    )


def failures_grid(answer: StudyAnswer) -> Grid | None:
    """Why cases came to no end, each reason once; none when all did."""
    reasons: dict[str, list[str]] = {}
    called = case_titles(answer)
    for row in answer.rows:
        for reason in dict.fromkeys(row.failures):
            reasons.setdefault(reason, []).append(called(row))
    if not reasons:
        return None
    return Grid(
        title="Cases that came to no end",
        columns=(
            Column("cases", key=True),
            Column("first", number=False),
            Column("reason", number=False),
        ),
        rows=tuple(
            (Cell(units.whole(len(names))), Cell(names[0]), Cell(reason))
            for reason, names in reasons.items()
        ),
    )


def effect_text(effect: StudyEffect) -> str:
    """An effect's change, or how far apart the cases are: `+90 to +250 %, case by case`."""
    if effect.extremes is not None:
        return f"{_range(effect.extremes)} %, case by case"
    return units.ABSENT if effect.change is None else change_text(effect.change)


def change_text(change: units.Bounded) -> str:
    """A change in percent with its interval, such as `−51 % (−55 to −47)`."""
    interval = _interval(change)
    return f"{_signed(change.value)} %" + ("" if interval == units.ABSENT else f" ({interval})")


def _row(
    answer: StudyAnswer, row: StudyRow, unit: units.TimeUnit, theirs: Sequence[str], *, counts: bool
) -> tuple[Cell, ...]:
    published = [_published(row, name) for name in theirs]
    return (
        *(Cell(row.levels[name]) for name in answer.factors),
        Cell(units.estimate(row.throughput), "strong"),
        *([Cell(units.whole(len(_runs(row))))] if counts else []),
        *(Cell(_length(row, name)) for name in _lengths(answer)),
        *(Cell(units.duration(time, unit)) for time in times_ns(row, _times(answer))),
        *([_disk(row)] if answer.disk_reads else []),
        *([_retried(row)] if _any_retries(answer.rows) else []),
        Cell(_of_one_run(row, row.errors_total)),
        _verdict(row),
        *([_table(row)] if _any_table(answer.rows) else []),
        *(Cell(units.significant(value), "muted") for value in published),
    )


def _table(row: StudyRow) -> Cell:
    named = None if row.published is None else row.published.table
    return Cell(units.ABSENT if named is None else named, "muted")


def _disk(row: StudyRow) -> Cell:
    return Cell(
        units.significant(None if row.disk_bytes is None else row.disk_bytes / _BYTES_PER_KB)
    )


def _retried(row: StudyRow) -> Cell:
    return Cell(units.ABSENT if row.retries is None else _of_one_run(row, row.retries))


def _verdict(row: StudyRow) -> Cell:
    """The verdict of what was measured; where nothing was, that it failed or wasn't run."""
    if row.figures is not None:
        return verdict_cell(row.figures.verdict.judgement)
    failed = any(reason != "not run" for reason in row.failures)
    return Cell("FAILED", "invalid") if failed else Cell("not run", "muted")


def _left_out(effects: Sequence[StudyEffect]) -> list[str]:
    """How many pairs of cases aren't in the effects."""
    return [
        f"{effect.asked.title}: {pairs} left out, since a side's {why}."
        for effect in effects
        for count, why in (
            (effect.imprecise, "throughput is imprecise"),
            (effect.cold, "servers were cold in every run"),
            (effect.unrepeated, "repetitions are too few"),
        )
        if count
        for pairs in ["one pair of cases" if count == 1 else f"{count} pairs"]
    ]


def _effect_row(effect: StudyEffect, *, published: bool) -> tuple[Cell, ...]:
    change, theirs, apart = effect.change, effect.published, effect.extremes
    value = units.ABSENT if change is None else _signed(change.value)
    interval = units.ABSENT if change is None else _interval(change)
    return (
        Cell(effect.asked.title),
        Cell(effect.asked.of.replace("_", " ")),
        Cell(value if apart is None else "differs", "strong"),
        Cell(interval if apart is None else f"{_range(apart)} by case"),
        Cell(units.whole(len(effect.by_case))),
        *(
            (
                Cell(units.ABSENT if theirs is None else _signed(theirs.value), "muted"),
                Cell(units.whole(effect.published_cases), "muted"),
            )
            if published
            else ()
        ),
    )


def _signed(percent: float) -> str:
    digits = units.significant(abs(percent), 2)
    sign = "" if digits == "0" else "+" if percent > 0 else "−"
    return f"{sign}{digits}"


def _interval(change: units.Bounded) -> str:
    if change.low is None or change.high is None:
        return units.ABSENT
    return _range((change.low, change.high))


def _range(ends: tuple[float, float]) -> str:
    return f"{_signed(ends[0])} to {_signed(ends[1])}"


def _runs(row: StudyRow) -> tuple[str, ...]:
    return () if row.figures is None else row.figures.runs


def _times(answer: StudyAnswer) -> list[str]:
    """The response times that are shown."""
    return [name for name in _TIMES if name not in _ASKED_TIMES or name in answer.columns]


def _lengths(answer: StudyAnswer) -> list[str]:
    return [name for name in _LENGTHS if name in answer.columns]


def _length(row: StudyRow, name: str) -> str:
    """How many operations came to their end, or how long it was measured."""
    if name == "operations":
        return _of_one_run(row, row.completed)
    return units.significant(None if row.figures is None else row.figures.runtime_ms.value / 1000)


def _of_one_run(row: StudyRow, count: int) -> str:
    """A count of all runs of a case as the mean of one, as published figures are of one run."""
    if row.figures is None:
        return units.ABSENT
    mean = count / len(row.figures.runs)
    return units.whole(int(mean)) if mean.is_integer() else units.significant(mean)


def times_ns(row: StudyRow, names: Sequence[str]) -> list[int | None]:
    """Response times of a case by their names, in nanoseconds; none where too few stand behind."""
    if row.figures is None:
        return [None] * len(names)
    times = row.figures.response
    mean_ns = None if times.mean_ns is None else round(times.mean_ns)
    whole = {"mean": mean_ns, "max": times.max_ns}
    return [whole[name] if name in whole else times.shown_ns(name) for name in names]


def _field(name: str) -> str:
    return f"{name}_ms" if name in _TIMES else name


def _published(row: StudyRow, name: str) -> float | None:
    """What was published of a case; none where others publish no such figure."""
    return getattr(row.published, _field(name), None)


def _any_table(rows: Iterable[StudyRow]) -> bool:
    """Whether a published table is known by its name."""
    return any(row.published is not None and row.published.table for row in rows)


def _any_published(rows: Iterable[StudyRow], name: str) -> bool:
    return any(_published(row, name) is not None for row in rows)


def _any_retries(rows: Iterable[StudyRow]) -> bool:
    return any(row.retries for row in rows)


def _is_numeric(rows: Sequence[StudyRow], name: str) -> bool:
    return all(row.levels[name].replace(".", "", 1).isdecimal() for row in rows)


def _sections(answer: StudyAnswer) -> frozenset[int]:
    """Where another level than the last factor's changes, if more than single rows are left."""
    keys = [tuple(row.levels[name] for name in answer.factors[:-1]) for row in answer.rows]
    starts = [i for i, key in enumerate(keys) if i == 0 or key != keys[i - 1]]
    return frozenset(starts if len(keys) >= _LEAST_SECTION * len(starts) else [0])


def _notes(answer: StudyAnswer) -> Iterable[str]:
    if answer.repetitions > 1:
        n = answer.repetitions
        once = any(row.figures and len(row.figures.runs) == 1 for row in answer.rows)
        alone = ", of a case with one run over its intervals" if once else ""
        yield (
            "± is half the width of the 95 % confidence interval of the mean over n ="
            f" {n} runs{alone}. Counts are those of one run, on average."
        )
        yield CASE_VERDICT
    elif any(row.throughput is not None and row.throughput.error for row in answer.rows):
        yield "± is half the width of the 95 % confidence interval over the intervals of one run."
    else:
        yield "One short run per case: no error can be given."
    yield SUCCESSFUL
    times = _times(answer)
    if any(time is None for row in answer.rows for time in times_ns(row, times)):
        yield f"{units.ABSENT} stands where there is no figure, or too few operations for one."
    if answer.disk_reads and any(row.disk_bytes is not None for row in answer.rows):
        yield (
            "Disk: what all nodes together read from their disks, for an operation; what the page"
            " cache held is not read."
        )
    if _any_retries(answer.rows):
        yield (
            "Retries: attempts beyond an operation's first; a response time begins with the first."
        )
    if answer.published_source and any(row.published for row in answer.rows):
        yield (
            f"Published: {answer.published_source}. "
            "Other machines and another client: for orientation, not a comparison."
        )
    yield from answer.notes


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
            *(_proxy_row(cost, others) for cost in ways.costs),
            *(_proxy_row(cost, others, "muted") for cost in ways.published),
        ),
        section_starts=frozenset({0, len(ways.costs)}),
        notes=tuple(_proxy_notes(ways)),
    )


def cost_sentences(ways: Ways) -> list[str]:
    """The cost of each way in a sentence."""
    return [told for cost in ways.costs if (told := _sentence(cost))]


def _proxy_row(cost: PathCost, others: Iterable[str], tone: Tone = "plain") -> tuple[Cell, ...]:
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


def _proxy_notes(ways: Ways) -> Iterable[str]:
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
