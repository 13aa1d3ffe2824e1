"""`kvmark doc`: fills marked blocks of Markdown files from runs or stored archives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import typer

from kvmark import catalog
from kvmark.cli import options
from kvmark.cli.options import argument, flag
from kvmark.cli.output import print_json
from kvmark.errors import AnswerIsNo, SpecError
from kvmark.frontends import commands_per_operation, front_ends
from kvmark.outputs import write_output, writing
from kvmark.records import Records
from kvmark.records.archive import ENDING, STUDIES, unpack

if TYPE_CHECKING:
    from kvmark.experiment.journal import Journal
    from kvmark.records import Run
    from kvmark.report.document_blocks import BlockSource, MarkedBlock
    from kvmark.report.model.page import Page

_PEERS: Final = ".json"


@dataclass(frozen=True, slots=True)
class _Document:
    """A file, and what filling its blocks changes."""

    path: Path
    blocks: int
    #: The lines of the blocks whose text or pictures differ from their content.
    stale_lines: list[int]
    #: The text with all blocks filled.
    text: str
    #: The SVG of pictures that are missing or differ.
    pictures: dict[Path, str]


def doc(
    files: list[Path] = argument("FILE", "Markdown files with marks."),
    check: bool = flag("Write nothing, and exit 1 if a block is stale.", "--check"),
    folder: options.KeptRuns = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fills the marked blocks of Markdown files from runs."""
    with ExitStack() as unpacked:
        sources = _Sources(Records.at(folder), unpacked)
        documents = [_read(path, sources) for path in files]
    stale = [one for one in documents if one.stale_lines]
    if json:
        each = [
            {"file": one.path, "blocks": one.blocks, "stale_lines": one.stale_lines}
            for one in documents
        ]
        print_json("doc", {"files": each, "written": [] if check else [one.path for one in stale]})
    if check and stale:
        first, others = stale[0], len(stale) - 1
        more = f", and so are blocks of {others} more files" if others else ""
        raise AnswerIsNo(
            f"{first.path}:{first.stale_lines[0]}: this block is stale{more}: run kvmark doc"
            f" {first.path}"
        )
    for one in stale:
        for path, drawn in {**one.pictures, one.path: one.text}.items():
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
            write_output(path, drawn)
    if not (check or json or quiet):
        for one in documents:
            changed = f"{len(one.stale_lines)} of {one.blocks} blocks changed"
            typer.echo(f"{one.path}: {changed}", err=True)


def _read(path: Path, sources: _Sources) -> _Document:
    """A file with the content of its blocks.

    Raises:
        SpecError: the file has no readable marks, or a mark names something that doesn't exist.
    """
    from kvmark.report.document_blocks import blocks, content, filled

    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it isn't UTF-8"
        raise SpecError(f"it can't be read: {reason}", file=str(path)) from problem
    try:
        marked = blocks(text)
        if not marked:
            raise SpecError(
                "it has no marks: put <!-- kvmark: table --> and <!-- /kvmark --> on lines of their"
                " own where a table belongs"
            )
        contents = tuple(content(block, sources.of(block, path)) for block in marked)
    except SpecError as problem:
        raise problem.at(file=str(path), line=problem.line) from problem
    stale: list[int] = []
    pictures: dict[Path, str] = {}
    for block, one in zip(marked, contents, strict=True):
        drawn = {path.parent / name: picture for name, picture in one.pictures.items()}
        differing = {
            at: picture
            for at, picture in drawn.items()
            if not (at.is_file() and at.read_text(encoding="utf-8") == picture)
        }
        if differing or filled(text, [block], [one.text]) != text:
            stale.append(block.line)
        pictures |= differing
    whole = filled(text, marked, [one.text for one in contents])
    return _Document(path, len(marked), stale, whole, pictures)


def _printed_by_tool(run: Run) -> str:
    """The text that an imitated tool would have printed for a run.

    Raises:
        SpecError: no front end made the run.
        RecordsError: it can't be read.
    """
    text = next(filter(None, (one.printed_by_tool(run) for one in front_ends())), None)
    if text is None:
        raise SpecError(f"run {run.id} has no output of another tool: name a run of kvmark stress")
    return text


