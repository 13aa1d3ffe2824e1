"""Objectives are held against what was measured, and against nothing else."""

from collections.abc import Callable
from typing import Any

import pytest

from kvmark.analysis.compare.bounds import figure
from kvmark.spec.metric import parse_objective


@pytest.mark.parametrize("text", ["p99<1h", "errors<50%", "throughput>1", "mean<1h", "max<1h"])
def test_an_objective_holds_within_its_bound(made: Any, text: str) -> None:
    found = figure([made()], parse_objective(text))
    assert found.held is True
    assert found.sentence.startswith(f"{text} held with ")


def failures(count: int) -> Callable[[Any], None]:
    return lambda draft: draft.turn(count, "READ", "timeout")


def test_a_load_alone_says_nothing_of_an_objective(made: Any) -> None:
    load = made(lambda draft: draft.phase.update(name="load"))
    found = figure([load], parse_objective("p99<1h"))
    assert (found.held, found.value) == (None, None)
    assert found.sentence == "p99<1h: nothing was measured"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        *((text, 10_000) for text in ("p99<1h", "p99.9<1h", "service.p99<1h", "READ.p99<1h")),
        # One failure puts a mean and a maximum beyond any bound.
        ("mean<1h", 1),
        ("max<1h", 1),
    ],
)
def test_failed_operations_are_slower_than_any_bound(made: Any, text: str, count: int) -> None:
    found = figure([made(failures(count))], parse_objective(text))
    assert (found.held, found.value) == (False, None)
    assert "of the operations failed or were never issued" in found.sentence


def test_failures_move_a_quantile_by_their_number(made: Any) -> None:
    before, after = (
        figure([run], parse_objective("p99<1h")) for run in (made(), made(failures(1_000)))
    )
    assert after.held
    assert (after.value or 0) > (before.value or 0)
    assert "p99<1h held with" in after.sentence
    assert after.sentence.endswith("% without an answer count as slower")
    # Those of another operation are no concern of this one.
    assert figure([made(failures(10))], parse_objective("UPDATE.p99<1h")).unanswered == 0


@pytest.mark.parametrize("count", ["dropped", "abandoned"])
@pytest.mark.parametrize("text", ["p99<1h", "READ.p99<1h"])
def test_unissued_arrivals_are_slower_than_any_bound(
    healthy_open: Any, count: str, text: str
) -> None:
    draft = healthy_open()
    draft.group.update({count: draft.group["issued"] // 50})
    assert figure([draft.run()], parse_objective(text)).held is False
    assert figure([healthy_open().run()], parse_objective(text)).held is True


def test_a_miss_is_an_answer_and_with_failures_alone_an_objective_is_missed(
    healthy: Any,
) -> None:
    draft = healthy()
    draft.turn(10_000, "READ", "miss")
    assert figure([draft.run()], parse_objective("p99<1h")).held is True
    draft.complete(("READ", 200_000, "timeout"))
    found = figure([draft.run()], parse_objective("p99<1h"))
    assert found.held is False
    assert "100.000% of the operations" in found.sentence
