"""A run that ended in its load has nothing to compare, to follow over time, or to fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvmark.analysis.compare.comparison import compare
from kvmark.analysis.compare.history import histories
from kvmark.analysis.compare.selection import usable, why_excluded
from kvmark.analysis.scaling import scaling_laws
from kvmark.analysis.verdict.judge import judge
from kvmark.errors import UsageError
from kvmark.records import Judgement, Records, Run
from kvmark.report.views.comparison import history_text
from kvmark.spec.metric import THROUGHPUT

Make = Callable[[], Any]


def test_it_is_invalid_and_its_verdict_names_the_phase(ended_in_its_load: Run) -> None:
    verdict = judge(ended_in_its_load)
    assert verdict.judgement is Judgement.INVALID
    (reason,) = (one for one in verdict.reasons if one.code == "nothing_measured")
    assert reason.sentence == "The run ended in its load phase and measured nothing."


@pytest.mark.parametrize("allow", [(), ("invalid", "plan")])
def test_a_comparison_refuses_it_by_name_whatever_is_allowed(
    healthy: Make, ended_in_its_load: Run, allow: tuple[str, ...]
) -> None:
    for sides in ([healthy().run()], [ended_in_its_load]), ([ended_in_its_load], [healthy().run()]):
        with pytest.raises(UsageError, match=f"run {ended_in_its_load.id} ended in its load phase"):
            compare(*sides, allow=allow)


@pytest.mark.parametrize("invalid", [True, False])
def test_a_history_excludes_it_by_name(
    healthy: Make, ended_in_its_load: Run, *, invalid: bool
) -> None:
    whole = healthy().run()
    records = Records(whole.path.parent)
    assert why_excluded(records, whole, None, invalid=invalid) is None
    excluded = why_excluded(records, ended_in_its_load, None, invalid=invalid)
    assert excluded is not None
    told = history_text(histories([whole], THROUGHPUT), 200, 30, [excluded]).plain
    assert f"Excluded: run {ended_in_its_load.id} ended in its load phase" in told


def test_documents_leave_it_out(healthy: Make, ended_in_its_load: Run) -> None:
    whole = healthy().run()
    assert usable(Records(whole.path.parent), [whole, ended_in_its_load]) == [whole]


def test_a_fit_leaves_it_out_by_name(healthy: Make, ended_in_its_load: Run) -> None:
    (law,) = scaling_laws([healthy().run(), ended_in_its_load])
    assert [len(point.runs) for point in law.points] == [1]
    (caveat,) = (one for one in law.caveats if one.code == "left_out")
    assert ended_in_its_load.id in caveat.sentence
