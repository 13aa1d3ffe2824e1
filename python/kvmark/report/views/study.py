"""A study for a terminal, and as a page: its tables, sentences and figures."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import polars as pl
from rich.text import Text

from kvmark.analysis.study import StudyEffect, StudyResults, StudyRow
from kvmark.analysis.verdict.cases import extremes
from kvmark.analysis.verdict.judge import Verdict
from kvmark.records import Case
from kvmark.records.store import Judgement
from kvmark.report.model import units
from kvmark.report.model.page import Caveat, Fact, Figure, Page, Provenance, Section
from kvmark.report.model.tables import Cell, Grid, Table, changes, stacked
from kvmark.report.model.units import Bounded
from kvmark.report.views import charts
from kvmark.report.views.charts import PUBLISHED
from kvmark.report.views.figures import BOUNDED_SCHEMA, frame
from kvmark.report.views.proxies import cost_sentences, proxies_grid, with_doubt
from kvmark.report.views.runs_list import verdict_cell
from kvmark.report.views.sequence import (
    CASE_VERDICT,
    ERROR,
    NO_ERROR,
    SUCCESSFUL,
    ComparedCase,
    compared_section,
    ends_sentence,
    placed_sentence,
    published_cell,
    published_note,
    time_ns,
)
from kvmark.report.views.verdicts import caveat_texts, caveats, counts_sentence, verdict_counts
from kvmark.spec.study import FigureSpec

_TIMES: Final = ("mean", "p50", "p95", "p99", "p999", "max")
_OPTIONAL_TIMES: Final = frozenset({"mean", "p999"})
_PUBLISHED: Final = ("throughput", "p50", "p95", "p99", "max", "operations", "seconds")
_LEAST_SECTION: Final = 2
_MOST_PAIRS: Final = 50
"""Most cases with published figures in one figure."""
_BYTES_PER_KB: Final = 1000
_EFFECTS_NOTE: Final = (
    "Each effect compares cases that differ in nothing else, within the same repetition; "
    "a single repetition has its interval over the cases, or none. An effect differs where the "
    "interval of one case, widened for their number, lies wholly above another's."
)
_NS_PER_MS: Final = 1e6
_ONE_PUBLISHED: Final = PUBLISHED.lstrip(", ")
_TITLES: Final = {"mean": "Mean response time", "max": "Largest response time"}
_Place = tuple[float | str | None, str]
"""The level on the horizontal axis and the panel."""


def study_text(results: StudyResults, width: int) -> Text:
    """The study for a terminal: question, tables, answer, then every verdict reason."""
    return stacked(
        width,
        " ".join(results.spec.question.split()),
        *_case_grids(results),
        *_effect_grids(results),
        _study_sentence(results),
        *caveat_texts(_study_caveats(results), width),
    )


def study_page(results: StudyResults, provenance: Provenance, sections: Iterable[Section]) -> Page:
    """The study as a page; `sections` are tables of front ends."""
    parts = [
        *_compared(results),
        Section("every-case", "Every case", grids=_case_grids(results)),
        Section("effects", "Effects", grids=_effect_grids(results)),
        Section("figures", "Figures", figures=tuple(_study_figures(results))),
        *sections,
    ]
    counts = sorted({_runs(row) for row in results.rows if row.figures}) or [results.repetitions]
    levels = [
        Fact(name, ", ".join(dict.fromkeys(row.levels[name] for row in results.rows)))
        for name in results.factors
    ]
    return Page(
        title=f"Study {results.spec.name}",
        question=" ".join(results.spec.question.split()),
        facts=(
            *levels,
            Fact("Cases", units.whole(len(results.rows))),
            Fact(
                "Repetitions", " to ".join(dict.fromkeys(map(units.whole, (counts[0], counts[-1]))))
            ),
        ),
        answer=_headline(results),
        counts=verdict_counts(row.figures.verdict for row in results.rows if row.figures),
        caveats=_study_caveats(results),
        parts=tuple(part for part in parts if part.grids or part.figures),
        sources=(provenance,),
    )


def _compared(results: StudyResults) -> tuple[Section, ...]:
    """The cases that were published."""
    compared = []
    for row in results.rows:
        published = row.published.throughput if row.published else None
        if published and row.figures is not None and row.throughput is not None:
            levels = {name: row.levels[name] for name in results.factors}
            ratio = row.throughput.put(partial(operator.mul, 1 / published), "")
            errors = _mean(row, sum(row.errors.values()))
            p95 = _published_value(row, "p95")
            compared.append(
                ComparedCase(levels, published, row.throughput, ratio, row.figures, p95, errors)
            )
    return compared_section(compared, results.unit, results.published_source)


def case_titles(results: StudyResults) -> Callable[[StudyRow], str]:
    """The title of a case within its study: the levels in which cases differ."""
    levels = {name: {row.levels[name] for row in results.rows} for name in results.factors}
    varied = [name for name, labels in levels.items() if len(labels) > 1] or results.factors
    return lambda row: Case.of_levels({name: row.levels[name] for name in varied}).title


def _case_grids(results: StudyResults) -> tuple[Grid, ...]:
    grids = [study_grid(results)]
    if results.proxies is not None and results.proxies.costs:
        grids.append(proxies_grid(results.factors, results.proxies))
    if any(row.failures for row in results.rows):
        grids.append(failures_grid(results))
    return tuple(grids)


def _effect_grids(results: StudyResults) -> tuple[Grid, ...]:
    present = any(effect.by_case or effect.imprecise or effect.cold for effect in results.effects)
    return (effects_grid(results),) if present else ()


def _study_caveats(results: StudyResults) -> tuple[Caveat, ...]:
    title = case_titles(results)
    rows = ((title(row), row.figures, row.levels) for row in results.rows)
    return caveats([(name, one.verdict, levels) for name, one, levels in rows if one], "cases")


def _headline(results: StudyResults) -> str:
    """The cost of a proxy, an effect, or the fastest and the slowest case; then what is missing."""
    effects = results.effects
    chosen = [one for one in effects if _is_certain(results, one)] or [
        one for one in effects if one.change is not None or one.published is not None
    ]
    costs = [] if results.proxies is None else [*cost_sentences(results.proxies, brief=True)]
    if costs:
        first = with_doubt(costs[0], "cases", [_verdict(row).judgement for row in results.rows])
    elif chosen:
        first = _effect_sentence(results, chosen[0])
    else:
        first = _ends(results, placed_sentence) or _counts(results)
    return " ".join(filter(None, [first, *_gaps(results)]))


def _study_sentence(results: StudyResults) -> str:
    """The fastest and the slowest case, the effects, and the number of cases by verdict."""
    sentences = [] if results.proxies is None else [*cost_sentences(results.proxies)]
    sentences += [_ends(results, ends_sentence), *_effect_sentences(results), _counts(results)]
    return " ".join(filter(None, [*sentences, *_gaps(results)]))


def _ends(results: StudyResults, sentence: Callable[..., str]) -> str:
    """The fastest and the slowest case."""

    def speed(row: StudyRow) -> str:
        return f"{units.estimate(row.throughput)} {results.unit}{published_note(row)}"

    # A case with a failed run is neither the first nor the last.
    placed = [row for row in results.rows if row.figures is not None and not row.failures]
    ends = extremes(placed, lambda row: row.throughput, _verdict)
    return sentence(ends, case_titles(results), speed)


def _counts(results: StudyResults) -> str:
    """The number of cases by verdict; empty without a measured case."""
    counts = verdict_counts(row.figures.verdict for row in results.rows if row.figures)
    return counts_sentence(counts, "case") if any(counts.values()) else ""


def _gaps(results: StudyResults) -> Iterator[str]:
    """What wasn't measured."""
    if without := sum(row.figures is None for row in results.rows):
        cases = "One case" if without == 1 else f"{units.whole(without)} cases"
        yield f"{cases} measured nothing."
    if results.missing:
        yield f"{results.missing} runs are still to be made: continue with --resume."


