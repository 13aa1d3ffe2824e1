"""Marked blocks of a Markdown file, filled from the newest usable runs or from peer comparisons.

    <!-- kvmark: table tag=nightly workload=a,b -->
    … is written by kvmark …
    <!-- /kvmark -->

Text outside blocks stays as it is. Marks inside a fenced code block are text.
"""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Final

from kvmark.analysis.compare.comparison import compare
from kvmark.analysis.compare.history import histories
from kvmark.analysis.compare.selection import newest, runs_of, select_lines, usable
from kvmark.analysis.path_costs import path_costs, published_costs
from kvmark.analysis.peers import PeerRatio, Peers
from kvmark.analysis.study import CaseRuns, ProxyCosts
from kvmark.analysis.summary.metrics import check_known
from kvmark.analysis.verdict.judge import Verdict, known_verdict
from kvmark.errors import KvmarkError, SpecError
from kvmark.records import Records, Run
from kvmark.report.format import facts_markdown, figure_blocks, page_parts, short_facts
from kvmark.report.model import units
from kvmark.report.model.page import Fact, Figure, Page
from kvmark.report.model.tables import (
    Grid,
    Table,
    escape_markdown,
    select_columns,
    to_markdown,
    without_constants,
)
from kvmark.report.model.units import listed
from kvmark.report.views import gather
from kvmark.report.views.comparison import comparison_markdown, history_markdown
from kvmark.report.views.figures import peers_figure
from kvmark.report.views.proxies import (
    cost_sentences,
    proxies_figure,
    proxies_grid,
    with_doubt,
)
from kvmark.report.views.screen import WIDTH, run_screen, sequence_screen
from kvmark.report.views.sequence import sequence_grid, sequence_sentence
from kvmark.spec.metric import parse_comparable

_OPENS: Final = re.compile(r"<!--\s+kvmark:\s+(.*?)\s*-->\s*")
_CLOSES: Final = re.compile(r"<!--\s+/kvmark\s+-->\s*")
_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)")
_RUN_OPTIONS: Final = frozenset({"from", "tag", "study", "workload", "system", "records"})
_FACTOR: Final = "through"
_PEERS_FIGURE: Final = "client CPU per operation"
"""The figure in a chart of peers, if none is named."""
_MOST_WORDS: Final = 30
"""Most words of a headline, unless its first and last sentence have more."""
_INTERVAL: Final = "total,"
"""The begin of cassandra-stress's line of an interval."""
_OF_A_PAGE: Final = (
    r"\A# (.+?)$", r"^Published: (.+?)\n\n", r"^\*\*(.+?)\*\*$", r"^- Verdicts: (.+?)$"
)  # fmt: skip
"""Patterns of a page's title, published result, headline and verdicts."""
_RATIO_NOTE: Final = (
    "A ratio to a peer is the geometric mean over the pairs within a block, a figure by itself the"
    " mean over blocks. A bound is met when the whole interval is within it, NOT met when the whole"
    " is beyond, else open."
)


@dataclass(frozen=True, slots=True)
class MarkedBlock:
    """A block's options and the place of its content."""

    #: The line of its opening mark, from 1.
    line: int
    kind: str
    options: Mapping[str, str]
    #: Offsets of the content in the text: from the line below the opening mark to the closing mark.
    start: int
    end: int


def blocks(text: str) -> tuple[MarkedBlock, ...]:
    """The marked blocks of a text, in order.

    Raises:
        SpecError: a mark has no partner or a syntax error; with its line.
    """
    closed: list[MarkedBlock] = []
    opened: MarkedBlock | None = None
    fence, offset = "", 0
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        marks = _FENCE.match(line)
        if marks and opened is None and not fence:
            fence = marks[1]
        elif marks and fence and line.strip() == marks[1] and marks[1].startswith(fence):
            fence = ""
        elif not fence and (begins := _OPENS.fullmatch(line)):
            if opened is not None:
                raise SpecError(
                    f"the block of line {opened.line} has no <!-- /kvmark --> before the next one",
                    line=number,
                )
            kind, options = _parsed_mark(begins[1], number)
            opened = MarkedBlock(number, kind, options, offset + len(line), -1)
        elif not fence and _CLOSES.fullmatch(line):
            if opened is None:
                raise SpecError("this <!-- /kvmark --> closes no block", line=number)
            closed.append(replace(opened, end=offset))
            opened = None
        offset += len(line)
    if opened is not None:
        raise SpecError("this block has no <!-- /kvmark -->", line=opened.line)
    return tuple(closed)


