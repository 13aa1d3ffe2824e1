"""User profiles: tables, distributions, statements and their plans."""

from pathlib import Path
from typing import Any

import pytest

from kvmark.errors import KvmarkError, PlanError, SpecError
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
from kvmark.plan.model import AtRates, Plan, Rows

PROFILE = """
keyspace: ks
table: t
table_definition: |
  CREATE TABLE t (a int, b text, c int, d list<int>, e frozen<pair>, f map<text, int>,
    g float, PRIMARY KEY ((a, b), c)) WITH CLUSTERING ORDER BY (c DESC)
extra_definitions:
  - CREATE TYPE pair (x int, y text)
  - CREATE INDEX ON t (g)
columnspec:
  - {name: c, cluster: uniform(2..5)}
  - {name: d, size: fixed(3)}
insert: {batchtype: LOGGED, select: fixed(1)/2}
queries:
  one: {cql: "SELECT * FROM t WHERE a = ? AND b = ? AND c >= ?", fields: multirow}
  put: {cql: "INSERT INTO t (a, b, c) VALUES (?, ?, ?)", consistencyLevel: ONE}
token_range_queries:
  all: {columns: "a, b", page_size: 100}
"""


def planned(ops: str, *profiles: Profile, more: str = "") -> Plan:
    """The plan of operations of these profiles, for four clients."""
    spec = read_stress(f"user profile=p.yaml ops({ops}) n=10 no-warmup {more}".split())
    return StressPlans(spec, profiles, "cql", {}).plan(4)


def compiled(ops: str, text: str = PROFILE, more: str = "") -> Plan:
    return planned(ops, read_profile(text, "p.yaml"), more=more)


def rows_of(plan: Plan, place: int = 0) -> Rows:
    rows = plan.statements[place].rows
    assert rows is not None
    return rows


def test_a_table_s_columns_types_and_key_are_read(data: Path) -> None:
    events = load_profile(data / "user-profile-clustering.yaml")
    assert events.table.partition == ("host",)
    assert events.table.clustering == ("slot", "sub")
    assert events.table.values == ("body", "level")
    assert events.columns["slot"].cluster == fixed(4)
    sensor = load_profile(data / "user-profile.yaml")
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


def test_an_insert_writes_all_columns_of_some_rows_in_a_batch() -> None:
    plan = compiled("insert=1")
    statement = plan.statements[0]
    assert statement.texts == (
        'UPDATE "ks"."t" SET "d" = "d" + {c3}, "e" = {c4}, "f" = {c5}, "g" = {c6}'
        ' WHERE "a" = {c0} AND "b" = {c1} AND "c" = {c2}',
    )
    assert statement.options == {"batch": "logged"}
    rows = rows_of(plan)
    count: Any = rows.clustering[0]["count"]
    law = count | {"min": 1, "max": 1}
    assert rows.visit == {"rows": "each", "law": law, "of": 2}
    assert (count["min"], count["max"]) == (2, 5)


def test_the_command_line_s_insert_parameters_win() -> None:
    plan = compiled(
        "insert=1",
        more="-insert batchtype=unlogged partitions=fixed(3) select-ratio=fixed(1)/1"
        " row-population-ratio=fixed(1)/2",
    )
    rows = rows_of(plan)
    assert plan.statements[0].options == {"batch": "unlogged"}
    assert (rows.partitions, rows.partitions_in_all, rows.filled["of"]) == ((3,), 10, 2)
    assert plan.phases[0].groups[0].operations == 4


def test_an_operation_s_partitions_follow_their_distribution_and_n_counts_them() -> None:
    text = PROFILE.replace("batchtype: LOGGED", "partitions: uniform(1..50)")
    plan = compiled("insert=1", text, "-rate threads=4 fixed=1000/s")
    rows = rows_of(plan)
    assert {*rows.partitions} == {*range(1, 51)}
    assert rows.mean_partitions == pytest.approx(25.5, rel=0.05)
    assert rows.visited(10**6) == rows.partitions_in_all == 10
    assert plan.phases[0].groups[0].operations == rows.operations_for(10)
    arrival = plan.groups[0].arrival
    assert isinstance(arrival, AtRates)
    assert arrival.rates[0].rate == pytest.approx(1000 / rows.mean_partitions)
    mixed = compiled("insert=1,one=1", text.replace("uniform(1..50)", "fixed(9)"))
    assert mixed.phases[0].groups[0].operations == 2
    many = rows.model_copy(update={"partitions": (3, 1, 6), "partitions_in_all": None})
    assert [many.visited(n) for n in (0, 1, 2, 3, 4, 31)] == [0, 3, 4, 10, 13, 103]
    assert [many.operations_for(n) for n in (1, 3, 4, 5, 10, 11, 100)] == [1, 1, 2, 3, 3, 4, 30]


def test_a_profile_has_cassandra_stress_s_defaults() -> None:
    text = PROFILE.replace("insert: {batchtype: LOGGED, select: fixed(1)/2}\n", "")
    text = text.replace(", fields: multirow", "")
    plan = compiled("insert=1,one=1", text)
    assert plan.statements[0].options == {"batch": "logged"}
    assert rows_of(plan).partitions == (1,)
    assert rows_of(plan, 1).visit == {"rows": "several"}