def _verdict(row: StudyRow) -> Verdict:
    return row.figures.verdict if row.figures else Verdict.of(())


def _effect_sentences(results: StudyResults) -> Iterator[str]:
    """The significant effects between VALID cases, and the number of others."""
    certain = [effect for effect in results.effects if _is_certain(results, effect)]
    for effect in certain:
        yield _effect_sentence(results, effect)
    if any(effect.published for effect in certain):
        yield from _source_note(results)
    if others := len(results.effects) - len(certain):
        count = "One effect is" if others == 1 else f"{units.whole(others)} effects are"
        yield f"{count} within chance, or of cases that aren't all VALID."


def _is_certain(results: StudyResults, effect: StudyEffect) -> bool:
    """Whether an effect is significant, and all of its cases are VALID."""
    return _is_significant(effect) and _judgements(results, effect) == {Judgement.VALID}


def _judgements(results: StudyResults, effect: StudyEffect) -> set[Judgement]:
    """The judgements on the cases of an effect."""
    known = {frozenset(row.levels.items()): _verdict(row).judgement for row in results.rows}
    sides = (effect.asked.before, effect.asked.after)
    return {
        known[frozenset({**pair.levels, **side}.items())]
        for pair in effect.by_case
        for side in sides
    }


def _effect_sentence(results: StudyResults, effect: StudyEffect) -> str:
    """An effect next to the published one; a doubt if its cases aren't all VALID."""
    published = f", published {change_text(effect.published)}" if effect.published else ""
    measure = f"{effect.asked.title}: {effect.asked.of.replace('_', ' ')}"
    if not effect.by_case:
        return f"{measure} isn't known, as no pair of cases is precise and repeated{published}."
    sentence = f"{measure} {effect_text(effect)}{published}."
    return with_doubt(sentence, "cases", _judgements(results, effect))


