"""The answers of `run`, `show` and `ycsb` on one screen of 40 lines with 100 columns.

`kvmark show RUN --notes` and `--charts` have the rest of a run, the report that of a sequence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from kvmark.analysis.summary.run import PhaseSummary, Times
from kvmark.analysis.verdict.cases import SequenceRow
from kvmark.analysis.verdict.rules import Level
from kvmark.foreign_text import printable
from kvmark.records import Case, Judgement
from kvmark.report.model import units
from kvmark.report.model.answers import RunAnswer, SequenceAnswer
from kvmark.report.model.page import Caveat, Fact
from kvmark.report.model.tables import Grid, Table, sentence_lines, stacked
from kvmark.report.model.units import listed
from kvmark.report.views.run import (
    fact_lines,
    lead_sentences,
    lost_writes_grids,
    run_facts,
    run_grids,
    run_sentence,
)
from kvmark.report.views.runs_list import TONES, verdict_cell
from kvmark.report.views.sequence import (
    DURABILITY,
    add_times,
    operations_table,
    repetitions,
    store_facts,
    time_ns,
)
from kvmark.report.views.verdicts import run_caveats, sequence_caveats

WIDTH: Final = 100
_MOST_REASONS: Final = 5
_USUAL: Final = frozenset({"unpinned", "too_few_samples"})
"""Notes that hold for nearly every run."""
_LEFT_OUT: Final = frozenset({"Phases", "Runtime", "Records", "Generator lag", "Peak memory"})
"""Facts that the screen has no room for."""
_QUANTILES: Final = {"p50": "p50", "p95": "p95", "p99": "p99", "p999": "p99.9", "max": "max"}
_THRESHOLD: Final = re.compile(r" \([^()]*\)\.$")
"""The bound of a reason, behind its sentence."""
_LATER: Final = 1.1
"""A response time that is this much longer than the service time is shown beside it."""
_MOST_BESIDE: Final = 3
"""Stores whose columns fit side by side."""
_LONG_SCOPE: Final = 30
"""Characters of a scope beyond which the number of cases replaces it in a line that is cut."""

_Item = tuple[Case, Mapping[str, SequenceRow]]
"""A case without its store, and its row of each store."""


def run_screen(run: RunAnswer, width: int) -> Text:
    """One run: objectives, throughput, errors, times and the reasons for its verdict."""
    width = min(width, WIDTH)
    title = Text(printable(run.title), "bold").append(f"  {printable(run.summary.id)}", "dim")
    facts = [fact for fact in (*run.request, *run_facts(run)) if fact.label not in _LEFT_OUT]
    facts = [fact for fact in facts if fact != Fact("Hit ratio", "100.0 %")]
    facts.append(Fact("Verdict", run.verdict.judgement.value))
    return stacked(
        width,
        title,
        [Text("\n").join(sentence_lines(one, width, "bold")) for one in lead_sentences(run)],
        fact_lines(facts, width),
        *(times_grid(phase) for phase in run.summary.phases),
        *lost_writes_grids(run),
        reason_lines(run_caveats([run]), width, f"kvmark show {run.summary.id} --notes"),
    )


def audit_screen(run: RunAnswer, width: int) -> Text:
    """An audit: the headline, the load, the tool's figures beside the tap's, and the reasons."""
    width = min(width, WIDTH)
    return stacked(
        width,
        sentence_lines(run_sentence(run), width, "bold"),
        fact_lines((*run.request, *run_facts(run)), width),
        run_grids(run)[0],
        reason_lines(run_caveats([run]), width, f"kvmark show {run.summary.id} --notes"),
    )


def times_grid(phase: PhaseSummary) -> Grid:
    """The operations of a phase with their response times; service times where they differ."""
    rows = [row for row in phase.operations if row.is_alone]
    table = operations_table("" if phase.name == "measure" else f"Phase {phase.name}", rows)
    add_times(table, "response time", _QUANTILES, lambda row: row.response)
    if any(_is_later(row.response, row.service) for row in rows):
        both = {name: name for name in ("p50", "p99")}
        add_times(table, "service time", both, lambda row: row.service)
    return table.grid()


def _is_later(response: Times, service: Times) -> bool:
    late, served = response.shown_ns("p99"), service.shown_ns("p99")
    return late is not None and served is not None and late > served * _LATER


def reason_lines(caveats: Sequence[Caveat], width: int, more: str) -> list[Text]:
    """The most serious reasons, a line each, and how many others the command `more` prints."""
    shown = [one for one in caveats if not _is_usual(one)][:_MOST_REASONS]
    lines = [_reason_line(one, width) for one in shown]
    others, lead = len(caveats) - len(shown), "and " if lines else ""
    parts = [f"{lead}{others} {'note' if others == 1 else 'notes'}"] if others else []
    if lines and (others or any(line.plain.endswith("…") for line in lines)):
        parts.append("reasons in full")
    if parts:
        lines.append(Text(f"{'; '.join(parts)}: {more}", "dim"))
    return lines


def _is_usual(caveat: Caveat) -> bool:
    return caveat.reason.level is Level.NOTE and caveat.reason.code in _USUAL


def _reason_line(caveat: Caveat, width: int) -> Text:
    reason, level = caveat.reason, caveat.reason.level
    texts = []
    for scope in (caveat.scope, caveat.portion):
        where = f" ({scope})" if scope else ""
        text = printable(f"{level.value} {reason.code}{where}: {reason.sentence}")
        texts += [text, _THRESHOLD.sub(".", text)]
    # Where no line fits, a short scope is worth more than a few words of the sentence.
    shortest = texts[-1] if cell_len(caveat.scope) > _LONG_SCOPE else texts[1]
    text = next((text for text in texts if cell_len(text) <= width), shortest)
    line = Text(text, "dim" if level is Level.NOTE else "")
    line.stylize("bold", 0, len(level.value))
    line.truncate(width, overflow="ellipsis")
    return line


def sequence_screen(answer: SequenceAnswer, width: int, more: str = "see the report") -> Text:
    """A sequence: a row for each case, a line of verdict for each store, and where others are."""
    width = min(width, WIDTH)
    return stacked(
        width,
        sentence_lines(answer.caution, width, "bold") if answer.caution else [],
        *sequence_grids(answer),
        [*_verdict_lines(answer)],
        reason_lines(sequence_caveats(answer), width, more),
        [line for remark in answer.remarks for line in sentence_lines(remark, width)],
    )


def sequence_grids(answer: SequenceAnswer) -> tuple[Grid, ...]:
    """Throughput with its interval and response times, side by side for each store.

    Response times of many stores are in a table of their own.
    """
    by_case: dict[Case, dict[str, SequenceRow]] = {}
    for row in answer.rows:
        by_case.setdefault(replace(row.case, store=""), {})[row.case.store] = row
    items = [*by_case.items()]
    stores = list(dict.fromkeys(row.case.store for row in answer.rows))
    sizes = {case.records for case in by_case}
    records = f", {units.whole(*sizes)} records" if len(sizes) == 1 else ""
    notes = (_note(answer.rows),)
    if len(stores) > _MOST_BESIDE:
        speed = _case_table(f"{answer.title}{records}: ops/s", items)
        times = _case_table("Response time, p99", items)
        for store in stores:
            speed.number(store, partial(_relative, store), "", "strong")
            times.number(store, partial(_response, store, "p99"))
        return (speed.grid(), times.grid(notes))
    table = _case_table(answer.title + records, items)
    several = len(stores) > 1
    for store in stores:
        band = store if several else ""
        table.number("ops/s", partial(_throughput, store), band, "strong")
        quantiles = {name: name for name in (("p99",) if several else ("p50", "p99"))}
        table.numbers(quantiles, partial(_response, store), band)
    if not several:
        table.word("verdict", lambda item: verdict_cell(_judgement(*item[1].values())))
    return (table.grid(notes),)


def _case_table(title: str, items: Sequence[_Item]) -> Table[_Item]:
    """A table with the keys of cases."""
    cases = [case for case, _ in items]
    table = Table(title, items)
    table.key("workload", lambda item: item[0].workload)
    if len({case.records for case in cases}) > 1:
        table.key("records", lambda item: item[0].records, number=True)
    if any(case.target_rate is not None for case in cases):
        table.key("target ops/s", lambda item: units.significant(item[0].target_rate), number=True)
    if any(case.apart for case in cases):
        table.key("case", lambda item: item[0].apart)
    return table


def _throughput(store: str, item: _Item) -> str:
    row = item[1].get(store)
    return units.ABSENT if row is None else units.estimate(row.figures.throughput)


def _relative(store: str, item: _Item) -> str:
    """Throughput with its error in percent, which is shorter."""
    row = item[1].get(store)
    if row is None:
        return units.ABSENT
    found = row.figures.throughput
    value = units.significant(float(f"{found.value:.3g}"))
    if not found.error:
        return value
    percent = 100 * found.error / found.value
    return f"{value} ± {percent:,.{0 if percent >= 10 else 1}f} %"


def _response(store: str, name: str, item: _Item) -> str:
    row = item[1].get(store)
    return units.with_unit(None if row is None else time_ns(row.figures.response, name))


def _judgement(row: SequenceRow) -> Judgement:
    return row.figures.verdict.judgement


def _note(rows: Sequence[SequenceRow]) -> str:
    times = "Times are response times of successful operations."
    counts, has_error = repetitions(rows)
    if counts == "1" or not has_error:
        return times
    return f"± is half the 95 % confidence interval of {counts} runs. {times}"


def _verdict_lines(answer: SequenceAnswer) -> Iterator[Text]:
    """The verdicts of each store's cases, and what else distinguishes the store."""
    for store in dict.fromkeys(row.case.store for row in answer.rows):
        counts = Counter(_judgement(row) for row in answer.rows if row.case.store == store)
        line, total = Text(printable(f"{store}: ")), counts.total()
        if len(counts) == 1:
            (only,) = counts
            verb = "is" if total == 1 else "are"
            line.append(f"{units.every(total, 'cases')} {verb} ").append(only.value, "bold")
        else:
            texts = [f"{counts[each]} {each.value}" for each in TONES if counts[each]]
            line.append(f"of {total} cases {listed(texts)}")
        yield line.append("".join(f"; {fact}" for fact in store_facts(answer, store)), "dim")
    if any(facts.durability for facts in answer.stores.values()):
        yield Text(DURABILITY, "dim")
