"""Marked blocks of a Markdown file: found, made from the newest runs that may be used, and filled.

    <!-- kvmark: table tag=nightly workload=a,b -->
    … is written by kvmark …
    <!-- /kvmark -->

What is around a block isn't touched. Marks inside a fenced code block are text like any other.
"""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Final

from kvmark.analysis import Verdict, known_verdict
from kvmark.analysis.compare.comparison import compare
from kvmark.analysis.compare.history import histories
from kvmark.analysis.compare.metrics import check_known
from kvmark.analysis.compare.selection import (
    newest,
    runs_of,
    select,
    usable,
)
from kvmark.analysis.models.path_costs import path_costs, published_costs
from kvmark.analysis.peers import Peers
from kvmark.analysis.study import CaseRuns
from kvmark.errors import KvmarkError, SpecError
from kvmark.records import Records, Run
from kvmark.report.format.grid import Grid, escape_markdown, to_markdown
from kvmark.report.format.markdown import page_parts
from kvmark.report.model.answers import Ways
from kvmark.report.model.page import Page
from kvmark.report.views import run_parts
from kvmark.report.views.comparison import comparison_markdown
from kvmark.report.views.gather import origin_sentence, run_answer, sequence_answer
from kvmark.report.views.history import history_markdown
from kvmark.report.views.peers import peers_parts
from kvmark.report.views.sequence import operations_grid, sequence_grid
from kvmark.report.views.study_tables import cost_sentences, costs_grid
from kvmark.spec.metric import parse_comparable

_OPENS: Final = re.compile(r"<!--\s+kvmark:\s+(.*?)\s*-->\s*")
_CLOSES: Final = re.compile(r"<!--\s+/kvmark\s+-->\s*")
_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)")
_CHOOSE: Final = frozenset({"from", "tag", "study", "workload", "system", "records"})
_WAY: Final = "through"


@dataclass(frozen=True, slots=True)
class MarkedBlock:
    """A block: what is asked for, and where its content stands."""

    #: The line of its opening mark, from 1.
    line: int
    kind: str
    options: Mapping[str, str]
    #: Offsets of the content in the text: from behind the opening mark's line to the closing mark.
    start: int
    end: int


def blocks(text: str) -> tuple[MarkedBlock, ...]:
    """The marked blocks of a text, in order.

    Raises:
        SpecError: a mark has no partner or can't be read; with its line.
    """
    found: list[MarkedBlock] = []
    opened: tuple[int, str, Mapping[str, str], int] | None = None
    fence, offset = "", 0
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        marks = _FENCE.match(line)
        if marks and opened is None and not fence:
            fence = marks[1]
        elif marks and fence and line.strip() == marks[1] and marks[1].startswith(fence):
            fence = ""
        elif not fence:
            begins, ends = _OPENS.fullmatch(line), _CLOSES.fullmatch(line)
            if begins and opened is not None:
                raise SpecError(
                    f"the block of line {opened[0]} has no <!-- /kvmark --> before the next one",
                    line=number,
                )
            if begins:
                opened = (number, *_asked(begins[1], number), offset + len(line))
            elif ends and opened is None:
                raise SpecError("this <!-- /kvmark --> closes no block", line=number)
            elif ends and opened is not None:
                at, kind, options, start = opened
                found.append(MarkedBlock(at, kind, options, start, offset))
                opened = None
        offset += len(line)
    if opened is not None:
        raise SpecError("this block has no <!-- /kvmark -->", line=opened[0])
    return tuple(found)


def filled(text: str, found: Sequence[MarkedBlock], contents: Sequence[str]) -> str:
    """The text with other contents in its blocks, their lines ending as the text's do."""
    newline = "\r\n" if "\r\n" in text else "\n"
    for block, content in reversed(list(zip(found, contents, strict=True))):
        written = newline.join(["", *content.strip("\n").split("\n"), "", ""])
        text = text[: block.start] + written + text[block.end :]
    return text


def _asked(words: str, line: int) -> tuple[str, Mapping[str, str]]:
    try:
        kind, *others = shlex.split(words)
    except ValueError as problem:
        raise SpecError(f"this mark can't be read: {problem}", line=line) from None
    options: dict[str, str] = {}
    for word in others:
        name, equals, value = word.partition("=")
        if not equals or name in options:
            raise SpecError(f"'{word}' is no option: write name=value, each name once", line=line)
        options[name] = value
    return kind, options


