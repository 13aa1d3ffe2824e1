"""Objectives are held against what was measured, and against nothing else."""

from typing import Any

import pytest

from kvmark.analysis.verdict.objectives import figure
from kvmark.spec.objective import parse_objective


@pytest.mark.parametrize("text", ["p99<1h", "errors<50%", "throughput>1", "mean<1h", "max<1h"])
def test_an_objective_holds_within_its_bound(healthy: Any, text: str) -> None:
    found = figure([healthy().run()], parse_objective(text))
    assert found.held is True
    assert found.sentence.startswith(f"{text} held with ")


def test_a_load_alone_says_nothing_of_an_objective(healthy: Any) -> None:
    draft = healthy()
    draft.engine["phases"][0]["name"] = "load"
    found = figure([draft.run()], parse_objective("p99<1h"))
    assert (found.held, found.value) == (None, None)
    assert found.sentence == "p99<1h: nothing was measured"
