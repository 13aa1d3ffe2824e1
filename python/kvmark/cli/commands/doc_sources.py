"""What blocks of documents are made of: kept runs, or records stored beside the documents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Literal, Self

import polars as pl

from kvmark.analysis import known_verdict
from kvmark.analysis.compare.selection import newest, usable
from kvmark.analysis.external.cassandra_stress import stress_results
from kvmark.analysis.external.peers import read_peers
from kvmark.cli.commands.study_run import study_answer
from kvmark.cli.judged import judged_lines
from kvmark.errors import SpecError
from kvmark.experiment.designs.ladder_lines import Collections, LineMaker, Row
from kvmark.experiment.designs.matrix.answer import answered, stored_study
from kvmark.experiment.journal import Journal, find, named
from kvmark.records import Records
from kvmark.records.archive import ENDING, STUDIES, unpack
from kvmark.report.model.page import Page, runs_page, sequence_page
from kvmark.report.views.cassandra_stress import HEAD, line_text, results_text
from kvmark.report.views.document_blocks import BlockSource, MarkedBlock
from kvmark.report.views.gather import run_answers, sequence_answer
from kvmark.report.views.study_page import study_page

if TYPE_CHECKING:
    from kvmark.records import Run

_PREDEFINED: Final = ("write", "read", "mixed", "counter_write", "counter_read")
_PEERS: Final = ".json"


def stress_text(run: Run) -> str:
    """The head, a line an interval, and the Results block of a predefined command.

    Raises:
        SpecError: the run is no such one.
        RecordsError: it can't be read.
    """
    asked = run.manifest.spec.get("stress")
    if asked is None or asked.get("command") not in _PREDEFINED:
        raise SpecError(f"run {run.id} is none of kvmark stress {', '.join(_PREDEFINED)}")
    shown: Literal["service", "response"] = "response" if asked["rate"] is not None else "service"
    names = {total.operation for total in run.manifest.engine.totals}
    checked = frozenset(name for name in names if name.endswith("READ"))
    maker = LineMaker(shown, {}, checked)
    lines = [HEAD]
    for rows in _intervals(run):
        made, maker = maker.take(rows, _collections(run, rows[0]))
        lines += map(line_text, made)
    return "\n".join([*lines, results_text(stress_results(run, shown, {}, checked))]).rstrip()


def _intervals(run: Run) -> Iterator[list[Row]]:
    """The rows of each interval of the measured phase, in their order."""
    measured = run.intervals.filter(pl.col("phase_name") == "measure").sort("start_ns", "drain")
    for _, rows in measured.group_by("start_ns", "drain", maintain_order=True):
        yield list(rows.iter_rows(named=True))


def _collections(run: Run, row: Row) -> Collections:
    """What the nodes' counters gained in an interval: from the last samples before its ends."""
    samples = run.resources
    if "gc_count" not in samples.columns:
        return Collections()
    origin_ns = run.manifest.engine.started_wall_ns
    known = samples.filter(pl.col("gc_count").is_not_null())
    before = known.filter(pl.col("at_wall_ns") <= origin_ns + row["start_ns"])
    until = known.filter(pl.col("at_wall_ns") <= origin_ns + row["end_ns"])
    ends = [
        one.group_by("node").agg(pl.col("gc_count", "gc_time_s").last()) for one in (before, until)
    ]
    both = ends[0].join(ends[1], on="node", suffix="_until")
    if both.is_empty():
        return Collections()
    count = _gained(both, "gc_count")
    sum_ms = _gained(both, "gc_time_s") * 1000
    if not count:
        return Collections(0, 0, 0, 0, math.nan)
    one = count == 1
    return Collections(count, sum_ms if one else math.nan, sum_ms, 0 if one else math.nan)


def _gained(both: pl.DataFrame, name: str) -> float:
    """What a counter of all nodes gained. A node that was started again counts from 0."""
    return float((both[f"{name}_until"] - both[name]).clip(lower_bound=0).sum())


