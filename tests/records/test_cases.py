"""Which runs are repetitions of one case: their plan says it, without seeds and repetition."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest

from kvmark.records import Case, Manifest, block_of, by_case, repetition_of
from kvmark.records.files import FORMAT

PLAN: dict[str, Any] = {
    "name": "ycsb/a",
    "system": {"driver": "resp", "options": {"address": "127.0.0.1:6379", "seed": 3}},
    "seeds": {"keys": 1},
    "dataset": {"count": 1000},
    "groups": [
        {
            "name": "clients",
            "clients": 8,
            "arrival": {"process": "closed", "think_time_ns": 0},
            "mix": [{"kind": "read", "weight": 0.5}],
            "keys": {"count": 1000},
        },
        {"name": "load", "clients": 8},
        {"name": "verify", "clients": 8},
    ],
    "phases": [
        {"name": "load", "groups": [{"group": 1, "operations": 1000}], "only_if_missing": True},
        {"name": "settle", "groups": []},
        {"name": "measure", "groups": [{"group": 0, "operations": None}], "duration_ns": 10},
        {"name": "verify", "groups": [{"group": 2, "operations": None}]},
    ],
}
OPEN = {"process": "poisson", "rates": [{"at_ns": 0, "rate": 5000.0}]}


@dataclass(frozen=True)
class Made:
    """A run as far as its case goes."""

    manifest: Manifest


def made(store: str = "Redis", spec: dict[str, Any] | None = None, **changes: Any) -> Made:
    """A run whose plan differs in these places, with dots as `__`."""
    plan = deepcopy(PLAN)
    for place, value in changes.items():
        *path, last = (int(part) if part.isdigit() else part for part in place.split("__"))
        part: Any = plan
        for step in path:
            part = part[step]
        part[last] = value
    engine = {
        "started_wall_ns": 0, "system": {"system": store, "version": "1"}, "capabilities": None,
        "clock": None, "phases": (), "totals": (),
    }  # fmt: skip
    return Made(
        Manifest.model_validate(
            {
                "format": FORMAT, "id": "x", "created": "", "plan": plan, "closed_by": "engine",
                "engine": engine, "spec": spec or {},
            }
        )
    )  # fmt: skip


def titles(*runs: Made, across_systems: bool = False) -> list[str]:
    return [case.title for case in by_case(runs, across_systems=across_systems)]


def without_load() -> Made:
    run = made()
    plan = deepcopy(PLAN)
    del plan["phases"][:2], plan["groups"][1]
    plan["phases"][1]["groups"][0]["group"] = 1
    return Made(run.manifest.model_copy(update={"plan": plan}))


@pytest.mark.parametrize(
    "same",
    [
        made(interval_ns=5 * 10**6),
        made(seeds={"keys": 2}),
        made(system__options={"address": "10.0.0.1:7000", "seed": 4}),
        made(phases__0__only_if_missing=False),
        made(share={"index": 0, "of": 1}),
        made(spec={"ab": {"name": "x", "side": "base", "block": 3}}),
        without_load(),
    ],
    ids=["interval", "seeds", "address", "load", "share", "block", "loaded before"],
)
def test_seeds_places_and_how_the_records_came_there_make_no_other_case(same: Made) -> None:
    assert titles(made(), same) == ["A on Redis with 1,000 records"]


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (made(groups__0__clients=16), "16 clients"),
        (made(name="mine/a"), "mine/a on Redis with 1,000 records"),
        (made(groups__0__arrival=OPEN), "A on Redis with 1,000 records at 5,000 ops/s"),
        (made(dataset__count=2000), "A on Redis with 2,000 records"),
        (made(phases__2__duration_ns=20), "duration_ns 20"),
        (made(system__options={"consistency": "QUORUM"}), "consistency QUORUM"),
        (made(store="Valkey"), "A on Valkey with 1,000 records"),
        (made(spec={"study": {"id": "s", "repetition": 0, "levels": {"nodes": "3"}}}), "nodes 3"),
        (made(spec={"faults": [{"at_ns": 1, "act": "kill"}]}), "act kill"),
        (made(groups__0__mix=[{"kind": "read", "weight": 0.9}]), "weight 0.9"),
    ],
    ids=["clients", "folder", "rate", "records", "duration", "option", "store", "level", "fault",
         "mix"],
)  # fmt: skip
def test_whatever_else_differs_makes_another_case_and_is_in_its_name(
    other: Made, told: str
) -> None:
    found = by_case([made(), other, made()])
    assert [len(runs) for runs in found.values()] == [2, 1]
    assert told in list(found)[1].title


def test_cases_across_systems_have_no_system_in_their_names() -> None:
    runs = [made(), made(store="RocksDB", system__options={"wal": "on"})]
    assert titles(*runs, across_systems=True) == ["A with 1,000 records"]
    levels = [{"study": {"id": "s", "repetition": 0, "levels": {"store": one}}} for one in "ab"]
    assert titles(*(made(spec=spec) for spec in levels), across_systems=True) == [
        "A with 1,000 records"
    ]


def test_what_earlier_steps_of_a_sequence_left_makes_no_other_case() -> None:
    sequence = {"sequence": {"records": 1000, "repetition": 0}}
    later = {"sequence": {"records": 1000, "repetition": 1}}
    runs = [made(spec=sequence), made(spec=later, dataset__count=1063)]
    assert titles(*runs) == ["A on Redis with 1,000 records"]
    assert len(titles(*runs, made())) == 2


def test_cases_that_differ_in_more_than_can_be_told_have_names_of_their_own() -> None:
    runs = [
        made(**{f"groups__0__more{n}": value for n in range(6)}, groups__0__last=value)
        for value in range(3)
    ]
    assert len(set(titles(*runs))) == 3


def test_a_case_of_a_study_is_called_by_its_levels() -> None:
    assert Case.of_levels({"nodes": "3", "clients": "8"}).title == "nodes 3, clients 8"
    assert Case.of_levels({}).title == "the only case"


@pytest.mark.parametrize(
    ("spec", "block", "repetition"),
    [
        ({"ab": {"name": "ab:1", "side": "base", "block": 2}}, ("ab:1", 2), 2),
        ({"capacity": {"name": "capacity:1", "number": 4, "rate": 10}}, ("capacity:1", 4), 4),
        ({"study": {"id": "s", "repetition": 1}}, ("s", 1), 1),
        ({"sequence": {"records": 10, "repetition": 3}}, None, 3),
        ({}, None, None),
    ],
)
def test_a_run_knows_its_block(
    spec: dict[str, Any], block: tuple[str, int] | None, repetition: int | None
) -> None:
    manifest = made(spec=spec).manifest
    found = block_of(manifest)
    assert (found and (found.experiment, found.number)) == block
    assert repetition_of(manifest) == repetition
