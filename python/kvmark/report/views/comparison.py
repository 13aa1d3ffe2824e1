"""Comparisons and histories: tables and sentences, for a terminal and as Markdown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, Literal

from rich.text import Text

from kvmark.analysis.compare.bounds import GateResult
from kvmark.analysis.compare.comparability import differences_text
from kvmark.analysis.compare.comparison import CaseComparison, Compared, Comparison, Effect
from kvmark.analysis.compare.history import History, HistoryPoint, Moved
from kvmark.analysis.compare.selection import ExcludedRun
from kvmark.foreign_text import printable
from kvmark.report.model import tables, units
from kvmark.report.model.tables import Cell, Grid, Table, Value, escape_markdown, sentence_lines
from kvmark.report.model.units import Bounded, listed
from kvmark.report.views.runs_list import minute_cell
from kvmark.report.views.sequence import SUCCESSFUL
from kvmark.spec.metric import THROUGHPUT, Metric

_MOST_DETECTABLE: Final = 10.0
_DETECTABLE: Final = (
    "Could be seen: the smallest change that 8 of 10 such comparisons would report."
)
_CONDITIONS: Final = (
    f"{SUCCESSFUL} Conditions count those without an answer as slower than any bound."
)
_RESULTS: Final = {"worse": "FAILED", "not worse": "passed", "can't tell": "undecided"}
_CHANGES: Final = {
    "rose": "rose",
    "fell": "fell",
    "same": "showed no difference",
    "unknown": "can't be compared",
}
"""The outcomes of throughput in sentences, in their order."""
_SHORT_COMMIT: Final = 12
_MOST_EXCLUDED: Final = 6
_MOST_CHANGES: Final = 3


def comparison_text(
    comparison: Comparison, width: int, remarks: Sequence[str] = (), failures: Sequence[str] = ()
) -> Text:
    """The comparison for a terminal.

    ``remarks`` describe how it was made; ``failures``, which are printed first, failed runs.
    """

    def lines(sentences: Sequence[str], style: str = "") -> list[Text]:
        return [line for one in sentences for line in sentence_lines(one, width, style)]

    conditions = [
        Text(
            printable(condition_sentence(held)),
            "bold red" if held.failed else "yellow" if held.answer == "can't tell" else "green",
        )
        for held in _conditions(comparison)
    ]
    return tables.stacked(
        width,
        lines(failures, "bold red"),
        comparison_grid(comparison),
        [*lines(answers(comparison)), *conditions, *lines(remarks, "dim")],
        lines(_cautions(comparison), "yellow"),
    )


def comparison_markdown(
    comparison: Comparison, remarks: Sequence[str] = (), failures: Sequence[str] = ()
) -> str:
    """The comparison for a pull request; the arguments are those of `comparison_text`."""
    sentences = [*failures, *answers(comparison)]
    blocks = [
        " ".join(f"**{escape_markdown(sentence)}**" for sentence in sentences),
        _bullets([condition_sentence(held) for held in _conditions(comparison)]),
        tables.to_markdown(comparison_grid(comparison)).strip(),
        escape_markdown(" ".join(remarks)),
        _bullets(_cautions(comparison)),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _bullets(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {escape_markdown(sentence)}" for sentence in sentences)


def comparison_grid(comparison: Comparison) -> Grid:
    """One case in full, or one line per case."""
    if len(comparison.cases) == 1:
        return _case_grid(comparison)

    def cell(name: str, part: Callable[[Compared | None], Value], case: CaseComparison) -> Value:
        return part(next((row for row in case.rows if row.metric.name == name), None))

    table = Table("Changes from baseline to candidate", comparison.cases)
    table.key("case", lambda case: case.title)
    measured = {row.metric.time for case in comparison.cases for row in case.rows[1:]}
    time = "service." if measured == {"service"} else ""
    for name in ("throughput", f"{time}p50", f"{time}p99"):
        table.number("change", partial(cell, name, _change), name)
        table.number("interval", partial(cell, name, _change_interval), name)
    return table.grid(_error_notes(comparison))


def _case_grid(comparison: Comparison) -> Grid:
    """Every metric of the only case."""
    (case,) = comparison.cases

    def value(row: Compared, side: Bounded | None) -> str:
        return _metric_text(row.metric, side.value if side else None)

    def detectable(row: Compared) -> str:
        share = row.effect.detectable if row.effect else None
        return units.ABSENT if share is None else _detectable(share)

    table = Table(case.title, case.rows)
    table.key("metric", lambda row: _metric_heading(row.metric))
    table.number("baseline", lambda row: value(row, row.baseline))
    table.number("candidate", lambda row: value(row, row.candidate))
    table.number("change", _change)
    table.number("interval", _change_interval)
    table.number("could be seen", detectable, tone="muted")
    table.word("answer", _answer_cell)
    notes = [f"Baseline: {case.baseline}. Candidate: {case.candidate}."]
    if case.blocks is not None:
        notes.append(f"Compared in pairs: {case.blocks} blocks, each with a run of both sides.")
    notes += [*_error_notes(comparison), _DETECTABLE, _CONDITIONS if case.held else SUCCESSFUL]
    return table.grid(notes)


def _metric_heading(metric: Metric) -> str:
    return metric.name if metric.is_time else f"{metric.name}, {metric.unit}"


def _metric_text(metric: Metric, value: float | None) -> str:
    return units.with_unit(value) if metric.is_time else units.significant(value)


def _error_notes(comparison: Comparison) -> Iterator[str]:
    """The coverage of an interval, and the error level of all answers."""
    yield f"Interval: {_share(comparison.confidence)} confidence of each change alone."
    if comparison.family > 1:
        yield (
            f"Answers: Holm's method for {comparison.family} changes, so that"
            f" {_share(1 - comparison.confidence)} of comparisons without any difference report"
            " one; an interval without 0 can have the answer 'no difference seen'."
        )


def _share(share: float) -> str:
    """An option's share in percent, unrounded."""
    return f"{share * 100:.6g} %"


