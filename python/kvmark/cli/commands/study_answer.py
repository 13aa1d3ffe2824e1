"""A study's answer as it is shown: rows and effects, what was published, tables of apps."""

from __future__ import annotations

from kvmark.experiment.designs.matrix.answer import Answered
from kvmark.experiment.designs.matrix.app_tables import applications, operations
from kvmark.experiment.designs.matrix.definition import Study
from kvmark.experiment.journal import Journal
from kvmark.report.model.answers import Drawn, StudyAnswer, Ways
from kvmark.report.views.gather import study_provenance

__all__ = ["study_answer"]


def study_answer(study: Study, journal: Journal, found: Answered) -> StudyAnswer:
    """What the runs of a study come to, as a page or a terminal shows it."""
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
        applications=applications(study, found.rows, found.runs, found.usable),
        operations=operations(study, found.rows, found.runs, found.usable),
        columns=spec.columns,
        disk_reads=spec.disk_reads,
        drawn=None if figure is None else Drawn(**figure.model_dump()),
        ways=_ways(study, found),
    )


def _ways(study: Study, found: Answered) -> Ways | None:
    through = study.spec.through
    if through is None:
        return None
    source = through.published.source if through.published else ""
    return Ways(found.costs, found.published_costs, source)
