"""The answers of `run`, `show` and `ycsb` on one screen of 40 lines with 100 columns.

`kvmark show RUN --notes` and `--charts` have the rest of a run, the report that of a sequence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from kvmark.analysis.summary.run import PhaseSummary, Times
from kvmark.analysis.verdict.cases import SequenceRow
from kvmark.analysis.verdict.rules import Level
from kvmark.foreign_text import printable
from kvmark.report.model import units
from kvmark.report.model.answers import RunAnswer, SequenceAnswer
from kvmark.report.model.page import Caveat, Fact
from kvmark.report.model.tables import Grid, Table, Tone, sentence_lines, stacked
from kvmark.report.model.units import counts_text, listed
from kvmark.report.views.run import fact_lines, lead_sentences, run_facts
from kvmark.report.views.runs_list import verdict_cell
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
_TONES: Final[dict[str, Tone]] = {"VALID": "valid", "SUSPECT": "suspect", "INVALID": "invalid"}


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
        reason_lines(run_caveats([run]), width, f"kvmark show {run.summary.id} --notes"),
    )


def times_grid(phase: PhaseSummary) -> Grid:
    """The operations of a phase with their response times; service times where they differ."""
    rows = [row for row in phase.operations if not row.part]
    title = "" if phase.name == "measure" else f"Phase {phase.name}"
    table = Table(title, rows)
    if len({row.group for row in rows}) > 1:
        table.key("group", lambda row: row.group)
    table.key("operation", lambda row: row.operation)
    table.key("ok", lambda row: row.count, number=True)
    if any(row.others for row in rows):
        table.word("otherwise", lambda row: counts_text(row.others) or units.ABSENT)
    table.numbers(_QUANTILES, lambda name, row: time(row.response, name), "response time")
    if any(_is_later(row.response, row.service) for row in rows):
        both = {name: name for name in ("p50", "p99")}
        table.numbers(both, lambda name, row: time(row.service, name), "service time")
    return table.grid()


def time(times: Times, name: str) -> str:
    """A quantile with its unit."""
    return units.with_unit(times.max_ns if name == "max" else times.shown_ns(name))


def _is_later(response: Times, service: Times) -> bool:
    late, served = response.shown_ns("p99"), service.shown_ns("p99")
    return late is not None and served is not None and late > served * _LATER


def reason_lines(caveats: Sequence[Caveat], width: int, more: str) -> list[Text]:
    """The most serious reasons, a line each, and how many others the command `more` prints."""
    shown = [one for one in caveats if one.reason.code not in _USUAL][:_MOST_REASONS]
    lines = [_reason_line(one, width) for one in shown]
    if others := len(caveats) - len(shown):
        lead = "and " if lines else ""
        lines.append(Text(f"{lead}{others} {'note' if others == 1 else 'notes'}: {more}", "dim"))
    return lines


def _reason_line(caveat: Caveat, width: int) -> Text:
    reason, level = caveat.reason, caveat.reason.level
    where = f" ({caveat.scope})" if caveat.scope else ""
    text = printable(f"{level.value} {reason.code}{where}: {reason.sentence}")
    if cell_len(text) > width:
        text = _THRESHOLD.sub(".", text)
    line = Text(text, "dim" if level is Level.NOTE else "")
    line.stylize("bold", 0, len(level.value))
    line.truncate(width, overflow="ellipsis")
    return line


def sequence_screen(answer: SequenceAnswer, width: int) -> Text:
    """A sequence: a row for each case, and a line of verdict for each store."""
    width = min(width, WIDTH)
    return stacked(
        width,
        sequence_grid(answer),
        [*_verdict_lines(answer.rows)],
        reason_lines(sequence_caveats(answer), width, "see the report"),
        [line for remark in answer.remarks for line in sentence_lines(remark, width)],
    )


def sequence_grid(answer: SequenceAnswer) -> Grid:
    """Throughput with its interval and response times, side by side for each store."""
    stores = list(dict.fromkeys(row.case.store for row in answer.rows))
    by_case: dict[tuple[str, int, float | None, str], dict[str, SequenceRow]] = {}
    for row in answer.rows:
        case = row.case
        key = (case.workload, case.records, case.target_rate, case.apart)
        by_case.setdefault(key, {})[case.store] = row
    sizes = {key[1] for key in by_case}
    title = answer.title + (f", {units.whole(*sizes)} records" if len(sizes) == 1 else "")
    table = Table(title, by_case.items())
    table.key("workload", lambda item: item[0][0])
    if len(sizes) > 1:
        table.key("records", lambda item: item[0][1], number=True)
    if any(key[2] is not None for key in by_case):
        table.key("target ops/s", lambda item: units.significant(item[0][2]), number=True)
    if any(key[3] for key in by_case):
        table.key("case", lambda item: item[0][3])
    several = len(stores) > 1
    for store in stores:
        band = store if several else ""

        def throughput(item: _Item, store: str = store) -> str:
            found = item[1].get(store)
            return units.ABSENT if found is None else units.estimate(found.figures.throughput)

        table.number("ops/s", throughput, band, "strong")
        for name in ("p99",) if several else ("p50", "p99"):

            def response(item: _Item, store: str = store, name: str = name) -> str:
                found = item[1].get(store)
                return units.ABSENT if found is None else time(found.figures.response, name)

            table.number(name, response, band)
    if not several:
        table.word("verdict", lambda item: verdict_cell(_only(item).figures.verdict.judgement))
    return table.grid((_note(answer.rows),))


_Item = tuple[tuple[str, int, float | None, str], dict[str, SequenceRow]]


def _only(item: _Item) -> SequenceRow:
    return next(iter(item[1].values()))


def _note(rows: Sequence[SequenceRow]) -> str:
    runs = sorted({len(row.figures.runs) for row in rows})
    times = "Times are response times of successful operations."
    if runs == [1] or all(row.figures.throughput.error is None for row in rows):
        return times
    count = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    return f"± is half the 95 % confidence interval of {count} runs. {times}"


def _verdict_lines(rows: Sequence[SequenceRow]) -> Iterator[Text]:
    """The verdicts of each store's cases."""
    for store, of_store in _by_store(rows):
        counts = Counter(row.figures.verdict.judgement.value for row in of_store)
        line = Text(printable(f"{store}: "))
        if len(counts) == 1:
            (only,) = counts
            cases = f"all {len(of_store)} cases are" if len(of_store) > 1 else "the case is"
            yield line.append(f"{cases} ").append(only, "bold")
        else:
            texts = [f"{counts[name]} {name}" for name in _TONES if counts[name]]
            yield line.append(f"of {len(of_store)} cases {listed(texts)}")


def _by_store(rows: Iterable[SequenceRow]) -> Iterator[tuple[str, list[SequenceRow]]]:
    stores: dict[str, list[SequenceRow]] = {}
    for row in rows:
        stores.setdefault(row.case.store, []).append(row)
    yield from stores.items()