def _change(row: Compared | None) -> Cell:
    if row is None or row.effect is None:
        return Cell(units.ABSENT)
    tone = _answer_cell(row).tone if row.effect.significant() else "plain"
    return Cell(percent(row.effect.change), tone)


def _change_interval(row: Compared | None) -> str:
    return percent_range(row.effect.ratio if row and row.effect else None, units.ABSENT)


def _outcome(effect: Effect | None) -> Literal["rose", "fell", "same", "unknown"]:
    if effect is None or effect.p_value is None:
        return "unknown"
    if not effect.significant():
        return "same"
    return "rose" if effect.change > 0 else "fell"


def _answer_cell(row: Compared) -> Cell:
    match _outcome(row.effect):
        case "unknown":
            return Cell("unknown", "muted")
        case "same":
            return Cell("no difference seen", "muted")
        case outcome:
            better = (outcome == "rose") == row.metric.more_is_better
            return Cell("better", "valid") if better else Cell("worse", "invalid")


def percent(share: float) -> str:
    """A change with its sign."""
    sign = "+" if share > 0 else "−" if share < 0 else "±"
    return f"{sign}{units.percent(abs(share))}"


def percent_range(ratio: Bounded | None, absent: str = "no interval") -> str:
    """The interval of a ratio as changes."""
    return units.interval(ratio, lambda end: percent(end - 1), absent)


def _detectable(share: float) -> str:
    """The smallest detectable change; figures beyond a factor of eleven have no meaning."""
    return units.percent(share) if share <= _MOST_DETECTABLE else "over 1,000 %"


def answers(comparison: Comparison) -> list[str]:
    """The results in sentences: one case in full, several in numbers."""
    if len(comparison.cases) == 1:
        sentences = [" ".join(_case_sentences(comparison.cases[0]))]
    else:
        cases: dict[str, list[str]] = {}
        for case in comparison.cases:
            effect = next((row.effect for row in case.rows if row.metric == THROUGHPUT), None)
            cases.setdefault(_outcome(effect), []).append(case.title)
        clauses = [
            f"{text} in {listed(cases[key])}" for key, text in _CHANGES.items() if key in cases
        ]
        sentences = [f"Throughput {listed(clauses)}."]
    if comparison.baseline_only:
        sentences.append(f"Only the baseline has {listed(comparison.baseline_only)}.")
    if comparison.candidate_only:
        sentences.append(f"Only the candidate has {listed(comparison.candidate_only)}.")
    return sentences