class _Sources:
    """The runs of a folder, or of archives stored beside documents, each unpacked once.

    `unpacked_until` holds the folders of archives until it is closed.
    """

    def __init__(self, records: Records, unpacked_until: ExitStack) -> None:
        self._records = records
        self._archived = cache(partial(unpacked, until=unpacked_until))
        self._report = cache(report_of)

    def of(self, block: MarkedBlock, document: Path) -> BlockSource:
        """The source of a block of a document.

        Raises:
            SpecError: its file doesn't exist, or is no archive.
            RecordsError: the file can't be read.
        """
        from kvmark.analysis.peers import read_peers
        from kvmark.report.document_blocks import BlockSource

        names = [name for name in block.options.get("from", "").split(",") if name]
        paths = tuple((document.parent / name).resolve() for name in names)
        for name, path in zip(names, paths, strict=True):
            if not path.is_file():
                raise SpecError(f"there is no {name}: keep records there", line=block.line)
        is_report = len(paths) == 1 and paths[0].name.endswith(_PEERS)
        peers = read_peers(paths[0]) if is_report else None
        for name in () if is_report else names:
            if not name.endswith(ENDING):
                raise SpecError(f"from: {name} doesn't end in {ENDING}", line=block.line)
        records = self._archived(paths) if paths and not is_report else self._records

        def report(options: Mapping[str, str]) -> Page:
            return self._report(
                records, *(options.get(name, "") for name in ("study", "only", "effects"))
            )

        pictures = document.stem
        return BlockSource(records, report, document.parent, pictures, _printed_by_tool, peers)


def unpacked(paths: Sequence[Path], until: ExitStack) -> Records:
    """The judged runs of archives, together, in a folder that lasts until then.

    Raises:
        RecordsError: a file is no archive.
    """
    from kvmark.cli.judged import judged_lines

    folder = Path(until.enter_context(TemporaryDirectory(prefix="kvmark-archive-")))
    for path in paths:
        unpack(path, folder)
    records = Records(folder)
    judged_lines(records, tuple(records.lines()))
    return records


def report_of(records: Records, study_name: str = "", only: str = "", effects_of: str = "") -> Page:
    """The report on the study, the sequence, or the runs.

    `only` chooses cases of a study. `effects_of` names a ready study whose effects replace those of
    a study that was measured before they were defined.

    Raises:
        SpecError: there are several studies, or no runs.
        RecordsError: a run can't be read.
    """
    from kvmark.analysis.compare.selection import newest
    from kvmark.analysis.verdict.judge import known_verdict
    from kvmark.cli.commands.study_run import report_page
    from kvmark.experiment.study.answer import stored_study, study_results
    from kvmark.report.views.gather import run_answers, sequence_answer
    from kvmark.report.views.pages import runs_page, sequence_page
    from kvmark.spec.study import parse_study

    journal = _journal(records, study_name)
    if journal is not None:
        study = stored_study(journal)
        if only:
            request = replace(study.asked, only=(*study.asked.only, *only.split(";")))
            study = replace(study, asked=request)
        if effects_of:
            ready = parse_study(catalog.study_text(effects_of), f"{effects_of}.yaml")
            spec = study.file.spec.model_copy(update={"effects": ready.spec.effects})
            study = replace(study, file=replace(study.file, spec=spec))
        results = study_results(study, journal, commands_per_operation)
        return report_page(study, journal, results)
    if only or effects_of:
        raise SpecError("only and effects need a study, and there is none: take them out")
    runs = [records.open(entry.id) for entry in reversed(records.list())]
    if not runs:
        raise SpecError(f"there is no run in {records.root}: measure it, or name records")
    judged = partial(known_verdict, records)
    if all("sequence" in run.manifest.spec for run in runs):
        return sequence_page(sequence_answer(newest(runs), judged))
    return runs_page(run_answers(runs, len(runs), judged))


def _journal(records: Records, study: str) -> Journal | None:
    """The study of an id or a name, or the only study of cases."""
    from kvmark.experiment.journal import Journal, find, named

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
