"""User profiles: tables, distributions, statements and their plans."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import PlanError, SpecError
from kvmark.frontends.cassandra_stress.options import read_stress
from kvmark.frontends.cassandra_stress.plan import StressPlans
from kvmark.frontends.cassandra_stress.profiles import (
    Law,
    Profile,
    Type,
    create_if_missing,
    fixed,
    load_profile,
    parse_law,
    read_profile,
    read_table,
    read_types,
)
from kvmark.plan.model import AtRates, Plan
from tables import check, table

HERE = Path(__file__).parent
PROFILE = (HERE / "profile.yaml").read_text()
CASES = table(__file__, "cases.toml")
REFUSALS = table(__file__, "refusals.toml")


def changed(changes: Mapping[str, str]) -> Profile:
    text = PROFILE
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return read_profile(text, "p.yaml")


def planned(line: str, *profiles: Profile) -> Plan:
    """The plan for four clients."""
    return StressPlans(read_stress(line.split()), profiles, "cql", {}).plan(4)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_command_line_has_its_plan(case: dict[str, Any]) -> None:
    line = case["line"]
    check(read_stress(line.split()).as_json()["stress"], case.get("spec", {}))
    if "plan" in case:
        files = [load_profile(HERE / "data" / f"{one}.yaml") for one in case.get("profiles", ())]
        profiles = files or [changed(case.get("changes", {}))]
        check(planned(line, *profiles).model_dump(mode="json"), case["plan"])


def test_a_table_s_columns_types_and_key_are_read() -> None:
    events = load_profile(HERE / "data" / "user-profile-clustering.yaml")
    assert events.table.partition == ("host",)
    assert events.table.clustering == ("slot", "sub")
    assert events.table.values == ("body", "level")
    assert events.columns["slot"].cluster == fixed(4)
    sensor = load_profile(HERE / "data" / "user-profile.yaml")
    assert sensor.table.partition == ("id",)
    assert sensor.columns["grade"].population == Law(1, 1000, "gaussian", mean=500, stddev=120)
    assert sensor.columns["note"].size == Law(4, 60, "gaussian", mean=32, stddev=28 / 3)


def test_types_are_nested() -> None:
    table = read_table(
        'create table if not exists "K".T (k uuid primary key, v map<text, frozen<set<int>>>,'
        " u frozen<Pair>, s int static) with compression = {'enabled': false};"
    )
    assert table.name == "t"
    assert table.columns["v"] == Type(
        "map", (Type("text"), Type("set", (Type("int"),), frozen=True))
    )
    assert table.columns["u"] == Type("pair", frozen=True)
    types = read_types(("CREATE TYPE ks.Pair (x int, y list<text>)", "CREATE INDEX i ON t (v)"))
    assert types == {"pair": {"x": Type("int"), "y": Type("list", (Type("text"),))}}


def test_existing_objects_are_not_created() -> None:
    made = create_if_missing("CREATE KEYSPACE k WITH x = {};")
    assert made == create_if_missing(made) == "CREATE KEYSPACE IF NOT EXISTS k WITH x = {}"


def test_distributions_have_cassandra_stress_s_averages() -> None:
    """Compared with 3.11.4."""
    averages = {
        "fixed(7)": 7,
        "uniform(1..4)": 2,
        "uniform(20..40)": 30,
        "gaussian(1..9)": 4,
        "gaussian(1..100,30,10)": 29,
        "exp(1..100)": 39,
        "~exp(1..100)": 61,
        "extr(1..50,2)": 30,
        "seq(1..9)": 4,
    }
    assert {text: parse_law(text).average for text in averages} == averages


def test_an_operation_s_partitions_follow_their_distribution_and_n_counts_them() -> None:
    profile = changed({"batchtype: LOGGED": "partitions: uniform(1..50)"})
    line = "user profile=p.yaml ops(insert=1) n=10 no-warmup -rate threads=4 fixed=1000/s"
    plan = planned(line, profile)
    rows = plan.statements[0].rows
    assert rows is not None
    assert {*rows.partitions} == {*range(1, 51)}
    assert rows.mean_partitions == pytest.approx(25.5, rel=0.05)
    assert rows.visited(10**6) == rows.partitions_in_all == 10
    assert plan.phases[0].groups[0].operations == rows.operations_for(10)
    arrival = plan.groups[0].arrival
    assert isinstance(arrival, AtRates)
    assert arrival.rates[0].rate == pytest.approx(1000 / rows.mean_partitions)
    many = rows.model_copy(update={"partitions": (3, 1, 6), "partitions_in_all": None})
    assert [many.visited(n) for n in (0, 1, 2, 3, 4, 31)] == [0, 3, 4, 10, 13, 103]
    assert [many.operations_for(n) for n in (1, 3, 4, 5, 10, 11, 100)] == [1, 1, 2, 3, 3, 4, 30]


@pytest.mark.parametrize(("old", "new", "sentence"), REFUSALS["profile"])
def test_a_profile_s_mistakes_are_reported_with_the_file(old: str, new: str, sentence: str) -> None:
    with pytest.raises(SpecError) as error:
        changed({old: new})
    assert str(error.value).startswith("p.yaml")
    assert sentence in str(error.value)


@pytest.mark.parametrize(("ops", "old", "new", "sentence"), REFUSALS["operations"])
def test_impossible_operations_are_rejected(ops: str, old: str, new: str, sentence: str) -> None:
    with pytest.raises(PlanError, match=re.escape(sentence)):
        planned(f"user profile=p.yaml ops({ops}) n=10 no-warmup", changed({old: new}))
