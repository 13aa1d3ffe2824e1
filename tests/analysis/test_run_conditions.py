"""What differs between runs of a case: servers that were cold, and a machine that was slower."""

import json
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kvmark.analysis.compare.comparability import cautions
from kvmark.analysis.verdict.run_conditions import cold_runs, fixed_work_ns, unlike_machines
from kvmark.records import Run
from kvmark.run.sampler import Sampler
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
def test_the_interval_of_a_start_s_cost_holds_it(effect: float, drift: float, worst: float) -> None:
    found = [warming(values(seed, effect, drift, worst)) for seed in range(400)]
    told = [one for one in found if one is not None]
    assert len(told) > 300
    inside = [one.low < effect < one.high for one in told if one.low and one.high]
    # HC3 is on the safe side with few values.
    assert sum(inside) / len(told) > 0.93


def test_no_effect_is_told_that_rests_on_one_case() -> None:
    """Servers that were never started again: only the first repetition has early places."""
    for seed in range(20):
        chance = random.Random(seed)
        runs = [(repetition, case) for repetition in range(3) for case in range(8)]
        found = [
            Placed(str(case), each, each * 8 + case + 1, math.exp(chance.gauss(0, 0.05)))
            for each, case in runs
        ]
        assert warming(found) is None


@pytest.mark.parametrize(
    "places",
    [
        [],
        [(case, 0, case + 1) for case in range(30)],
        [(case, repetition, 1) for case in range(30) for repetition in range(2)],
        [(case, each, 1 + (case + each) % 2) for case in range(3) for each in (0, 1)],
    ],
)
def test_equal_places_and_few_cases_say_nothing(places: list[tuple[int, int, int]]) -> None:
    assert warming([Placed(str(case), each, place, 5.0) for case, each, place in places]) is None


def placed(make: Make, place: int | None, share: float, system: str = "cassandra") -> Run:
    """A healthy run, of which so many operations were counted, at a place after a start."""
    draft = make()
    for total in draft.engine["totals"]:
        total["in_window"] = round(total["in_window"] * share)
    draft.spec["study"] = {} if place is None else {"after_start": place}
    draft.testbed["system"] = system
    return draft.run()


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


def test_what_is_not_cold_servers_gives_no_reason(healthy: Make, healthy_open: Make) -> None:
    # Servers that are warm at once, runs at a rate, and runs without a place.
    assert cold_runs(study(healthy, warm)) == {}
    assert cold_runs(study(healthy_open, SHARES.__getitem__)) == {}
    unknown = [
        {number: placed(healthy, None, SHARES[place]) for number, place in enumerate(places)}
        for places in PLACES
    ]
    assert cold_runs(unknown) == {}


def test_each_kind_of_servers_is_judged_by_itself(healthy: Make) -> None:
    slow, quick = study(healthy, SHARES.__getitem__), study(healthy, warm, "redis")
    assert cold_runs([*slow, *quick]).keys() == cold_runs(slow).keys() != set()


MS = 1_000_000
S = 1_000 * MS


def worked(make: Make, times_ns: Sequence[float], **host: str) -> Run:
    """A run of 20 seconds, in each of whose seconds the fixed work took so long."""
    draft = make()
    draft.host.update(host)
    for second, took_ns in enumerate(times_ns):
        draft.watch("coordinator", [second], fixed_work_ns=int(took_ns))
    return draft.run()


def around(mean_ms: float, seed: int, samples: int = 20) -> list[float]:
    """Times that scatter by five percent."""
    chance = random.Random(seed)
    return [mean_ms * MS * chance.lognormvariate(0, 0.05) for _ in range(samples)]


def test_only_samples_of_counted_phases_say_how_fast_a_run_was(healthy: Make) -> None:
    later = worked(healthy, [*around(1.0, 1), *around(9.0, 2)])
    found = fixed_work_ns([later])
    assert found.n == 21
    assert 0.9 * MS < found.value < 1.1 * MS
    assert fixed_work_ns([worked(healthy, around(1.0, 1, samples=7))]) is None
    assert fixed_work_ns([healthy().run()]) is None


@pytest.mark.parametrize(
    ("speed_ms", "level", "told"),
    [(1.5, "SUSPECT", "slower"), (0.6, "SUSPECT", "faster"), (1.18, "NOTE", "slower")],
)
def test_a_slower_or_faster_machine_is_told(
    healthy: Make, speed_ms: float, level: str, told: str
) -> None:
    others = [worked(healthy, around(1.0, seed)) for seed in range(6)]
    odd = worked(healthy, around(speed_ms, 99))
    found = unlike_machines([[*others, odd]])
    assert found.keys() == {odd.id}
    reason = found[odd.id]
    assert reason.level.value == level
    assert reason.sentence.startswith(f"The machine itself was {told} than in the case's other")


def test_a_difference_that_may_be_chance_is_not_told(healthy: Make) -> None:
    runs = [worked(healthy, around(1.0, seed)) for seed in range(40)]
    assert unlike_machines([runs]) == {}
    # As far apart as can be, and not known: half of the samples say one, half the other.
    either = worked(healthy, [1.0 * MS, 1.4 * MS] * 10)
    assert unlike_machines([[*runs, either]]) == {}


def test_machines_cases_and_two_runs_are_not_held_against_each_other(healthy: Make) -> None:
    here = [worked(healthy, around(1.0, seed)) for seed in range(4)]
    there = [worked(healthy, around(2.0, seed), processor="another") for seed in range(4)]
    assert unlike_machines([[*here, *there]]) == {}
    assert unlike_machines([[here[0], worked(healthy, around(2.0, 9))]]) == {}
    assert unlike_machines([here, [worked(healthy, around(2.0, seed)) for seed in range(4)]]) == {}


def test_a_comparison_says_on_which_side_the_machine_was_slower(healthy: Make) -> None:
    quick, slow = (
        [worked(healthy, around(speed, seed)) for seed in range(3)] for speed in (1.0, 1.3)
    )
    for sides, side in (((quick, slow), "candidate"), ((slow, quick), "baseline")):
        [caution] = [one for one in cautions(*sides) if one.code == "machine_speed"]
        assert f"slower on the {side}'s side" in caution.sentence
    assert "machine_speed" not in {one.code for one in cautions(quick, quick[::-1])}
    elsewhere = [worked(healthy, around(1.3, seed), processor="another") for seed in range(3)]
    assert {one.code for one in cautions(quick, elsewhere)} == {"machines"}


def test_every_sample_has_the_processor_time_of_the_fixed_work(healthy: Make) -> None:
    draft = healthy()
    folder = draft.records.new("sampled")
    with Sampler(folder):
        pass
    lines = (folder.path / "resources.jsonl").read_text().splitlines()
    took = [row["fixed_work_ns"] for row in map(json.loads, lines) if row["node"] == "coordinator"]
    assert len(took) == 2
    assert all(0 < one < S for one in took)