def _source_note(results: StudyResults) -> tuple[str, ...]:
    """The name of the report whose effects are shown; empty without one."""
    known = any(effect.published for effect in results.effects)
    return (f"Published: {results.published_source}.",) if known else ()


def _is_significant(effect: StudyEffect) -> bool:
    """Whether the interval excludes 0, or the cases contradict each other."""
    change = effect.change
    if effect.extremes is not None:
        return True
    if change is None or change.low is None or change.high is None:
        return False
    return change.low > 0 or change.high < 0


def _study_figures(results: StudyResults) -> Iterator[Figure]:
    """Published and measured throughput, and figures across a factor as the study defines them."""
    yield from _pair_figure(results)
    layout = results.spec.figure
    if layout is None or layout.across not in results.factors:
        return
    names = {"throughput": ("throughput", "Throughput", results.unit)}
    for time in layout.times:
        name = "response" if time == "p99" else f"response-{time}"
        heading = "p99.9" if time == "p999" else time
        title = _TITLES.get(time, f"Response time at {heading}")
        names[time] = (name, title, f"response time {heading}")
    for quantity, (name, title, axis) in names.items():
        data = _frame(results, layout, quantity)
        if data.is_empty():
            continue
        bars = " Bars are 95 % confidence intervals." if data["low"].is_not_null().any() else ""
        has_published = data["series"].str.ends_with(_ONE_PUBLISHED).any()
        source = f" Series named published: {results.published_source}." if has_published else ""
        caption = f"{axis[:1].upper()}{axis[1:]}, logarithmic.{bars}{source}"
        kind: charts.Quantity = "number" if quantity == "throughput" else "time"
        spec = charts.level_chart(data, axis, layout.across, quantity=kind)
        yield Figure(name, f"{title} across {layout.across}", caption, data, spec)


