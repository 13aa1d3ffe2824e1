"""What places after a start say of the servers."""

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from kvmark.analysis.verdict.run_conditions import cold_runs
from kvmark.records import Run
from kvmark.stats import Placed, warming

Make = Callable[[], Any]


def values(
    seed: int, effect: float, drift: float = 0.0, worst: float = 1.0, cases: int = 10
) -> list[Placed]:
    """Cases of a study in three repetitions, each in an order of its own after a start.

    With five percent of noise, the first case with so many times more; the first repetition is
    slower by `drift`.
    """
    chance, found = random.Random(seed), []
    for repetition in range(3):
        order = list(range(cases))
        chance.shuffle(order)
        for place, case in enumerate(order, start=1):
            noise = chance.gauss(0, 0.05 * (worst if case == 0 else 1.0))
            slower = drift if repetition == 0 else 0.0
            log = effect * 2.0 ** (1 - place) - slower + noise
            found.append(Placed(str(case), repetition, place, (10 + case) * math.exp(log)))
    return found


@pytest.mark.parametrize("effect", [0.0, -0.7])
@pytest.mark.parametrize(("drift", "worst"), [(0.0, 1.0), (0.1, 1.0), (0.0, 3.0)])
def test_the_interval_of_what_a_start_costs_holds_it_whatever_else_moves(
    effect: float, drift: float, worst: float
) -> None:
    found = [warming(values(seed, effect, drift, worst)) for seed in range(400)]
    told = [one for one in found if one is not None]
    assert len(told) > 300
    inside = [one.low < effect < one.high for one in told if one.low and one.high]
    # HC3 is on the safe side with few values.
    assert sum(inside) / len(told) > 0.93


def one_start(seed: int) -> list[Placed]:
    """Servers that were never started again: only the first repetition has early places."""
    chance = random.Random(seed)
    return [
        Placed(str(case), repetition, repetition * 8 + case + 1, math.exp(chance.gauss(0, 0.05)))
        for repetition in range(3)
        for case in range(8)
    ]


def test_no_effect_is_told_that_rests_on_one_case() -> None:
    assert [warming(one_start(seed)) for seed in range(20)] == [None] * 20


@pytest.mark.parametrize(
    "found",
    [
        [],
        [Placed(str(case), 0, case + 1, 5.0) for case in range(30)],
        [Placed(str(case), repetition, 1, 5.0) for case in range(30) for repetition in range(2)],
        [
            Placed(str(case), each, 1 + (case + each) % 2, 5.0)
            for case in range(3)
            for each in (0, 1)
        ],
    ],
)
def test_equal_places_and_few_cases_say_nothing(found: list[Placed]) -> None:
    assert warming(found) is None


def placed(make: Make, place: int | None, share: float, system: str = "cassandra") -> Run:
    """A healthy run, of which so many operations were counted, at a place after a start."""
    draft = make()
    for total in draft.engine["totals"]:
        total["in_window"] = round(total["in_window"] * share)
    draft.spec["study"] = {} if place is None else {"after_start": place}
    draft.testbed["system"] = system
    run: Run = draft.run()
    return run


SHARES = {1: 0.5, 2: 0.72, 3: 0.85, 4: 0.95, 5: 0.97, 6: 1.0, 7: 1.01, 8: 0.99}
PLACES = ((1, 5, 7), (4, 2, 8), (6, 8, 3), (8, 6, 4), (5, 7, 1), (3, 4, 6))


def study(
    make: Make, share: Callable[[int], float], system: str = "cassandra"
) -> list[dict[int, Run]]:
    """The runs of each case by repetition, with so much of its speed at each place."""
    return [
        {number: placed(make, place, share(place), system) for number, place in enumerate(places)}
        for places in PLACES
    ]


def warm(place: int) -> float:
    return 1 + place % 2 / 100


def test_runs_that_came_soon_after_a_start_are_suspect_and_later_ones_not(healthy: Make) -> None:
    cases = study(healthy, SHARES.__getitem__)
    at = {
        runs[number].id: place
        for runs, places in zip(cases, PLACES, strict=True)
        for number, place in enumerate(places)
    }
    found = cold_runs(cases)
    assert {1, 2, 3} <= {at[run] for run in found} <= {1, 2, 3, 4}
    first = next(why for run, why in found.items() if at[run] == 1)
    assert first.sentence.startswith("It was the 1st run after its servers' start, and there the")
    assert 0.4 < float(first.evidence["lost_share"]) < 0.6


def test_servers_that_are_warm_at_once_and_runs_without_a_place_give_no_reason(
    healthy: Make,
) -> None:
    assert cold_runs(study(healthy, warm)) == {}
    unknown = [
        {number: placed(healthy, None, SHARES[place]) for number, place in enumerate(places)}
        for places in PLACES
    ]
    assert cold_runs(unknown) == {}


def test_each_kind_of_servers_is_judged_by_itself(healthy: Make) -> None:
    slow, quick = study(healthy, SHARES.__getitem__), study(healthy, warm, "redis")
    assert cold_runs([*slow, *quick]).keys() == cold_runs(slow).keys() != set()


def test_runs_at_a_rate_say_nothing_of_how_fast_servers_were(healthy_open: Make) -> None:
    assert cold_runs(study(healthy_open, SHARES.__getitem__)) == {}
