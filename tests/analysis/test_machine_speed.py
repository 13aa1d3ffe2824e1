"""Whether the machine itself was as fast as in the other runs, by work that is always the same."""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kvmark.analysis.compare.comparability import cautions
from kvmark.analysis.verdict.run_conditions import fixed_work_ns, unlike_machines
from kvmark.records import Run
from kvmark.run.sampler import Sampler

Make = Callable[[], Any]
MS = 1_000_000
S = 1_000 * MS


def worked(make: Make, times_ns: Sequence[float], **host: str) -> Run:
    """A run of 20 seconds, in each of whose seconds the fixed work took so long."""
    draft = make()
    began_ns = draft.engine["started_wall_ns"]
    draft.host.update(host)
    draft.resources = [
        {"at_wall_ns": began_ns + second * S, "node": "coordinator", "fixed_work_ns": int(took)}
        for second, took in enumerate(times_ns)
    ]
    run: Run = draft.run()
    return run


def around(mean_ms: float, seed: int, samples: int = 20) -> list[float]:
    """Times that scatter by five percent."""
    chance = random.Random(seed)
    return [mean_ms * MS * chance.lognormvariate(0, 0.05) for _ in range(samples)]


def test_only_what_was_sampled_while_the_run_was_counted_says_how_fast_it_was(
    healthy: Make,
) -> None:
    later = worked(healthy, [*around(1.0, 1), *around(9.0, 2)])
    found = fixed_work_ns([later])
    assert found is not None
    assert found.n == 21
    assert 0.9 * MS < found.value < 1.1 * MS
    assert fixed_work_ns([worked(healthy, around(1.0, 1, samples=7))]) is None
    assert fixed_work_ns([healthy().run()]) is None


@pytest.mark.parametrize(
    ("speed_ms", "level", "told"),
    [(1.5, "SUSPECT", "slower"), (0.6, "SUSPECT", "faster"), (1.18, "NOTE", "slower")],
)
def test_a_run_on_a_machine_that_was_slower_or_faster_is_told(
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


def test_machines_are_not_held_against_each_other_nor_two_runs(healthy: Make) -> None:
    here = [worked(healthy, around(1.0, seed)) for seed in range(4)]
    there = [worked(healthy, around(2.0, seed), processor="another") for seed in range(4)]
    assert unlike_machines([[*here, *there]]) == {}
    assert unlike_machines([[here[0], worked(healthy, around(2.0, 9))]]) == {}


def test_cases_are_not_held_against_each_other(healthy: Make) -> None:
    cases = [[worked(healthy, around(speed, seed)) for seed in range(4)] for speed in (1.0, 2.0)]
    assert unlike_machines(cases) == {}


def test_a_comparison_says_on_which_side_the_machine_was_slower(healthy: Make) -> None:
    quick, slow = (
        [worked(healthy, around(speed, seed)) for seed in range(3)] for speed in (1.0, 1.3)
    )
    [told] = [one for one in cautions(quick, slow) if one.code == "machine_speed"]
    assert "slower on the candidate's side" in told.sentence
    [told] = [one for one in cautions(slow, quick) if one.code == "machine_speed"]
    assert "slower on the baseline's side" in told.sentence
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