def filled(text: str, marked: Sequence[MarkedBlock], contents: Sequence[str]) -> str:
    """The text with these contents in its blocks; line endings are those of the text."""
    newline = "\r\n" if "\r\n" in text else "\n"
    for block, content in reversed(list(zip(marked, contents, strict=True))):
        lines = newline.join(["", *content.strip("\n").split("\n"), "", ""])
        text = text[: block.start] + lines + text[block.end :]
    return text


def _parsed_mark(mark: str, line: int) -> tuple[str, Mapping[str, str]]:
    """The kind and the options of a mark."""
    try:
        kind, *others = shlex.split(mark)
    except ValueError as problem:
        raise SpecError(f"this mark can't be read: {problem}", line=line) from None
    options: dict[str, str] = {}
    for option in others:
        name, equals, value = option.partition("=")
        if not equals or name in options:
            raise SpecError(f"'{option}' is no option: write name=value, each name once", line=line)
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
    """The source of a block's content."""

    records: Records
    #: The report of the records: of their study, of their sequence, or of their runs.
    report: Callable[[Mapping[str, str]], Page]
    #: The document's folder.
    folder: Path
    #: The path from there to the folder of pictures.
    pictures: str
    #: The output of an imitated tool for a run.
    printed_by_tool: Callable[[Run], str]
    peers: Peers | None = None


@dataclass(frozen=True, slots=True)
class _Request:
    """A block's options and the source of its runs."""

    source: BlockSource
    options: Mapping[str, str]

    def names(self, option: str, separator: str = ",") -> list[str]:
        """The names in an option."""
        return [name for name in self.options.get(option, "").split(separator) if name]

    def verdict(self, run: Run) -> Verdict:
        return known_verdict(self.source.records, run)

    def runs(self, *, newest_only: bool = True, invalid: bool = False) -> list[Run]:
        """The runs that the options choose, INVALID ones only if ``invalid``.

        Raises:
            SpecError: there is none.
        """
        tags = self.names("tag")
        if "study" in self.options:
            tags.append(f"study:{self.options['study']}")
        workloads = self.options.get("workload", "").split(",")
        system = self.options.get("system", "")
        entries = {
            line.entry.id
            for workload in workloads
            for line in select_lines(self.source.records, tags, workload.strip(), system)
        }
        chosen = map(self.source.records.open, sorted(entries))
        runs = list(chosen) if invalid else usable(self.source.records, chosen)
        if sizes := {int(size) for size in self.names("records")}:
            runs = [run for run in runs if _size(run) in sizes]
        if not runs:
            options = " ".join(f"{name}={value}" for name, value in self.options.items())
            raise SpecError(
                f"no valid run has {options or 'been made'}: measure it, or correct the mark"
            )
        return newest(runs) if newest_only else runs

    def parts(self, parts: Mapping[str, str], others: Mapping[str, str], subject: str) -> str:
        """The parts, or those that the option `view` names.

        Raises:
            SpecError: there is no part of this name.
        """
        known = {**others, **parts}
        views = self.names("view") or list(parts)
        for view in views:
            if view not in known:
                raise SpecError(f"{subject} has no '{view}': take some of {', '.join(known)}")
        return "\n\n".join(filter(None, (known[view] for view in views)))


