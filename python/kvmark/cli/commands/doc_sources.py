"""Sources of blocks in documents: the runs of a folder, or archives stored beside the documents."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Self

from kvmark.analysis.compare.selection import newest, usable
from kvmark.analysis.peers import read_peers
from kvmark.analysis.verdict.judge import known_verdict
from kvmark.cli.commands.study_run import study_answer
from kvmark.cli.judged import judged_lines
from kvmark.errors import SpecError
from kvmark.experiment.journal import Journal, find, named
from kvmark.experiment.study.answer import stored_study, study_results
from kvmark.frontends import commands_per_operation, front_ends
from kvmark.records import Records
from kvmark.records.archive import ENDING, STUDIES, unpack
from kvmark.report.document_blocks import BlockSource, MarkedBlock
from kvmark.report.model.page import Page
from kvmark.report.views.gather import run_answers, sequence_answer
from kvmark.report.views.pages import runs_page, sequence_page
from kvmark.report.views.study import study_page

if TYPE_CHECKING:
    from kvmark.records import Run

_PEERS: Final = ".json"


def printed_by_tool(run: Run) -> str:
    """The text that an imitated tool would have printed for a run.

    Raises:
        SpecError: no front end made the run.
        RecordsError: it can't be read.
    """
    text = next(filter(None, (one.printed_by_tool(run) for one in front_ends())), None)
    if text is None:
        raise SpecError(f"run {run.id} has no output of another tool: name a run of kvmark stress")
    return text


@dataclass
class Sources:
    """Records by the files that hold them, each unpacked once, until the context is left."""

    records: Records
    _open: ExitStack = field(default_factory=ExitStack)
    _unpacked: dict[tuple[Path, ...], Records] = field(default_factory=dict)
    _reports: dict[tuple[Path, str, str], Page] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def of(self, block: MarkedBlock, document: Path) -> BlockSource:
        """The source of a block of a document.

        Raises:
            SpecError: its file doesn't exist, or is no archive.
            RecordsError: the file can't be read.
        """
        names = [name for name in block.options.get("from", "").split(",") if name]
        paths = tuple((document.parent / name).resolve() for name in names)
        for name, path in zip(names, paths, strict=True):
            if not path.is_file():
                raise SpecError(f"there is no {name}: keep records there", line=block.line)
        if len(paths) == 1 and paths[0].name.endswith(_PEERS):
            report = partial(self._report, self.records)
            return BlockSource(
                self.records, report, document.stem, printed_by_tool, read_peers(paths[0])
            )
        for name in names:
            if not name.endswith(ENDING):
                raise SpecError(f"from: {name} doesn't end in {ENDING}", line=block.line)
        records = self._records(paths) if paths else self.records
        return BlockSource(records, partial(self._report, records), document.stem, printed_by_tool)

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
        """The report on the study, the sequence, or the runs of the records.

        Raises:
            SpecError: there are several studies, or no runs.
            RecordsError: a run can't be read.
        """
        study, only = options.get("study", ""), options.get("only", "")
        key = (records.root, study, only)
        if key not in self._reports:
            self._reports[key] = _report_of(records, study, only)
        return self._reports[key]


def _report_of(records: Records, study_name: str, only: str) -> Page:
    """The report; of a study only the cases that `only` chooses."""
    journal = _journal(records, study_name)
    if journal is not None:
        study = stored_study(journal)
        if only:
            request = replace(study.asked, only=(*study.asked.only, only))
            study = replace(study, asked=request)
        results = study_results(study, journal, commands_per_operation)
        return study_page(study_answer(study, journal, results))
    if only:
        raise SpecError("only chooses cases of a study, and there is none: take it out of the mark")
    runs = [records.open(entry.id) for entry in reversed(records.list())]
    if not runs:
        raise SpecError(f"there is no run in {records.root}: measure it, or name records")
    judged = partial(known_verdict, records)
    if all("sequence" in run.manifest.spec for run in runs):
        # As in other blocks; if all runs are INVALID the page reports it.
        chosen = newest(usable(records, runs) or runs)
        return sequence_page(sequence_answer(chosen, judged))
    return runs_page(run_answers(runs, len(runs), judged))


def _journal(records: Records, study: str) -> Journal | None:
    """The study of an id or a name, or the only study of cases."""
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
