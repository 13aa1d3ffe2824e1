"""What runs over clients or nodes can bear as a law, and what they can't."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from kvmark.analysis.scaling import Observation, ScalingLaw, scaling_law, scaling_laws
from kvmark.errors import UsageError
from kvmark.records import Run

Make = Callable[[], Any]

WINDOW_S = 20
LEVELS = (1, 2, 4, 8, 16, 32, 64)


def law(n: float, sigma: float = 0.03, kappa: float = 0.0008) -> float:
    return 1_000 * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


def rated(draft: Any, clients: int, rate: float) -> Any:
    draft.plan["groups"][0]["clients"] = clients
    for operation in ("READ", "UPDATE"):
        draft.total(operation)["in_window"] = round(rate * WINDOW_S / 2)
    return draft


def runs_of(make: Make, levels: Iterable[int] = LEVELS) -> list[Run]:
    return [rated(make(), n, law(n)).run() for n in levels]


def codes(found: ScalingLaw) -> set[str]:
    return {caveat.code for caveat in found.caveats}


def figures(kappa: float = 0.0008, deviation: float = 0.01) -> list[Observation]:
    chance = np.random.default_rng(4).normal(scale=deviation, size=len(LEVELS))
    return [
        Observation(n, law(n, kappa=kappa) * math.exp(e))
        for n, e in zip(LEVELS, chance, strict=True)
    ]


def test_runs_over_clients_give_the_law_they_follow(healthy: Make) -> None:
    (found,) = scaling_laws(runs_of(healthy))
    assert found.over == "clients"
    assert found.claim == "peak"
    assert found.fit.sigma.value == pytest.approx(0.03, rel=0.01)
    assert found.fit.kappa.value == pytest.approx(0.0008, rel=0.01)
    assert [point.level for point in found.points] == list(LEVELS)
    assert found.points[0].efficiency == 1
    assert found.points[3].law == pytest.approx(law(8), rel=0.01)
    assert found.curve[0][0] == 1
    assert found.curve[-1][0] == pytest.approx(64)


def test_repetitions_stand_at_one_level(healthy: Make) -> None:
    (found,) = scaling_laws([*runs_of(healthy), *runs_of(healthy)])
    assert [len(point.runs) for point in found.points] == [2] * len(LEVELS)
    assert (found.fit.n, found.fit.levels) == (14, 7)


def test_runs_of_other_workloads_make_laws_of_their_own(healthy: Make) -> None:
    def named() -> Any:
        draft = healthy()
        draft.plan["name"] = "ycsb/b"
        return draft

    found = scaling_laws([*runs_of(healthy), *runs_of(named)])
    assert [one.title for one in found] == ["ycsb/a", "ycsb/b"]
    assert all(len(one.points) == len(LEVELS) for one in found)


@pytest.mark.parametrize("levels", [(1,), (4, 17), (1, 2, 4, 8)])
def test_fewer_than_five_levels_bear_no_law(levels: tuple[int, ...]) -> None:
    found = scaling_law("", "clients", observed(law, levels))
    assert (found.fit, found.claim) == (None, "nothing")
    assert codes(found) == {"few_levels"}


def observed(rate: Callable[[float], float], levels: Iterable[float] = LEVELS) -> list[Observation]:
    return [Observation(n, rate(n)) for n in levels]


@pytest.mark.parametrize(
    ("measured", "claim", "code"),
    [
        (observed(law, (100, 110, 120, 130, 140)), "nothing", "narrow_span"),
        # A peak needs a coherency that isn't 0.
        (figures(kappa=0.0), "law", "no_decline"),
        (figures(kappa=1e-4, deviation=0.001), "predicted peak", "beyond_levels"),
        (observed(lambda n: 1_000.0 if n < 10 else 5_000.0), None, "off_the_law"),
        (observed(lambda n: law(n) * (0.6 if n == 1 else 1)), None, "rising_efficiency"),
    ],
)
def test_caveats_are_named(measured: list[Observation], claim: str | None, code: str) -> None:
    found = scaling_law("", "clients", measured)
    assert code in codes(found)
    assert code not in codes(scaling_law("", "clients", figures()))
    assert claim in (None, found.claim)
    if claim == "predicted peak":
        assert found.curve[-1][0] > found.fit.peak.value > LEVELS[-1]


def test_invalid_runs_are_left_out_and_named(healthy: Make) -> None:
    broken = rated(healthy(), 128, 50_000)
    broken.turn(50_000, "READ", "timeout")
    run = broken.run()
    (found,) = scaling_laws([*runs_of(healthy), run])
    assert found.points[-1].level == 64
    assert "left_out" in codes(found)
    assert any(run.id in caveat.sentence for caveat in found.caveats)


def over_nodes(make: Make, cores: Callable[[int], list[int]]) -> ScalingLaw:
    runs = []
    for n in LEVELS[:5]:
        draft = rated(make(), 8, law(n))
        nodes = [{"name": f"node-{number}", "cores": cores(number)} for number in range(n)]
        draft.testbed = {"observed": True, "nodes": nodes}
        runs.append(draft.run())
    (found,) = scaling_laws(runs, "nodes")
    return found


def test_nodes_that_share_cores_say_nothing_about_scaling(healthy: Make) -> None:
    found = over_nodes(healthy, lambda _: [])
    assert [point.level for point in found.points] == [1, 2, 4, 8, 16]
    assert (found.fit, found.claim) == (None, "nothing")
    assert "shared_cores" in codes(found)
    # With cores of their own they still share a machine.
    apart = over_nodes(healthy, lambda n: [n])
    assert apart.fit is not None
    assert "one_machine" in codes(apart)


def test_runs_at_a_rate_or_without_a_level_are_refused(healthy: Make, healthy_open: Make) -> None:
    with pytest.raises(UsageError, match="offered a rate"):
        scaling_laws([healthy_open().run()])
    with pytest.raises(UsageError, match="doesn't say how many machines there were"):
        scaling_laws([healthy().run()], "machines")