def content(block: MarkedBlock, source: BlockSource) -> BlockContent:
    """The Markdown of a block, with its pictures.

    Raises:
        SpecError: an option is unknown, or chooses nothing; with its line.
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
        return make(_Request(source, block.options))
    except SpecError as problem:
        raise problem.at(file=None, line=block.line) from None
    except (KvmarkError, ValueError) as problem:
        raise SpecError(str(problem), line=block.line) from problem


def _table(request: _Request) -> BlockContent:
    runs = request.runs()
    answer = gather.sequence_answer(runs, request.verdict)
    grid = _selected(sequence_grid(answer), request.names("columns"))
    return _from(runs, to_markdown(grid), escape_markdown(sequence_sentence(answer)))


def _screen(request: _Request) -> BlockContent:
    """What the terminal shows of a sequence, or of the newest run."""
    runs = request.runs(invalid=True)
    if all("sequence" in run.manifest.spec for run in runs):
        screen = sequence_screen(gather.sequence_answer(runs, request.verdict), WIDTH)
    else:
        screen = run_screen(gather.run_answer(runs[-1], request.verdict(runs[-1])), WIDTH)
    return BlockContent(f"```text\n{screen.plain}\n```")


def _compare(request: _Request) -> BlockContent:
    choice = request.options.get("runs", "newest")
    if choice not in ("newest", "all"):
        raise SpecError(f"runs: take newest or all, not '{choice}'")
    sides: list[list[Run]] = []
    for name in ("base", "candidate"):
        if name not in request.options:
            raise SpecError("compare needs base=… and candidate=…, such as base=tag:before")
        runs = usable(
            request.source.records, runs_of(request.source.records, [request.options[name]])
        )
        sides.append(runs if choice == "all" else newest(runs))
    comparison = compare(*sides, allow=request.names("allow"))
    return _from([run for side in sides for run in side], comparison_markdown(comparison))


def _proxies(request: _Request) -> BlockContent:
    """The costs of proxies, from runs that have a tag per proxy."""
    names = request.names("ways")
    if "direct" not in request.options or not names:
        raise SpecError("proxies needs direct=TAG and ways=TAG,TAG")
    tags = [request.options["direct"], *names]
    runs = {tag: runs_of(request.source.records, [f"tag:{tag}"]) for tag in tags}
    if len({len(of_tag) for of_tag in runs.values()}) > 1:
        numbers = ", ".join(f"{tag} {len(of_tag)}" for tag, of_tag in runs.items())
        raise SpecError(f"proxies needs as many runs of each way, one a round, not {numbers}")
    every_run = [run for of_tag in runs.values() for run in of_tag]
    usable_ids = {run.id for run in usable(request.source.records, every_run)}
    cases = []
    for tag, of_tag in runs.items():
        rounds = frozenset(n for n, run in enumerate(of_tag) if run.id in usable_ids)
        cases.append(CaseRuns({_FACTOR: tag}, dict(enumerate(of_tag)), rounds))
    source = request.options.get("published", "")
    published = published_costs(_published_rows(source)) if source else ()
    proxies = ProxyCosts(path_costs(cases, _FACTOR, tags[0]), published, source)
    sentences, figure = list(cost_sentences(proxies, brief=True)), proxies_figure(proxies)
    grid = replace(proxies_grid((_FACTOR,), proxies), title="")
    first = next((one for one in sentences if "published" in one), "".join(sentences[:1]))
    first = with_doubt(first, "runs", [request.verdict(run).judgement for run in every_run])
    parts = {
        "headline": f"**{escape_markdown(first)}**",
        "chart": "\n\n".join(figure_blocks(figure, request.source.pictures)[::-1]),
        "table": _from(every_run, to_markdown(grid)).text,
    }
    return _drawn(request, request.parts(parts, {}, "a comparison of proxies"), [figure])


def _published_rows(name: str) -> list[dict[str, str]]:
    """The rows of a file that comes with kvmark."""
    try:
        text = resources.files("kvmark").joinpath("published", name).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise SpecError(f"published: kvmark has no file {name}") from None
    return list(csv.DictReader(text.splitlines()))


def _history(request: _Request) -> BlockContent:
    runs = request.runs(newest_only=False)
    metric = parse_comparable(request.options.get("metric", "throughput"))
    check_known([metric], runs)
    limit = int(request.options.get("limit", "20"))
    texts = [history_markdown(one, limit).strip() for one in histories(runs, metric)]
    return BlockContent("\n\n".join(texts))


def _stress(request: _Request) -> BlockContent:
    """The newest run in the output format of cassandra-stress, with its last intervals only."""
    run = request.runs(newest_only=False)[-1]
    lines = request.source.printed_by_tool(run).splitlines()
    intervals = [line for line in lines if line.startswith(_INTERVAL)]
    # Up to two are those of operations in flight at the end.
    kept = (line for line in lines if line not in intervals[:-3])
    return _from([run], "\n".join(["```text", *kept, "```"]))


def _report(request: _Request) -> BlockContent:
    """The report's parts, or parts and figures by name; `rows` chooses rows of tables."""
    page = request.source.report(request.options)
    if choice := request.options.get("rows"):
        chosen = [
            replace(part, grids=tuple(_chosen_rows(grid, choice) for grid in part.grids))
            for part in page.parts
        ]
        page = replace(page, parts=tuple(chosen))
    folder = request.options.get("pictures", request.source.pictures)
    parts = page_parts(page, folder)
    others = {
        figure.name: "\n\n".join(figure_blocks(figure, folder)[::-1]) for figure in page.figures
    }
    others["headline"] = f"**{escape_markdown(_shortened(page.answer))}**"
    others["top"] = f"{others['headline']}\n\n{parts['facts']}"
    facts = {fact.label: fact.text for fact in short_facts(page.top)}
    others["verdicts"] = escape_markdown(f"{facts.get('Measured', '')}: {facts['Verdicts']}.")
    return _drawn(request, request.parts(parts, others, "the report"), page.figures)