def _case_sentences(case: CaseComparison) -> Iterator[str]:
    moved, same = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for number, row in enumerate(case.rows):
        # The first metric is the one that decides.
        if number == 0 or row.metric == THROUGHPUT:
            yield _change_sentence(_subject(row.metric), row.effect)
        # Times of all operations together.
        elif row.metric.quantile and row.metric.operation is None and row.effect:
            outcome = _outcome(row.effect)
            if outcome == "same":
                same[row.metric.time].append(row.metric.quantile)
            elif outcome != "unknown":
                moved[row.metric.time].append(f"{row.metric.quantile} {_moved(row.effect)}")
    for time, changes in moved.items():
        yield f"{time.capitalize()} time at {listed(changes)}."
    for time, names in same.items():
        yield f"No difference of {time} time was seen at {listed(names)}."


def _subject(metric: Metric) -> str:
    if not metric.is_time:
        return metric.name
    mean, quantile = ("", f" at {metric.quantile}") if metric.quantile else (metric.measure, "")
    operation = f" of {metric.operation}" if metric.operation else ""
    return f"{mean} {metric.time} time{quantile}{operation}".lstrip()


def _change_sentence(subject: str, effect: Effect | None) -> str:
    if effect is None or effect.p_value is None:
        return (
            f"The difference of {subject} is unknown: the runs are too few or too short for an"
            " error, so repeat them."
        )
    if effect.significant():
        return f"{subject[:1].upper()}{subject[1:]} {_moved(effect)}."
    difference = f"No difference of {subject} was seen ({percent_range(effect.ratio)})"
    if effect.detectable is None:
        return f"{difference}."
    least = _detectable(effect.detectable)
    return f"{difference}; a change of {least} would have been seen in 8 of 10 such comparisons."


def _moved(effect: Effect) -> str:
    verb = "rose" if effect.change > 0 else "fell"
    return f"{verb} by {units.percent(abs(effect.change))} ({percent_range(effect.ratio)})"


def _conditions(comparison: Comparison) -> Iterator[GateResult]:
    return (held for case in comparison.cases for held in case.held)


def condition_sentence(held: GateResult) -> str:
    """The result of a condition."""
    result = f"{held.condition.text}: {_RESULTS[held.answer]}"
    if held.failures is not None:
        reason = (
            f"{held.failures.candidate:.3%} of the candidate's operations have no answer, against"
            f" {held.failures.baseline:.3%} of the baseline's, and count as slower than any bound"
        )
    elif held.effect is None:
        reason = "there are too few operations or runs for it"
    else:
        ratio, bounds = held.effect.ratio, "without an error"
        if ratio.low is not None and ratio.high is not None:
            bounds = f"at least {percent(ratio.low - 1)} and at most {percent(ratio.high - 1)}"
        reason = f"{percent(held.effect.change)}, {bounds}"
    if held.answer != "can't tell":
        return f"{result}, {reason}."
    outcome = "the build fails without --if-unknown pass" if held.failed else "the build passes"
    return f"{result}, {reason}; {outcome}."


def _cautions(comparison: Comparison) -> list[str]:
    """Each caution once; with several cases, the number that it affects."""
    counts: Counter[str] = Counter()
    for case in comparison.cases:
        counts.update(caution.sentence for caution in case.cautions)
        if case.differences:
            allowed = differences_text(case.differences)
            counts[f"Allowed differences between the sides: {allowed}."] += 1
    total = len(comparison.cases)
    return [
        f"{sentence} ({count} of {total} cases)" if total > 1 else sentence
        for sentence, count in counts.items()
    ]