def _pair_figure(results: StudyResults) -> Iterator[Figure]:
    """The published and the measured throughput of each case, unless they are many."""
    rows: list[tuple[object, ...]] = []
    for row in results.rows:
        if row.throughput is None or row.published is None or not row.published.throughput:
            continue
        case, one = level_words(row.levels), row.throughput
        rows.append((case, "measured", one.value, one.low, one.high, _runs(row)))
        rows.append((case, _ONE_PUBLISHED, row.published.throughput, None, None, None))
    if not 0 < len(rows) <= _MOST_PAIRS * 2:
        return
    data = frame(rows, {"case": str, **BOUNDED_SCHEMA})
    caption = (
        f"{results.unit.capitalize()}, logarithmic. Bars are 95 % confidence intervals. Published:"
        f" {results.published_source}."
    )
    spec = charts.pair_chart(data, results.unit)
    yield Figure("pairs", "Published and measured throughput", caption, data, spec)


def level_words(levels: Mapping[str, str]) -> str:
    """Levels as words: `CassandraKeyValue, 192 writers, 16 readers`."""
    return ", ".join(
        f"{label} {name.replace('_', ' ')}" if label.isdecimal() else label
        for name, label in levels.items()
        if label != "none"
    )


def _frame(results: StudyResults, layout: FigureSpec, quantity: str) -> pl.DataFrame:
    numeric = all(_number(row.levels[layout.across]) is not None for row in results.rows)
    schema = {layout.across: float if numeric else str, "panel": str, **BOUNDED_SCHEMA}
    rows: list[tuple[object, ...]] = []
    published: list[tuple[_Place, str, float]] = []
    for row in results.rows:
        level = row.levels[layout.across]
        place = (_number(level) if numeric else level, _varied_levels(row, layout.panels, results))
        series = _varied_levels(row, layout.series, results) or "measured"
        if row.figures is not None and (measured := _values(row, quantity)) and measured[0]:
            rows.append((*place, series, *measured, len(row.figures.runs)))
        if published_value := _published_value(row, quantity):
            published.append((place, series, published_value))
    at: dict[_Place, set[float]] = {}
    for place, _, value in published:
        at.setdefault(place, set()).add(value)
    several = len({series for _, series, _ in published}) > 1
    if several and all(len(values) == 1 for values in at.values()):
        # All series have the same published values: they are one.
        rows += [
            (*place, _ONE_PUBLISHED, *values, None, None, None) for place, values in at.items()
        ]
    else:
        rows += [(*at, f"{of}{PUBLISHED}", value, None, None, None) for at, of, value in published]
    return frame(rows, schema)


def _values(row: StudyRow, quantity: str) -> tuple[float | None, ...]:
    """Throughput, or a response time in nanoseconds, and the ends of its interval."""
    if quantity not in ("throughput", "p99"):
        return _time_ns(row, quantity), None, None
    estimate = row.response_p99 if quantity == "p99" else row.throughput
    return (None,) * 3 if estimate is None else (estimate.value, estimate.low, estimate.high)


def _published_value(row: StudyRow, quantity: str) -> float | None:
    """A published throughput, or a published time in nanoseconds."""
    if quantity not in _TIMES:
        return getattr(row.published, quantity, None)
    time_ms = getattr(row.published, f"{quantity}_ms", None)
    return None if time_ms is None else time_ms * _NS_PER_MS


def _published_text(quantity: str, row: StudyRow) -> str:
    value = _published_value(row, quantity)
    return units.with_unit(value) if quantity in _TIMES else units.significant(value)


def _varied_levels(row: StudyRow, factors: Sequence[str], results: StudyResults) -> str:
    """The levels of these factors that differ between cases."""
    texts = []
    for name in factors:
        if name in results.factors and len({each.levels[name] for each in results.rows}) > 1:
            level = row.levels[name]
            is_clear = _number(level) is None and level not in ("yes", "no")
            texts.append(level if is_clear else f"{name.replace('_', ' ')} {level}")
    return ", ".join(texts)


def _number(label: str) -> float | None:
    """A positive number: a logarithmic axis has no place for others."""
    try:
        number = float(label)
    except ValueError:
        return None
    return number if number > 0 else None


