"""The answer to a study: printed, and written as a report.

Nothing here is imported while an engine runs: the memory of its libraries would count as the
generator's.
"""

from __future__ import annotations

from pathlib import Path

import typer

from kvmark.analysis.study import StudyRow
from kvmark.cli.output import print_answer, print_json, terminal_width, write_report
from kvmark.report.study_answers import Drawn, StudyAnswer, Ways
from kvmark.report.study_gather import study_provenance
from kvmark.report.study_page import study_page, study_text
from kvmark.study.answer import Answered, answered
from kvmark.study.app_tables import applications, operations
from kvmark.study.definition import Study
from kvmark.study.journal import Journal

__all__ = ["print_study"]


def print_study(
    study: Study, journal: Journal, report: Path | None, *, json: bool
) -> tuple[StudyRow, ...]:
    """Prints the answer as far as the study has been carried out, and writes the report.

    Raises:
        KvmarkError: a run can't be read, or the report not written.
    """
    found = answered(study, journal)
    answer = _drawn(study, journal, found)
    if report is not None:
        write_report(lambda _: study_page(answer), report)
    if json:
        print_json(
            {
                "study": journal.id,
                "rows": answer.rows,
                "effects": answer.effects,
                "notes": answer.notes,
                "published_source": answer.published_source,
                "missing": answer.missing,
                "ways": answer.ways,
                "runs": [run.id for run in found.runs],
                "report": report,
            }
        )
    else:
        print_answer(study_text(answer, terminal_width()))
        if report is not None:
            typer.echo(f"\nThe report is in {report.resolve()}", err=True)
    return answer.rows


def _drawn(study: Study, journal: Journal, found: Answered) -> StudyAnswer:
    spec = study.spec
    figure, sources = spec.figure, dict.fromkeys(table.source for table in spec.published)
    definition = {key: value for key, value in journal.definition.items() if key != "digest"}
    return StudyAnswer(
        title=f"Study {study.name}",
        question=" ".join(spec.question.split()),
        factors=study.factors,
        rows=found.rows,
        effects=found.effects,
        notes=found.notes,
        unit="records/s" if spec.measure == "records" else "ops/s",
        repetitions=study.repetitions,
        missing=found.missing,
        provenance=study_provenance(journal.id, definition, found.rows, found.runs),
        published_source="; ".join(sources) or None,
        applications=applications(study, found.rows, found.runs),
        operations=operations(study, found.rows, found.runs),
        disk_reads=spec.disk_reads,
        drawn=None if figure is None else Drawn(figure.across, figure.series, figure.panels),
        ways=_ways(study, found),
    )


def _ways(study: Study, found: Answered) -> Ways | None:
    through = study.spec.through
    if through is None:
        return None
    source = through.published.source if through.published else ""
    return Ways(found.costs, found.published_costs, source)
