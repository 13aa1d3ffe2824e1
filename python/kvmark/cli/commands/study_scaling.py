"""Scaling in a study's report: the laws that its published figures bear, and those of its runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kvmark.analysis.models.scaling import scaling_laws
from kvmark.analysis.models.scaling_published import PUBLISHED_SCALING, published_laws
from kvmark.errors import KvmarkError
from kvmark.records import Run
from kvmark.report.model.study_answers import Scaling
from kvmark.spec.study import PublishedSpec

__all__ = ["scalings"]


def scalings(published: Sequence[PublishedSpec], runs: Sequence[Run]) -> tuple[Scaling, ...]:
    """Ours and theirs for each published report with figures over clients or nodes."""
    return tuple(found for one in published for found in _both(Path(one.file).stem, runs))


def _both(name: str, runs: Sequence[Run]) -> Iterator[Scaling]:
    table = PUBLISHED_SCALING.get(name)
    if table is None:
        return
    over = table.over[0]
    try:
        laws = scaling_laws(runs, over)
    except KvmarkError:
        # Runs that offered a rate, or measured nothing, say nothing of scaling.
        laws = ()
    if laws:
        yield Scaling("", laws)
    yield Scaling(table.source, published_laws(name, over))