def _shortened(answer: str) -> str:
    """The first sentence and the last, which has the verdict, and others if there is room."""
    first, *others = re.split(r"(?<=\.) (?=[A-Z0-9])", answer)
    kept, last = [first], others[-1:]
    for sentence in others[:-1]:
        if len(" ".join([*kept, sentence, *last]).split()) <= _MOST_WORDS:
            kept.append(sentence)
    return " ".join(kept + last)


def _drawn(request: _Request, text: str, figures: Iterable[Figure]) -> BlockContent:
    """A text with the pictures that it refers to."""
    folder = request.options.get("pictures", request.source.pictures)
    paths = {f"{folder}/{figure.name}.svg": figure for figure in figures}
    return BlockContent(
        text, {path: figure.svg() for path, figure in paths.items() if f"]({path})" in text}
    )


def _chosen_rows(grid: Grid, choice: str) -> Grid:
    """The rows with one of the texts in each column: `clients=10,10000;operation=read`.

    Alternatives are separated by `|`. A table without one of the columns stays whole. Thousands are
    written without a comma.

    Raises:
        SpecError: an alternative has no row.
    """
    places = {column.title: place for place, column in enumerate(grid.columns)}
    kept: dict[int, None] = {}
    for alternative in choice.split("|"):
        conditions = [condition.partition("=")[::2] for condition in alternative.split(";")]
        if any(heading not in places for heading, _ in conditions):
            return grid
        found = [
            number
            for number, row in enumerate(grid.rows)
            if all(
                row[places[heading]].text.replace(",", "") in texts.split(",")
                for heading, texts in conditions
            )
        ]
        if not found:
            raise SpecError(f"rows: no row has {alternative}")
        kept |= dict.fromkeys(found)
    rows = tuple(grid.rows[number] for number in sorted(kept))
    return without_constants(replace(grid, rows=rows, section_starts=frozenset()))


def _index(request: _Request) -> BlockContent:
    """Other pages: the published result, the headline and the verdicts that each begins with."""
    lines = ["| report | published | measured | verdicts |", "|---|---|---|---|"]
    for name in request.names("pages"):
        try:
            text = (request.source.folder / name).read_text("utf-8")
        except OSError as problem:
            raise SpecError(f"pages: {name} can't be read: {problem.strerror}") from problem
        found = [re.search(pattern, text, re.MULTILINE | re.DOTALL) for pattern in _OF_A_PAGE]
        if not all(found):
            raise SpecError(f"pages: {name} lacks a title, 'Published:', a headline or verdicts")
        title, *others, verdicts = (" ".join(one[1].split()) for one in found if one)
        cells = [f"[{title}]({name})", *others, re.sub(r":[^;]*", "", verdicts)]
        lines.append(f"| {' | '.join(cells)} |")
    return BlockContent("\n".join(lines))


def _peers(request: _Request) -> BlockContent:
    """A comparison with peers, as `bench/` stores it: of all cases and figures, or of some."""
    peers = request.source.peers
    if peers is None:
        raise SpecError("peers needs from=FILE.json, a comparison that was kept")
    cases, names = request.names("cases", ";"), request.names("figures", ";")
    grid = medians_grid(peers, cases, names)
    folder = request.options.get("pictures", request.source.pictures)
    shown = (names or [_PEERS_FIGURE]) if "chart" in request.names("view") else []
    drawn = [peers_figure(peers, figure, cases) for figure in shown]
    parts = peers_parts(peers)
    others = {
        "table": to_markdown(replace(grid, title="")).strip(),
        "chart": "\n\n".join(figure_blocks(one, folder)[1] for one in drawn),
    }
    if cases and "view" not in request.options:
        return BlockContent(others["table"])
    return _drawn(request, request.parts(parts, others, "a comparison"), drawn)


_KINDS: Final[Mapping[str, tuple[Callable[[_Request], BlockContent], frozenset[str]]]] = {
    "table": (_table, _RUN_OPTIONS | {"columns"}),
    "screen": (_screen, _RUN_OPTIONS),
    "compare": (_compare, frozenset({"from", "base", "candidate", "allow", "runs"})),
    "history": (_history, _RUN_OPTIONS | {"metric", "limit"}),
    "stress": (_stress, _RUN_OPTIONS),
    "proxies": (
        _proxies,
        frozenset({"from", "direct", "ways", "published", "view", "pictures"}),
    ),
    "peers": (_peers, frozenset({"from", "view", "cases", "figures", "pictures"})),
    "report": (
        _report,
        frozenset({"from", "study", "only", "effects", "rows", "view", "pictures"}),
    ),
    "index": (_index, frozenset({"pages"})),
}
"""Each kind of block with its function and its options."""


