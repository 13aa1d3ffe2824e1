"""Whole answers for a terminal, from 40 columns up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from kvmark.analysis import Level
from kvmark.foreign_text import printable
from kvmark.report.charts.text import TIMELINE_MARGIN, steps_lines, timeline_lines
from kvmark.report.format.grid import to_text, wrap
from kvmark.report.model.answers import Fact, RunAnswer, SequenceAnswer
from kvmark.report.views import doubts, run_parts
from kvmark.report.views.run_parts import run_facts, run_grids
from kvmark.report.views.sequence import sequence_grid

_INDENT = "  "


def sequence_text(answer: SequenceAnswer, width: int) -> Text:
    """The YCSB sequence: the table, the answer, then every reason of its verdicts."""
    lines = [to_text(sequence_grid(answer), width), Text()]
    for sentence in (run_parts.sequence(answer), *answer.said):
        lines += sentence_lines(sentence, width)
    lines += doubt_lines(doubts.of_sequence(answer), width)
    return Text("\n").join(lines)


def run_text(run: RunAnswer, width: int) -> Text:
    """One run: what was asked, whether it can be believed, what each operation did."""
    summary = run.summary
    lines = [Text(printable(f"{run.title} · {summary.id} · {summary.created}"), "bold"), Text()]
    lines += _facts((*run.asked, *run_facts(run)), width)
    lines += [Text(), *sentence_lines(run_parts.run(run), width)]
    lines += doubt_lines(doubts.of_runs([run]), width)
    for grid in run_grids(run):
        lines += [Text(), to_text(grid, width)]
    drawn = charts_text(run, width)
    return Text("\n").join([*lines, *([Text(), drawn] if drawn else [])])


def charts_text(run: RunAnswer, width: int) -> Text:
    """The run's response times and its course; nothing where there is nothing to draw."""
    steps = run.time_steps()
    # What another tool counted isn't known.
    counted = "Operations that ended ok" if run.imported is None else "Operations"
    charts = [steps_lines(steps, width, counted)] if steps is not None else []
    found = run.timelines(width - TIMELINE_MARGIN)
    charts += [timeline_lines(timeline, width) for timeline in found]
    return Text("\n\n").join(Text("\n").join(chart) for chart in charts)


def sentence_lines(sentence: str, width: int) -> list[Text]:
    """A sentence, cut between words."""
    return [Text(line) for line in wrap(printable(sentence), width)]


def _facts(facts: Sequence[Fact], width: int) -> list[Text]:
    column = max((len(fact.label) for fact in facts), default=0) + 2
    lines: list[Text] = []
    for fact in facts:
        first, *others = wrap(printable(fact.text), max(width - column, 20))
        lines.append(Text().append(f"{printable(fact.label):<{column}}", "dim").append(first))
        lines += [Text(" " * column + other) for other in others]
    return lines


def doubt_lines(found: Sequence[doubts.Doubt], width: int) -> list[Text]:
    """Every reason with its advice."""
    return [line for doubt in found for line in _doubt(doubt, width)]


def _doubt(doubt: doubts.Doubt, width: int) -> Iterable[Text]:
    """The level, where it holds and the sentence; then the advice, indented."""
    level = doubt.reason.level
    yield Text()
    sentence = printable(f"{level.value} {doubt.reason.code}{_where(doubt)}: ")
    for number, line in enumerate(wrap(f"{sentence}{printable(doubt.reason.sentence)}", width)):
        text = Text(line, "dim" if level is Level.NOTE else "")
        if number == 0:
            text.stylize("bold", 0, len(level.value))
        yield text
    for line in wrap(f"Advice: {printable(doubt.reason.advice)}.", width - len(_INDENT)):
        yield Text(_INDENT + line, "dim")


def _where(doubt: doubts.Doubt) -> str:
    return f", {doubt.where}" if doubt.held else ""
