"""A comparison drawn: its table and its answer in sentences, as Markdown or for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from kvmark.analysis.compare.comparability import Difference
from kvmark.analysis.compare.comparison import CaseComparison, Comparison, Effect
from kvmark.analysis.compare.metrics import Compared
from kvmark.analysis.compare.thresholds import Failures, Held
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
from kvmark.report.views.plan_words import listed
from kvmark.report.views.sequence import SUCCESSFUL
from kvmark.spec.metric import THROUGHPUT, Metric

_MOST_TOLD = 6
_MOST_DETECTABLE = 10.0
_SINGLE = "Interval: {confidence} confidence of each change alone."
_TOGETHER = (
    "Answers: Holm's method for {family} changes, so that {level} of comparisons without any"
    " difference report one; an interval without 0 can have the answer 'no difference seen'."
)
_DETECTABLE = "Could be seen: the smallest change that 8 of 10 such comparisons would report."
_CONDITIONS = f"{SUCCESSFUL} Conditions count those without an answer as slower than any bound."
_PAIRS = "Compared in pairs: {blocks} blocks, each with a run of both sides."
_WORDS = {
    "worse": "broken, it is",
    "not worse": "not broken, it is",
    "can't tell": "can't be told, it is",
}
_FAILURES = {"worse": "broken", "not worse": "not broken", "can't tell": "can't be told"}
_SHOWN_IN_SHORT = ("throughput", "p50", "p99")


def comparison_text(
    comparison: Comparison, width: int, said: Sequence[str] = (), first: Sequence[str] = ()
) -> Text:
    """The whole answer for a terminal; ``said`` are sentences on how it was made.

    ``first`` stands before everything: runs that failed.
    """
    lines = [Text(line, "bold red") for one in first for line in wrap(printed(one), width)]
    lines += [Text()] if lines else []
    for grid in grids(comparison):
        lines += [to_text(grid, width), Text()]
    for sentence in answers(comparison):
        lines += [Text(line) for line in wrap(printed(sentence), width)]
    for held in _all_held(comparison):
        style = "bold red" if held.failed else "yellow" if held.answer == "can't tell" else "green"
        lines.append(Text(printed(held_sentence(held)), style))
    for sentence in said:
        lines += [Text(line, "dim") for line in wrap(printed(sentence), width)]
    told = _cautions(comparison)
    lines += [Text()] if told else []
    for sentence in told:
        lines += [Text(line, "yellow") for line in wrap(printed(sentence), width)]
    return Text("\n").join(lines)


def comparison_markdown(
    comparison: Comparison, said: Sequence[str] = (), first: Sequence[str] = ()
) -> str:
    """The whole answer for a pull request: the answer first, then what it stands on.

    ``first`` stands before the answer: runs that failed.
    """
    told = [*first, *answers(comparison)]
    blocks = [" ".join(f"**{escape_markdown(one)}**" for one in told)]
    held = [f"- {escape_markdown(held_sentence(one))}" for one in _all_held(comparison)]
    blocks += ["\n".join(held)] if held else []
    blocks += [to_markdown(grid).strip() for grid in grids(comparison)]
    blocks += [escape_markdown(" ".join(said))] if said else []
    told = [f"- {escape_markdown(sentence)}" for sentence in _cautions(comparison)]
    blocks += ["\n".join(told)] if told else []
    return "\n\n".join(blocks) + "\n"


def _error_notes(comparison: Comparison) -> tuple[str, ...]:
    """What an interval covers, and what an answer does."""
    confidence, level = comparison.confidence, 1 - comparison.confidence
    together = _TOGETHER.format(family=comparison.family, level=_share(level))
    single = _SINGLE.format(confidence=_share(confidence))
    return (single, together) if comparison.family > 1 else (single,)


def _share(share: float) -> str:
    """A share that was given, in percent: as it was written."""
    return f"{share * 100:.6g} %"


def _case_grid(comparison: Comparison) -> Grid:
    """Every metric of the one case."""
    (case,) = comparison.cases
    times = [row.baseline.value for row in case.rows if row.baseline and row.metric.is_time]
    unit = units.time_unit(times)
    return Grid(
        title=case.title,
        columns=(
            Column("metric", number=False, key=True),
            Column("baseline"),
            Column("candidate"),
            Column("change"),
            Column("interval"),
            Column("could be seen"),
            Column("answer", number=False),
        ),
        rows=tuple(_row(row, unit) for row in case.rows),
        notes=(
            f"Baseline: {case.baseline}. Candidate: {case.candidate}.",
            *([] if case.blocks is None else [_PAIRS.format(blocks=case.blocks)]),
            *_error_notes(comparison),
            _DETECTABLE,
            *([_CONDITIONS] if case.held else [SUCCESSFUL]),
        ),
    )


def answers(comparison: Comparison) -> list[str]:
    """The answer in plain sentences: of one case in full, of several in numbers."""
    if len(comparison.cases) == 1:
        sentences = [" ".join(_case_answer(comparison.cases[0]))]
    else:
        moved = _moves(comparison)
        told = [f"{what} in {listed(cases)}" for what, cases in moved.items() if cases]
        sentences = [f"Throughput {listed(told)}."]
    for side, names in (
        ("baseline", comparison.baseline_only), ("candidate", comparison.candidate_only)
    ):  # fmt: skip
        if names:
            sentences.append(f"Only the {side} has {listed(names)}.")
    return sentences


def held_sentence(held: Held) -> str:
    """How a condition came out."""
    text = held.condition.text
    if held.failures is not None:
        said = f"{text}: {_FAILURES[held.answer]}, {_unanswered(held.failures)}"
    elif held.effect is None:
        said = f"{text}: can't be told, there are too few operations or runs for it"
    else:
        said = f"{text}: {_WORDS[held.answer]} {percent(held.effect.change)}, {_surely(held)}"
    if held.answer != "can't tell":
        return f"{said}."
    what = "a build ends there unless --if-unknown pass" if held.failed else "let pass"
    return f"{said}; {what}."


def _unanswered(failures: Failures) -> str:
    """How many operations count as slower than any bound."""
    return (
        f"{failures.candidate:.3%} of the candidate's operations have no answer, against"
        f" {failures.baseline:.3%} of the baseline's, and count as slower than any bound"
    )


def _surely(held: Held) -> str:
    """The bounds of a change, each of which holds with the confidence asked for."""
    ratio = held.effect.ratio if held.effect else None
    if ratio is None or ratio.low is None or ratio.high is None:
        return "without an error"
    return f"at least {percent(ratio.low - 1)} and at most {percent(ratio.high - 1)}"


def percent(share: float) -> str:
    """A change with its sign."""
    sign = "+" if share > 0 else "−" if share < 0 else "±"
    return f"{sign}{units.significant(abs(share) * 100)} %"


def percent_range(ratio: units.HasEnds) -> str:
    """The interval of a ratio as changes."""
    if ratio.low is None or ratio.high is None:
        return "no interval"
    return f"{percent(ratio.low - 1)} to {percent(ratio.high - 1)}"


def ratio_cells(row: Compared | None) -> tuple[Cell, Cell]:
    """A change and its interval."""
    if row is None or row.effect is None:
        return Cell(units.ABSENT), Cell(units.ABSENT)
    effect = row.effect
    interval = units.ABSENT if effect.ratio.low is None else percent_range(effect.ratio)
    return Cell(percent(effect.change), _tone(row)), Cell(interval)


def grids(comparison: Comparison) -> Iterator[Grid]:
    """One case as a whole, or a line for each of several."""
    if len(comparison.cases) == 1:
        yield _case_grid(comparison)
        return
    bands = [
        Column(heading, name) for name in _SHOWN_IN_SHORT for heading in ("change", "interval")
    ]
    yield Grid(
        title="Changes from baseline to candidate",
        columns=(Column("case", number=False, key=True), *bands),
        rows=tuple(_short_row(case) for case in comparison.cases),
        notes=_error_notes(comparison),
    )


def _short_row(case: CaseComparison) -> tuple[Cell, ...]:
    rows = {row.metric.name: row for row in case.rows}
    cells = [cell for name in _SHOWN_IN_SHORT for cell in ratio_cells(rows.get(name))]
    return (Cell(case.title), *cells)


def _row(row: Compared, unit: units.TimeUnit) -> tuple[Cell, ...]:
    timed = row.metric.is_time
    name = f"{row.metric.name}, {unit.name}" if timed else f"{row.metric.name}, ops/s"
    sides = []
    for side in (row.baseline, row.candidate):
        if side is None:
            sides.append(Cell(units.ABSENT))
        else:
            value = units.duration(side.value, unit) if timed else units.significant(side.value)
            sides.append(Cell(value))
    change, interval = ratio_cells(row)
    seen = row.effect.detectable if row.effect else None
    could = units.ABSENT if seen is None else _detectable(seen)
    return (Cell(name), *sides, change, interval, Cell(could, "muted"), _answer_cell(row))


def _answer_cell(row: Compared) -> Cell:
    if row.effect is None or row.effect.p_value is None:
        return Cell("can't be said", "muted")
    if not row.effect.significant():
        return Cell("no difference seen", "muted")
    better = (row.effect.change > 0) == row.metric.more_is_better
    return Cell("better" if better else "worse", "valid" if better else "invalid")


def _tone(row: Compared) -> Tone:
    return _answer_cell(row).tone if row.effect and row.effect.significant() else "plain"


def _case_answer(case: CaseComparison) -> Iterator[str]:
    throughput = next((row for row in case.rows if row.metric == THROUGHPUT), None)
    if throughput is not None:
        yield _throughput_sentence(throughput)
    times = [row for row in case.rows if _is_of_all(row.metric)]
    moved = {
        row.metric.name: row.effect for row in times if row.effect and row.effect.significant()
    }
    still = [
        row.metric.name for row in times
        if row.effect and row.effect.p_value is not None and row.metric.name not in moved
    ]  # fmt: skip
    if moved:
        told = [f"{name} {_moved(effect)}" for name, effect in moved.items()]
        yield f"Response time at {listed(told)}."
    if still:
        yield f"No difference of response time was seen at {listed(still)}."


def _is_of_all(metric: Metric) -> bool:
    """Whether it is a quantile of the response time of all operations."""
    return metric == Metric("quantile", metric.quantile)


def _throughput_sentence(row: Compared) -> str:
    effect = row.effect
    if effect is None or effect.p_value is None:
        return (
            "Whether throughput differs can't be said: the runs are too few or too short for an"
            " error, so repeat them."
        )
    if effect.significant():
        return f"Throughput {_moved(effect)}."
    found = f"No difference of throughput was seen ({percent_range(effect.ratio)})"
    if effect.detectable is None:
        return f"{found}."
    seen = _detectable(effect.detectable)
    return f"{found}; a change of {seen} would have been seen in 8 of 10 such comparisons."


def _detectable(share: float) -> str:
    """The smallest change that would be seen; figures beyond a factor of eleven mean nothing."""
    return f"{units.significant(share * 100)} %" if share <= _MOST_DETECTABLE else "over 1,000 %"


def _moved(effect: Effect) -> str:
    word = "rose" if effect.change > 0 else "fell"
    amount = units.significant(abs(effect.change) * 100)
    return f"{word} by {amount} % ({percent_range(effect.ratio)})"


def _moves(comparison: Comparison) -> dict[str, list[str]]:
    """Names of the cases by what their throughput did."""
    moves: dict[str, list[str]] = {
        "rose": [], "fell": [], "showed no difference": [], "can't be compared": [],
    }  # fmt: skip
    for case in comparison.cases:
        row = next((row for row in case.rows if row.metric == THROUGHPUT), None)
        effect = row.effect if row else None
        if effect is None or effect.p_value is None:
            moves["can't be compared"].append(case.title)
        elif not effect.significant():
            moves["showed no difference"].append(case.title)
        else:
            moves["rose" if effect.change > 0 else "fell"].append(case.title)
    return moves


def _allowed(case: CaseComparison) -> str:
    return f"The sides differ in what was allowed to: {differences(case.differences)}."


def differences(found: Sequence[Difference]) -> str:
    """The places that differ, with both values."""
    told = [f"{one.place} {one.baseline} against {one.candidate}" for one in found]
    more = len(told) - _MOST_TOLD
    return "; ".join(told[:_MOST_TOLD]) + (f"; and {more} more" if more > 0 else "")


def _all_held(comparison: Comparison) -> Iterable[Held]:
    return (held for case in comparison.cases for held in case.held)


def _cautions(comparison: Comparison) -> list[str]:
    """Each caution once, with how many cases it holds for where there are several."""
    found: dict[str, int] = {}
    for case in comparison.cases:
        for caution in case.cautions:
            found[caution.sentence] = found.get(caution.sentence, 0) + 1
        if case.differences:
            told = _allowed(case)
            found[told] = found.get(told, 0) + 1
    several = len(comparison.cases) > 1
    return [
        f"{sentence} ({count} of {len(comparison.cases)} cases)" if several else sentence
        for sentence, count in found.items()
    ]