def history_text(
    histories: Sequence[History], width: int, limit: int, excluded: Sequence[ExcludedRun] = ()
) -> Text:
    """Histories for a terminal, with the newest ``limit`` runs of each, and the excluded runs."""
    texts = []
    for history in histories:
        blocks = units.contrast([point.value for point in history.points][-width:])
        answer: list[Text | str] = [Text(blocks, "cyan"), history_sentence(history)]
        texts.append(tables.stacked(width, _history_grid(history, limit), answer))
    lines = [Text("\n\n\n").join(texts) if texts else Text("No runs with this figure yet.")]
    sentences = [f"run {one.run} {one.reason}" for one in excluded[:_MOST_EXCLUDED]]
    if len(excluded) > _MOST_EXCLUDED:
        sentences.append(f"{len(excluded) - _MOST_EXCLUDED} more, which --json lists")
    for sentence in sentences:
        lines += sentence_lines(f"Excluded: {sentence}.", width, "yellow")
    return Text("\n").join(lines)


def history_markdown(history: History, limit: int) -> str:
    """One history as Markdown."""
    blocks = units.contrast([point.value for point in history.points])
    grid = tables.to_markdown(_history_grid(history, limit)).strip()
    return f"{grid}\n\n`{blocks}`\n\n{history_sentence(history)}\n"


def _history_grid(history: History, limit: int) -> Grid:
    """The newest runs, the last one at the bottom; a new level begins a new section."""
    metric = history.metric
    first = max(len(history.points) - limit, 0)
    moves = {move.index: move for move in history.moves}

    def level(row: tuple[HistoryPoint, Moved | None]) -> Cell:
        move = row[1]
        if move is None:
            return Cell("")
        return Cell(f"{percent(move.change)} from here", "valid" if move.better else "invalid")

    rows = [(point, moves.get(index)) for index, point in enumerate(history.points)][first:]
    table = Table(f"{metric.name} of {history.title}", rows)
    table.word("created", lambda row: minute_cell(row[0].created))
    table.key("run", lambda row: row[0].run)
    table.word("commit", lambda row: (row[0].commit or units.ABSENT)[:_SHORT_COMMIT])
    heading = _metric_heading(metric)
    table.number(heading, lambda row: _metric_text(metric, row[0].value), tone="strong")
    table.word("level", level)
    if any(point.tags for point, _ in rows):
        table.word("tags", lambda row: ", ".join(row[0].tags), tone="muted")
    notes = (f"{first} earlier runs are not listed.",) if first else ()
    return table.grid(notes, frozenset(index - first for index in moves if index > first))


def history_sentence(history: History) -> str:
    """The changes of the level, of the engine's counting and of the servers."""
    counting = [
        f"From {history.points[one.index].run} on: {one.sentence}" for one in history.recounted
    ]
    newest = history.environments[-_MOST_CHANGES:]
    earlier = len(history.environments) - len(newest)
    servers = [
        f"From {history.points[one.index].run} on, the servers differ:"
        f" {differences_text(one.differences)}."
        for one in newest
    ]
    if earlier:
        servers.insert(0, f"The servers changed {earlier} times before.")
    return " ".join([_moves_sentence(history), *counting, *servers])


def _moves_sentence(history: History) -> str:
    n, name = len(history.points), history.metric.name
    runs = f"{n} {'run' if n == 1 else 'runs'}"
    if n < history.least_runs:
        return (
            f"Over {runs} no change of the level of {name} can be seen: that takes"
            f" {history.least_runs} of them."
        )
    if history.moves:
        moves = [_move_text(history.points[move.index], move) for move in history.moves]
        remarks = [sentence for move in history.moves for sentence in move.beside]
        return " ".join([f"Over {runs} the level of {name} moved {listed(moves)}.", *remarks])
    detectable = ""
    if history.could_be_seen:
        change = units.percent(history.could_be_seen)
        detectable = f"; one of {change} half-way would have been seen in 8 of 10 such histories"
    return f"No change of the level of {name} was found over {runs}{detectable}."


def _move_text(point: HistoryPoint, move: Moved) -> str:
    commit = f" (commit {point.commit[:_SHORT_COMMIT]})" if point.commit else ""
    return f"by {percent(move.change)} at {point.run}{commit}"