def study_grid(results: StudyResults) -> Grid:
    """Every case: levels, throughput, response times, errors, verdict, published figures."""
    rows, times = results.rows, _times(results)
    table = Table(f"Study {results.spec.name}", rows)
    for name in results.factors:
        is_numeric = all(row.levels[name].replace(".", "", 1).isdecimal() for row in rows)
        table.key(name, partial(_level, name), number=is_numeric)
    table.number(results.unit, lambda row: row.throughput, "measured", "strong")
    if len({_runs(row) for row in rows}) > 1:
        table.number("n", _runs, "measured")
    if "operations" in results.spec.columns:
        table.number("operations", lambda row: _mean(row, row.completed), "measured")
    if "seconds" in results.spec.columns:
        table.number("s", _seconds, "measured")
    table.numbers(
        {name: name for name in times},
        lambda name, row: units.with_unit(_time_ns(row, name)),
        "response time",
    )
    if results.spec.disk_reads:
        table.number("disk, kB/op", lambda row: row.disk_bytes and row.disk_bytes / _BYTES_PER_KB)
    if any(row.retries for row in rows):
        table.number("retries", lambda row: _mean(row, row.retries))
    table.number("errors", lambda row: _mean(row, sum(row.errors.values())))
    table.word("verdict", _verdict_cell)
    if any(row.published is not None and row.published.table for row in rows):
        table.word("table", partial(published_cell, "table"), "published", "muted")
    for name in _PUBLISHED:
        if any(_published_value(row, name) is not None for row in rows):
            heading = {"throughput": results.unit, "seconds": "s"}.get(name, name)
            table.number(heading, partial(_published_text, name), "published", "muted")
    return table.grid(_study_notes(results), _section_starts(results))


def _level(name: str, row: StudyRow) -> str:
    return row.levels[name]


def effects_grid(results: StudyResults) -> Grid:
    """The change from level to level, next to the published change."""

    def change(effect: StudyEffect) -> str:
        return "differs" if effect.extremes is not None else _signed(effect.change)

    def interval(effect: StudyEffect) -> str:
        if effect.extremes is not None:
            return f"{' to '.join(map(_percent, effect.extremes))} by case"
        return units.interval(effect.change, _percent)

    def verdict(effect: StudyEffect) -> Cell:
        if not effect.by_case:
            return Cell(units.ABSENT)
        valid = _judgements(results, effect) == {Judgement.VALID}
        return verdict_cell(Judgement.VALID if valid else Judgement.SUSPECT)

    table = Table("Effects over all cases", results.effects)
    table.key("effect", lambda effect: effect.asked.title)
    table.word("of", lambda effect: effect.asked.of.replace("_", " "))
    table.number("change, %", change, "measured", "strong")
    table.number("95 % interval", interval, "measured")
    table.number("cases", lambda effect: len(effect.by_case), "measured")
    table.word("verdict", verdict)
    if _source_note(results):
        table.number("change, %", lambda effect: _signed(effect.published), "published", "muted")
        table.number("cases", lambda effect: effect.published_cases, "published", "muted")
    return table.grid((_EFFECTS_NOTE, *_exclusion_notes(results.effects), *_source_note(results)))


def failures_grid(results: StudyResults) -> Grid:
    """The reasons why cases failed."""
    reasons: dict[str, list[str]] = {}
    title = case_titles(results)
    for row in results.rows:
        for reason in dict.fromkeys(row.failures):
            reasons.setdefault(reason, []).append(title(row))
    table = Table("Cases that came to no end", reasons.items())
    table.key("cases", lambda item: len(item[1]), number=True)
    table.word("first", lambda item: item[1][0])
    table.word("reason", lambda item: item[0])
    return table.grid()


def effect_text(effect: StudyEffect) -> str:
    """An effect's change, or the range over its cases: `+90 to +250 %, case by case`."""
    if effect.extremes is not None:
        return f"{' to '.join(map(_percent, effect.extremes))} %, case by case"
    return units.ABSENT if effect.change is None else change_text(effect.change)