@dataclass(frozen=True, slots=True)
class BlockContent:
    """The Markdown of a block and its pictures."""

    text: str
    #: SVG by file name, relative to the document.
    pictures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BlockSource:
    """Where a block's content comes from."""

    records: Records
    #: The whole report of the records: of the study or the sequence among them, or of the runs.
    report: Callable[[Mapping[str, str]], Page]
    #: The folder for pictures, as seen from the document.
    pictures: str
    #: The output of an imitated tool for a run.
    printed_by_tool: Callable[[Run], str]
    peers: Peers | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A block's options and where its runs are."""

    origin: BlockSource
    options: Mapping[str, str]

    @property
    def records(self) -> Records:
        """All runs that there are."""
        return self.origin.records

    def judged(self, run: Run) -> Verdict:
        """The verdict on a run of them."""
        return known_verdict(self.records, run)

    def runs(self, *, newest_only: bool = True) -> list[Run]:
        """The runs that the options choose.

        Raises:
            SpecError: there is none.
        """
        tags = [tag for tag in self.options.get("tag", "").split(",") if tag]
        if "study" in self.options:
            tags.append(f"study:{self.options['study']}")
        workloads = self.options.get("workload", "").split(",")
        system = self.options.get("system", "")
        entries = {
            entry.id
            for workload in workloads
            for entry in select(self.records, tags, workload.strip(), system)
        }
        found = usable(self.records, (self.records.open(run) for run in sorted(entries)))
        sizes = {int(size) for size in self.options.get("records", "").split(",") if size}
        if sizes:
            found = [run for run in found if _size(run) in sizes]
        if not found:
            asked = " ".join(f"{name}={value}" for name, value in self.options.items())
            raise SpecError(
                f"no valid run has {asked or 'been made'}: measure it, or mend the mark"
            )
        return newest(found) if newest_only else found


def content(block: MarkedBlock, origin: BlockSource) -> BlockContent:
    """The Markdown of a block, with its pictures.

    Raises:
        SpecError: the block asks for what isn't there; with its line.
    """
    if block.kind not in _KINDS:
        raise SpecError(
            f"'{block.kind}' is no block: take one of {', '.join(_KINDS)}", line=block.line
        )
    make, known = _KINDS[block.kind]
    for name in block.options:
        if name not in known:
            raise SpecError(
                f"'{name}' is no option of {block.kind}: take one of {', '.join(sorted(known))}",
                line=block.line,
            )
    try:
        return make(_Asked(origin, block.options))
    except SpecError as problem:
        raise problem.at(file=None, line=block.line) from None
    except (KvmarkError, ValueError) as problem:
        raise SpecError(str(problem), line=block.line) from problem


def _table(asked: _Asked) -> BlockContent:
    runs = asked.runs()
    answer = sequence_answer(runs, asked.judged)
    told = escape_markdown(run_parts.sequence(answer))
    grid = _chosen(sequence_grid(answer), asked.options.get("columns", ""))
    return _from(runs, to_markdown(grid), told)


def _answer(asked: _Asked) -> BlockContent:
    runs = asked.runs()
    return _from(runs, escape_markdown(run_parts.sequence(sequence_answer(runs, asked.judged))))


def _operations(asked: _Asked) -> BlockContent:
    run = asked.runs()[-1]
    answer = run_answer(run, asked.judged(run))
    tables = [to_markdown(operations_grid(phase)) for phase in answer.summary.phases]
    return _from([run], escape_markdown(run_parts.run(answer)), *tables)


def _compare(asked: _Asked) -> BlockContent:
    sides: list[list[Run]] = []
    chosen = asked.options.get("runs", "newest")
    if chosen not in ("newest", "all"):
        raise SpecError(f"runs: take newest or all, not '{chosen}'")
    for name in ("base", "candidate"):
        if name not in asked.options:
            raise SpecError("compare needs base=… and candidate=…, such as base=tag:before")
        runs = usable(asked.records, runs_of(asked.records, [asked.options[name]]))
        sides.append(runs if chosen == "all" else newest(runs))
    allow = [word for word in asked.options.get("allow", "").split(",") if word]
    told = comparison_markdown(compare(*sides, allow=allow))
    return _from([run for side in sides for run in side], told)


def _proxies(asked: _Asked) -> BlockContent:
    """What each way through a proxy costs, of runs that say by a tag which way they took."""
    names = [name for name in asked.options.get("ways", "").split(",") if name]
    if "direct" not in asked.options or not names:
        raise SpecError("proxies needs direct=TAG and ways=TAG,TAG")
    tags = [asked.options["direct"], *names]
    runs = {tag: runs_of(asked.records, [f"tag:{tag}"]) for tag in tags}
    numbers = ", ".join(f"{tag} {len(made)}" for tag, made in runs.items())
    if len({len(made) for made in runs.values()}) > 1:
        raise SpecError(f"proxies needs as many runs of each way, one a round, not {numbers}")
    cases = [_rounds(asked, tag, made) for tag, made in runs.items()]
    published = asked.options.get("published", "")
    theirs = published_costs(_published_ways(published)) if published else ()
    ways = Ways(path_costs(cases, _WAY, tags[0]), theirs, published)
    told = escape_markdown(" ".join(cost_sentences(ways)))
    return _from([run for found in runs.values() for run in found],
                 to_markdown(costs_grid((_WAY,), ways)), told)  # fmt: skip


