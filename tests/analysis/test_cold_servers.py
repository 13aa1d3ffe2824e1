"""What places after a start say of the servers."""

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from kvmark.analysis.cold_servers import cold_runs
from kvmark.records import Run
from kvmark.stats import warming

Make = Callable[[], Any]


def values(seed: int, effect: float, cases: int = 30) -> list[list[tuple[int, float]]]:
    """Three values of each case, at places drawn by chance, with five percent of noise."""
    chance = random.Random(seed)

    def one(full: float) -> tuple[int, float]:
        place = chance.randint(1, 8)
        return place, full * math.exp(effect * 2.0 ** (1 - place) + chance.gauss(0, 0.05))

    return [[one(full) for _ in range(3)] for full in range(10, 10 + cases)]


def test_the_interval_of_what_a_start_costs_holds_it_in_95_of_100_cases() -> None:
    for effect in (0.0, -0.7):
        found = [warming(values(seed, effect)) for seed in range(400)]
        inside = [one.low < effect < one.high for one in found if one and one.low and one.high]
        assert 0.92 < sum(inside) / 400 < 0.98


@pytest.mark.parametrize(
    "cases",
    [
        [],
        [[(1, 5.0), (1, 6.0)]] * 20,
        [[(1, 5.0), (2, 6.0)], [(2, 5.0), (1, 6.0)]],
    ],
)
def test_equal_places_and_few_cases_say_nothing(cases: list[list[tuple[int, float]]]) -> None:
    assert warming(cases) is None


def placed(make: Make, place: int | None, share: float, system: str = "cassandra") -> Run:
    """A healthy run, of which so many operations were counted, at a place after a start."""
    draft = make()
    for total in draft.engine["totals"]:
        total["in_window"] = round(total["in_window"] * share)
    study: dict[str, Any] = {} if place is None else {"after_start": place}
    draft.spec["study"] = study
    draft.testbed["system"] = system
    return draft.run()


SHARES = {1: 0.5, 2: 0.72, 3: 0.85, 4: 0.95, 5: 0.97, 6: 1.0, 7: 1.01, 8: 0.99}
PLACES = ((1, 5, 7), (4, 2, 8), (6, 8, 3), (8, 6, 4), (5, 7, 1), (3, 4, 6))


def test_runs_that_came_soon_after_a_start_are_suspect_and_later_ones_not(healthy: Make) -> None:
    cases = [[placed(healthy, place, SHARES[place]) for place in places] for places in PLACES]
    found = cold_runs(cases)
    at = {
        run.id: place
        for case, places in zip(cases, PLACES, strict=True)
        for run, place in zip(case, places, strict=True)
    }
    assert {1, 2, 3} <= {at[run] for run in found} <= {1, 2, 3, 4}
    [first, *_] = [found[run] for run in found if at[run] == 1]
    assert first.sentence.startswith("It was the 1st run after its servers' start, and there the")
    assert 0.4 < first.evidence["lost_share"] < 0.6


def test_servers_that_are_warm_at_once_and_runs_without_a_place_give_no_reason(
    healthy: Make,
) -> None:
    warm = [[placed(healthy, place, 1 + place % 2 / 100) for place in each] for each in PLACES]
    assert cold_runs(warm) == {}
    unknown = [[placed(healthy, None, SHARES[place]) for place in each] for each in PLACES]
    assert cold_runs(unknown) == {}


def test_each_kind_of_servers_is_judged_by_itself(healthy: Make) -> None:
    slow = [[placed(healthy, place, SHARES[place]) for place in each] for each in PLACES]
    quick = [
        [placed(healthy, place, 1 + place % 2 / 100, "redis") for place in each] for each in PLACES
    ]
    assert cold_runs([*slow, *quick]).keys() == cold_runs(slow).keys()
