"""The applications have the original's defaults and each server's dialect; flags change them."""

import uuid
from typing import Any

import pytest
from applications import SERVERS, plan, request, run, workload

from kvmark.errors import SpecError
from kvmark.frontends.yugabyte_apps.workload import removals, server_notes, server_of
from kvmark.secret import Secret
from tables import check, table

INDEX = "CassandraSecondaryIndex"
PAIRS = "CassandraTransactionalKeyValue"
PLANS = table(__file__, "plans.toml")


@pytest.mark.parametrize("case", PLANS.values(), ids=PLANS)
def test_a_command_line_has_its_plan(case: dict[str, Any]) -> None:
    check(plan(case["line"], case.get("server", "cassandra")), case["plan"])


@pytest.mark.parametrize(("line", "sentence"), table(__file__, "refusals.toml")["refused"])
def test_a_mistake_is_one_sentence_that_names_the_flag(line: str, sentence: str) -> None:
    with pytest.raises(SpecError) as error:
        workload(line)
    assert str(error.value) == sentence


def test_keys_have_a_uuid_as_prefix_unless_nouuid_is_passed() -> None:
    def prefix(flags: str) -> str:
        return str(plan(f"RedisKeyValue {flags}")["dataset"]["key"]["prefix"])

    given = str(uuid.uuid4())
    assert prefix(f"--uuid {given}") == f"{given}:"
    assert prefix("--nouuid") == "key:"
    assert prefix("") != prefix("")
    assert len(prefix("")) == 37


def test_the_number_of_metrics_follows_the_seed() -> None:
    def metrics(words: str) -> int:
        write, _ = plan(f"CassandraBatchTimeseries {words}")["statements"]
        (series,) = (one for one in write["arguments"] if one["name"] == "series")
        return int(series["generator"]["modulus"])

    assert 5_000 <= metrics("--seed 3") < 10_000
    assert metrics("--seed 3") == metrics("--seed 3") != metrics("--seed 4")


def test_a_login_is_no_option() -> None:
    system = run("CassandraKeyValue --username a --password b").system
    assert system.password == Secret("b")
    assert "b" not in system.options.values()


def test_a_server_s_kind_follows_from_its_version_and_system_tables() -> None:
    local = frozenset({"local", "peers_v2"})
    assert server_of("5.0.6", local, accord=None) == server_of("5.0.6", local, accord=True)
    assert not server_of("5.0.6", local, accord=None).has_transactions
    assert server_of("6.0-alpha1", local, accord=True).has_transactions
    assert not server_of("6.0-alpha1", local, accord=False).has_transactions
    yugabyte = server_of("3.9-SNAPSHOT", local | {"partitions"}, accord=None)
    assert (yugabyte.kind, yugabyte.has_transactions) == ("yugabyte", True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("CassandraKeyValue", ["drop TABLE keyvalue"]),
        ("CassandraKeyValue --truncate", ["empty TABLE keyvalue"]),
        ("CassandraKeyValue --keep_table", []),
        ("CassandraKeyValue --skip_ddl", []),
        # A view is dropped before its table.
        (f"{INDEX} --index view",
         ["drop MATERIALIZED VIEW secondaryindexbyvalue", "drop TABLE secondaryindex"]),
        (f"{INDEX} --index view --truncate", ["empty TABLE secondaryindex"]),
    ],
)  # fmt: skip
def test_flags_drop_keep_or_empty_the_table(line: str, expected: list[str]) -> None:
    removed = removals(workload(line).prepare, request(line))
    told = [f"{one.verb} {one.kind} {one.name}" for one in removed]
    assert [text.replace("ybdemo_keyspace.cassandra", "") for text in told] == expected


def test_cassandra_5_notes_that_pairs_are_not_isolated() -> None:
    (sentence,) = server_notes(request(PAIRS), SERVERS["cassandra"])
    assert "not isolated" in sentence
    assert sentence.startswith("Cassandra 5.0.3")
    assert server_notes(request(PAIRS), SERVERS["accord"]) == ()
    assert server_notes(request("RedisKeyValue"), SERVERS["cassandra"]) == ()


def test_yugabytedb_has_no_other_indexes() -> None:
    with pytest.raises(SpecError, match="YugabyteDB has no sai"):
        workload(f"{INDEX} --index sai", "yugabyte")