@dataclass
class Sources:
    """Records by the files that hold them, each unpacked once, until the context is left."""

    kept: Records
    _open: ExitStack = field(default_factory=ExitStack)
    _unpacked: dict[tuple[Path, ...], Records] = field(default_factory=dict)
    _reports: dict[tuple[Path, str, str], Page] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def of(self, block: MarkedBlock, document: Path) -> BlockSource:
        """What a block of a document is made of.

        Raises:
            SpecError: its file isn't there, or no records.
            RecordsError: the file can't be read.
        """
        names = [name for name in block.options.get("from", "").split(",") if name]
        paths = tuple((document.parent / name).resolve() for name in names)
        for name, path in zip(names, paths, strict=True):
            if not path.is_file():
                raise SpecError(f"there is no {name}: keep records there", line=block.line)
        if len(paths) == 1 and paths[0].name.endswith(_PEERS):
            report = partial(self._report, self.kept)
            return BlockSource(self.kept, report, document.stem, stress_text, read_peers(paths[0]))
        for name in names:
            if not name.endswith(ENDING):
                raise SpecError(f"from: {name} doesn't end in {ENDING}", line=block.line)
        records = self._records(paths) if paths else self.kept
        return BlockSource(records, partial(self._report, records), document.stem, stress_text)

    def _records(self, paths: tuple[Path, ...]) -> Records:
        """The runs of archives, together."""
        if paths not in self._unpacked:
            folder = Path(self._open.enter_context(TemporaryDirectory(prefix="kvmark-doc-")))
            for path in paths:
                unpack(path, folder)
            records = self._unpacked[paths] = Records(folder)
            judged_lines(records, tuple(records.lines()))
        return self._unpacked[paths]

    def _report(self, records: Records, options: Mapping[str, str]) -> Page:
        """The report on a study, on a sequence, or on runs: whatever the records are of.

        Raises:
            SpecError: several studies are there and none was named.
            RecordsError: there are no runs, or they can't be read.
        """
        study, only = options.get("study", ""), options.get("only", "")
        key = (records.root, study, only)
        if key not in self._reports:
            self._reports[key] = _report_of(records, study, only)
        return self._reports[key]


def _report_of(records: Records, study: str, only: str) -> Page:
    """The report; of a study with the cases alone that have these levels of a factor."""
    journal = _journal(records, study)
    if journal is not None:
        asked = stored_study(journal)
        if only:
            asked = replace(asked, asked=replace(asked.asked, only=(*asked.asked.only, only)))
        return study_page(study_answer(asked, journal, answered(asked, journal)))
    if only:
        raise SpecError("only chooses cases of a study, and there is none: take it out of the mark")
    runs = [records.open(entry.id) for entry in reversed(records.list())]
    if not runs:
        raise SpecError(f"there is no run in {records.root}: measure it, or name records")
    judged = partial(known_verdict, records)
    if all("sequence" in run.manifest.spec for run in runs):
        # As in every other block; where all are INVALID the page says so.
        chosen = newest(usable(records, runs) or runs)
        return sequence_page(sequence_answer(chosen, judged))
    return runs_page(run_answers(runs, len(runs), judged))


def _journal(records: Records, study: str) -> Journal | None:
    """The study of cases that is meant: by its id or its name, or the only one."""
    if study:
        found = named(records, study) or find(records, study)
        if found is None:
            raise SpecError(f"there is no study '{study}' in {records.root}")
        return found
    folders = (path for path in (records.root / STUDIES).glob("*") if path.is_dir())
    journals = [Journal(path, records) for path in sorted(folders)]
    matrices = [one for one in journals if one.definition.get("design") == "matrix"]
    if len(matrices) > 1:
        names = ", ".join(one.id for one in matrices)
        raise SpecError(f"several studies are there: say study=ID, one of {names}")
    return matrices[0] if matrices else None