def _from(runs: Sequence[Run], *parts: str) -> BlockContent:
    """Parts, and a sentence on their origin."""
    return BlockContent(
        "\n\n".join([*(part.strip() for part in parts), gather.origin_sentence(runs)])
    )


def _selected(grid: Grid, headings: Sequence[str]) -> Grid:
    """The first column of each of these headings; all columns without headings."""
    known = [column.heading for column in grid.columns]
    for heading in headings:
        if heading not in known:
            raise SpecError(f"there is no column '{heading}': take some of {', '.join(known)}")
    return select_columns(grid, [known.index(one) for one in headings]) if headings else grid


def _size(run: Run) -> int:
    sequence = run.manifest.spec.get("sequence", {})
    return int(sequence.get("records") or run.manifest.plan.get("dataset", {}).get("count", 0))


def peers_parts(peers: Peers) -> dict[str, str]:
    """The parts of a comparison with peers: `top`, `medians`, `ratios`."""
    return {
        "top": _peers_top(peers),
        "medians": to_markdown(medians_grid(peers)).strip(),
        "ratios": to_markdown(ratios_grid(peers)).strip(),
    }


def medians_grid(peers: Peers, cases: Sequence[str] = (), figures: Sequence[str] = ()) -> Grid:
    """Each program's medians over the blocks; all cases and figures unless some are named."""
    table = Table("Medians", [row for row in peers.rows() if not cases or row.case in cases])
    table.key("case", lambda row: row.case)
    table.key("program", lambda row: row.program)
    headings = {
        one.name: one.heading for one in peers.figures if not figures or one.name in figures
    }
    table.numbers(headings, lambda name, row: units.significant(row.figures[name]))
    if not figures:
        table.number("blocks", lambda row: row.blocks)
    return table.grid()


def ratios_grid(peers: Peers) -> Grid:
    """The first program over each other one, with the bounds."""

    def bound(ratio: PeerRatio) -> str:
        if ratio.bound is None:
            return ""
        return f"{'≤' if ratio.bound.most else '≥'} {ratio.bound.limit:g}"

    first = [case.programs[0] for case in peers.cases if len(case.programs) > 1]
    table = Table(f"{first[0]} ÷ peer" if first else "Bounds", peers.ratios())
    table.key("case", lambda ratio: ratio.case)
    table.key("peer", lambda ratio: ratio.peer)
    table.key("figure", lambda ratio: ratio.figure)
    table.number("value", lambda ratio: units.significant(ratio.estimate.value), tone="strong")
    table.number("95 % interval", lambda ratio: units.interval(ratio.estimate))
    table.number("bound", bound)
    table.word("held", lambda ratio: ratio.held or "")
    return table.grid((_RATIO_NOTE,))


def _peers_top(peers: Peers) -> str:
    facts = {
        "Measured": peers.created[:10],
        "Commit": peers.commit or gather.NO_COMMIT,
        "Machine": gather.machine_text(peers.host),
        "System": peers.system,
        "Tools": "; ".join(f"{name}: {text}" for name, text in peers.versions.items()),
        "Verdicts": _bounds_summary(peers),
    }
    named = (Fact(label, text) for label, text in facts.items() if text)
    top = facts_markdown(short_facts(named))
    command = shlex.join(peers.command)
    return f"{escape_markdown(peers.subject)}.\n\n{top}\n- Command: `{command}`"


def _bounds_summary(peers: Peers) -> str:
    """The number of bounds by result, with the names of those not met."""
    bounds: dict[str, list[str]] = {"met": [], "open": [], "NOT met": [], "not known": []}
    bounded = {(one.figure, one.case, one.peer): one.held for one in peers.ratios() if one.bound}
    for place, held in bounded.items():
        bounds[str(held)].append(_bound_name(*place))
    for case in peers.cases:
        places = ((bound.figure, case.name, bound.peer) for bound in case.bounds)
        bounds["not known"] += [_bound_name(*place) for place in places if place not in bounded]
    texts = [
        f"{len(names)} {result}" + ("" if result == "met" else f" ({'; '.join(names)})")
        for result, names in bounds.items()
        if names
    ]
    count = sum(map(len, bounds.values()))
    results = f"of {count} bounds {listed(texts)}" if count else "no bounds"
    failed = sum(run.figures is None for run in peers.runs)
    return f"{results}; {failed} of {len(peers.runs)} repetitions failed"


def _bound_name(figure: str, case: str, peer: str | None) -> str:
    return f"{figure} of {case}" + (f" beside {peer}" if peer else "")