def _rounds(asked: _Asked, way: str, made: Sequence[Run]) -> CaseRuns:
    """A way's runs by round; one that is INVALID leaves its place empty."""
    stand = {run.id for run in usable(asked.records, made)}
    rounds = dict(enumerate(made))
    return CaseRuns({_WAY: way}, rounds, frozenset(n for n in rounds if rounds[n].id in stand))


def _published_ways(name: str) -> list[dict[str, str]]:
    """The rows of a file that comes with kvmark, the straight way first."""
    try:
        text = resources.files("kvmark").joinpath("published", name).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise SpecError(f"published: kvmark has no file {name}") from None
    return sorted(csv.DictReader(text.splitlines()), key=lambda row: bool(row["proxy"]))


def _history(asked: _Asked) -> BlockContent:
    runs = asked.runs(newest_only=False)
    metric = parse_comparable(asked.options.get("metric", "throughput"))
    check_known([metric], runs)
    limit = int(asked.options.get("limit", "20"))
    told = [history_markdown(one, limit).strip() for one in histories(runs, metric)]
    return BlockContent("\n\n".join(told))


def _provenance(asked: _Asked) -> BlockContent:
    return _from(asked.runs())


def _stress(asked: _Asked) -> BlockContent:
    """The newest run as cassandra-stress would have printed it."""
    run = asked.runs(newest_only=False)[-1]
    return _from([run], f"```text\n{asked.origin.printed_by_tool(run)}\n```")


def _report(asked: _Asked) -> BlockContent:
    """The report's parts by their names, or single figures by theirs; all of it without a view."""
    page = asked.origin.report(asked.options)
    folder = asked.options.get("pictures", asked.origin.pictures)
    parts = page_parts(page, folder)
    drawn = {figure.name: figure for part in page.parts for figure in part.figures}
    figures = {
        name: f"![{escape_markdown(figure.title)}]({folder}/{name}.svg)\n\n"
        + escape_markdown(figure.caption)
        for name, figure in drawn.items()
    }
    views = [view for view in asked.options.get("view", "").split(",") if view] or list(parts)
    known = {**figures, **parts}
    for view in views:
        if view not in known:
            raise SpecError(f"the report has no '{view}': take some of {', '.join(known)}")
    text = "\n\n".join(known[view] for view in views)
    shown = {name: one for name, one in drawn.items() if f"]({folder}/{name}.svg)" in text}
    pictures = {f"{folder}/{name}.svg": one.svg() for name, one in shown.items()}
    return BlockContent(text, pictures)


def _peers(asked: _Asked) -> BlockContent:
    """A comparison with peers, as `bench/` keeps it."""
    if asked.origin.peers is None:
        raise SpecError("peers needs from=FILE.json, a comparison that was kept")
    parts = peers_parts(asked.origin.peers)
    views = [view for view in asked.options.get("view", "").split(",") if view] or list(parts)
    for view in views:
        if view not in parts:
            raise SpecError(f"a comparison has no '{view}': take some of {', '.join(parts)}")
    return BlockContent("\n\n".join(parts[view] for view in views))


_KINDS: Final[Mapping[str, tuple[Callable[[_Asked], BlockContent], frozenset[str]]]] = {
    "table": (_table, _CHOOSE | {"columns"}),
    "answer": (_answer, _CHOOSE),
    "operations": (_operations, _CHOOSE),
    "compare": (_compare, frozenset({"from", "base", "candidate", "allow", "runs"})),
    "history": (_history, _CHOOSE | {"metric", "limit"}),
    "provenance": (_provenance, _CHOOSE),
    "stress": (_stress, _CHOOSE),
    "proxies": (_proxies, frozenset({"from", "direct", "ways", "published"})),
    "peers": (_peers, frozenset({"from", "view"})),
    "report": (_report, frozenset({"from", "study", "only", "view", "pictures"})),
}
"""Each kind of block, what makes it, and the options it knows."""


def _from(runs: Sequence[Run], *parts: str) -> BlockContent:
    """Parts with a sentence below them on where they come from."""
    return BlockContent("\n\n".join([*(part.strip() for part in parts), origin_sentence(runs)]))


def _chosen(grid: Grid, headings: str) -> Grid:
    """The first column of each of these headings; all columns where none is named."""
    if not headings:
        return grid
    known = [column.heading for column in grid.columns]
    for heading in headings.split(","):
        if heading not in known:
            raise SpecError(f"there is no column '{heading}': take some of {', '.join(known)}")
    places = [known.index(heading) for heading in headings.split(",")]
    rows = tuple(tuple(row[place] for place in places) for row in grid.rows)
    return replace(grid, columns=tuple(grid.columns[place] for place in places), rows=rows)


def _size(run: Run) -> int:
    sequence = run.manifest.spec.get("sequence", {})
    return int(sequence.get("records") or run.manifest.plan.get("dataset", {}).get("count", 0))