def change_text(change: Bounded) -> str:
    """A change in percent with its interval, such as `−51 % (−55 to −47)`."""
    interval = units.interval(change, _percent, "")
    return f"{_signed(change)} %" + (f" ({interval})" if interval else "")


def _seconds(row: StudyRow) -> float | None:
    return None if row.figures is None else row.figures.runtime_ms.value / 1000


def _verdict_cell(row: StudyRow) -> Cell:
    """The verdict; of a case without a measurement, its state."""
    if row.figures is not None:
        return verdict_cell(row.figures.verdict.judgement)
    failed = any(reason != "not run" for reason in row.failures)
    return Cell("FAILED", "invalid") if failed else Cell("not run", "muted")


def _exclusion_notes(effects: Sequence[StudyEffect]) -> Iterator[str]:
    """The effects from which pairs of cases are excluded, with the number of pairs, by reason."""
    for name, reason in (
        ("imprecise", "throughput is imprecise"),
        ("cold", "servers were cold in every run"),
        ("unrepeated", "repetitions are too few"),
    ):
        counts = {effect.asked.title: getattr(effect, name) for effect in effects}
        titles = [f"{title} ({count})" for title, count in counts.items() if count]
        if titles:
            yield f"Pairs of cases left out, since a side's {reason}: {'; '.join(titles)}."


def _signed(change: Bounded | None) -> str:
    return units.ABSENT if change is None else _percent(change.value)


def _percent(percent: float) -> str:
    digits = units.significant(abs(percent), 2)
    sign = "" if digits == "0" else "+" if percent > 0 else "−"
    return f"{sign}{digits}"


def _runs(row: StudyRow) -> int:
    return 0 if row.figures is None else len(row.figures.runs)


def _times(results: StudyResults) -> list[str]:
    return [name for name in _TIMES if name not in _OPTIONAL_TIMES or name in results.spec.columns]


def _mean(row: StudyRow, count: int | None) -> float | None:
    """A count over all runs of a case as the mean of one, like published figures."""
    if row.figures is None or count is None:
        return None
    mean = count / len(row.figures.runs)
    return int(mean) if mean.is_integer() else mean


def _time_ns(row: StudyRow, name: str) -> int | None:
    """A response time of a case in nanoseconds; none with too few operations."""
    if row.figures is None:
        return None
    ns = time_ns(row.figures.response, name)
    return None if ns is None else round(ns)


def _section_starts(results: StudyResults) -> frozenset[int]:
    """The rows at which a level other than the last factor's changes, unless sections are short."""
    starts = changes([tuple(map(row.levels.get, results.factors[:-1])) for row in results.rows])
    is_long = len(results.rows) >= _LEAST_SECTION * len(starts)
    return starts if is_long else frozenset([0])


def _study_notes(results: StudyResults) -> Iterator[str]:
    rows = results.rows
    if results.repetitions > 1:
        once = any(_runs(row) == 1 for row in rows)
        single = ", of a case with one run over its intervals" if once else ""
        mean = f"{ERROR} of the mean over n = {results.repetitions} runs{single}."
        yield f"{mean} Counts are those of one run, on average."
        yield CASE_VERDICT
    elif any(row.throughput is not None and row.throughput.error for row in rows):
        yield f"{ERROR} over the intervals of one run."
    else:
        yield NO_ERROR
    yield SUCCESSFUL
    if any(_time_ns(row, name) is None for row in rows for name in _times(results)):
        yield f"{units.ABSENT} stands where there is no figure, or too few operations for one."
    if results.spec.disk_reads and any(row.disk_bytes is not None for row in rows):
        yield (
            "Disk: what all nodes together read from their disks, for an operation; what the page"
            " cache held is not read."
        )
    if any(row.retries for row in rows):
        yield (
            "Retries: attempts beyond an operation's first; a response time begins with the first."
        )
    if results.published_source and any(row.published for row in rows):
        yield (
            f"Published: {results.published_source}. "
            "Other machines and another client: for orientation, not a comparison."
        )
    yield from results.notes
