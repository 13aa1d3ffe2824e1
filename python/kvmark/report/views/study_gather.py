"""Where a study's figures come from, gathered from its runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvmark.analysis.study import StudyRow
from kvmark.records import Run
from kvmark.report.format import units
from kvmark.report.model.answers import Fact, Provenance
from kvmark.report.views.origin import origin_facts

__all__ = ["study_provenance"]


def study_provenance(
    study: str, definition: Mapping[str, Any], rows: Sequence[StudyRow], runs: Sequence[Run]
) -> Provenance:
    """What all runs have in common from the first of them, and the runs of each case."""
    ids = {row.title: list(row.figures.runs) for row in rows if row.figures}
    documents: dict[str, object] = {"Study": dict(definition), "Runs of each case": ids}
    if runs:
        first = runs[0].manifest
        documents |= {
            "Plan of the first case": first.plan,
            "Configuration of the system": first.engine.system.configuration,
            "Host": first.host,
        }
        if first.testbed:
            documents["Servers of the first case"] = first.testbed
    command = runs[0].manifest.command if runs else ()
    return Provenance(tuple(_facts(study, runs)), command, documents, origin_facts(runs))


def _facts(study: str, runs: Sequence[Run]) -> Iterable[Fact]:
    yield Fact("Study", study)
    yield Fact("Runs", units.whole(len(runs)))
    if not runs:
        return
    systems = (run.manifest.engine.system for run in runs)
    named = dict.fromkeys(f"{one.system} {one.version}".strip() for one in systems)
    yield Fact("System", ", ".join(named))
    yield Fact("Begun", min(run.manifest.created for run in runs))
    yield from (Fact(name, version) for name, version in runs[0].manifest.versions.items())
    plain = (
        f"{name.replace('_', ' ')} {value}"
        for name, value in runs[0].manifest.host.items()
        if isinstance(value, str | int | float)
    )
    yield Fact("Host", ", ".join(plain))