def test_a_write_of_many_clustering_columns_ends_where_cassandra_stress_s_does(data: Path) -> None:
    """Compared with 3.11.4: one row of each partition, however many there could be."""
    plan = planned("insert=1", load_profile(data / "example.yaml"))
    assert rows_of(plan).ends == (80, 0, 0, 0, 0, 0)


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


def test_the_operations_of_several_profiles_run_together(data: Path) -> None:
    names = ("example", "counter-example", "insanity-example", "lwt-example")
    profiles = (load_profile(data / f"{name}.yaml") for name in names)
    ops = "wide.insert=1,counts.insert=2,types.insert=1,posts.insert=1,simple1=1"
    statements = planned(ops, *profiles).statements
    wide, counts, types, posts, first = (one.texts[0] for one in statements)
    assert "readings" in wide
    assert "readings" in first
    assert '"count" = "count" + {c1}' in counts
    assert '"tags" = "tags" + ' in types
    assert '"whole_list" = {' in types
    assert posts.endswith("IF body = NULL")


def test_user_defined_types_and_collections_have_values() -> None:
    rows = rows_of(compiled("insert=1"))
    made: dict[str, Any] = {column["label"]: column["becomes"] for column in rows.values}
    pair = made["seed for stresse"]
    assert [part["label"] for part in pair["of"]] == ["seed for stresse.x", "seed for stresse.y"]
    element = made["seed for stressd"]["of"]
    assert element["label"] == "seed for stressd"
    assert (rows.values[0]["size"]["min"], element["becomes"]["bits"]) == (3, 32)
    assert made["seed for stressf"]["type"] == "map"
    assert made["seed for stressg"]["single"]


def test_a_query_s_markers_are_the_columns_before_them() -> None:
    plan = compiled("one=1,put=1")
    one, put = plan.statements
    assert one.texts == ("SELECT * FROM t WHERE a = {c0} AND b = {c1} AND c >= {c2}",)
    assert rows_of(plan).visit == {"rows": "several"}
    assert put.texts == ("INSERT INTO t (a, b, c) VALUES ({c0}, {c1}, {c2})",)
    assert put.options == {"consistency": "one"}
    assert [weight.kind for weight in plan.groups[0].mix] == ["read", "update"]


def test_token_ranges_cover_the_ring_once() -> None:
    plan = compiled("all=1", more="-tokenrange split-factor=2")
    (statement,) = plan.statements
    assert statement.texts == (
        'SELECT a, b FROM "ks"."t" WHERE token("a", "b") >= {first} AND token("a", "b") <= {last}',
    )
    first, last = (argument.generator for argument in statement.arguments)
    assert (first["modulus"], first["factor"] * 512) == (512, 2**64)
    assert first["start"] == -(2**63)
    assert last["start"] + 511 * last["factor"] == 2**63 - 1
    assert plan.phases[0].groups[0].operations == 10
    wide = compiled("all=1")
    assert wide.statements[0].options == {"page_size": 100}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("table: t\n", "table: u\n"), "table is 'u', but table_definition makes 't'"),
        (("name: d", "name: dd"), "columnspec: the table has no column 'dd'"),
        (("fixed(3)", "fixd(3)"), "'fixd' is not a distribution — did you mean 'fixed'?"),
        (("queries:", "querys:"), "did you mean 'queries'?"),
        (("PRIMARY KEY ((a, b), c)", "h int"), "names no PRIMARY KEY"),
        (("batchtype: LOGGED", "visits: fixed(2)"), "unknown key 'visits'"),
        (("batchtype: LOGGED", "partitions: uniform(0..5)"), "stay between 1 and 65,535"),
        (("select: fixed(1)/2", "select: fixed(0)/2"), "selects no row"),
    ],
)
def test_a_profile_s_mistakes_are_reported_with_the_file(
    change: tuple[str, str], sentence: str
) -> None:
    assert change[0] in PROFILE
    with pytest.raises(SpecError) as error:
        read_profile(PROFILE.replace(*change), "p.yaml")
    assert str(error.value).startswith("p.yaml")
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("ops", "change", "sentence"),
    [
        ("two=1", ("", ""), "there is no operation 'two'"),
        ("one=1", ("a = ? AND", "z = ? AND"), "binds 'z'"),
        ("one=1", ("c >= ?", "c >= 1 LIMIT ?"), "write :column in place of the question mark"),
        ("insert=1", ("g float", "g duration"), "there are no values of type duration"),
        ("insert=1", ("c int,", "c list<int>,"), "a clustering column can't be a collection"),
    ],
)
def test_impossible_operations_are_rejected(
    ops: str, change: tuple[str, str], sentence: str
) -> None:
    with pytest.raises(PlanError, match=sentence.replace("?", r"\?")):
        compiled(ops, PROFILE.replace(*change) if change[0] else PROFILE)


def test_an_operation_can_be_named_by_its_profile() -> None:
    text = f"specname: mine\n{PROFILE}"
    assert compiled("mine.one=1", text).statements[0].name == "mine.one"
    with pytest.raises(KvmarkError, match=r"no operation 'other\.one'"):
        compiled("other.one=1", text)


def test_columns_have_cassandra_stress_s_defaults() -> None:
    rows = rows_of(compiled("insert=1"))
    (a, b) = rows.partition
    assert (b["identity"]["min"], b["identity"]["max"]) == (1, 10**11)
    assert (b["size"]["min"], b["size"]["max"]) == (4, 8)
    assert a["count"] == b["count"]
