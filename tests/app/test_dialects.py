"""Tables, indexes and transactions in the dialect of each server."""

import re

import pytest
from applications import ACCORD, CASSANDRA, YUGABYTE, request, workload

from kvmark.errors import SpecError
from kvmark.frontends.yugabyte_apps.workload import removals, server_notes, server_of
from kvmark.spec.owned_tables import TABLE_MARK

INDEX = "CassandraSecondaryIndex"
PAIRS = "CassandraTransactionalKeyValue"


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


def test_created_tables_have_kvmark_s_mark() -> None:
    keyspace, table = workload("CassandraKeyValue").prepare
    assert keyspace.startswith("CREATE KEYSPACE")
    assert table.startswith("CREATE TABLE")
    assert TABLE_MARK in table


def test_another_table_name_is_used_everywhere() -> None:
    made = workload("CassandraKeyValue --create_table_name Mine --table_ttl_seconds 60")
    texts = [*made.prepare[1:], *(text for one in made.statements.values() for text in one.run)]
    assert all("ybdemo_keyspace.mine" in text for text in texts)
    assert "WITH default_time_to_live = 60\nAND comment" in made.prepare[1]


def test_expiry_is_replaced_or_removed() -> None:
    for flags, expiry in (
        ("", ["86400"]),
        ("--table_ttl_seconds 60", ["60"]),
        ("--table_ttl_seconds -1", []),
    ):
        texts = "\n".join(workload(f"CassandraBatchTimeseries {flags}").prepare)
        assert re.findall(r"default_time_to_live = (\d+)\n", texts) == expiry


def test_cassandra_5_writes_pairs_in_logged_batches_and_notes_the_missing_isolation() -> None:
    write = workload(PAIRS, CASSANDRA).statements["WRITE"]
    assert len(write.run) == 2
    assert write.options == {"batch": "logged"}
    (sentence,) = server_notes(request(PAIRS), CASSANDRA)
    assert "not isolated" in sentence
    assert sentence.startswith("Cassandra 5.0.3")
    assert server_notes(request(PAIRS), ACCORD) == ()
    assert server_notes(request("RedisKeyValue"), CASSANDRA) == ()


@pytest.mark.parametrize(
    ("server", "end", "option"),
    [
        (ACCORD, "COMMIT TRANSACTION;", "WITH transactional_mode = 'full'"),
        (YUGABYTE, "END TRANSACTION;", "WITH transactions = {'enabled': true}"),
    ],
    ids=["Accord", "YugabyteDB"],
)
def test_servers_with_transactions_get_them(server: object, end: str, option: str) -> None:
    made = workload(PAIRS, server)  # type: ignore[arg-type]
    write = made.statements["WRITE"]
    (text,) = write.run
    assert text.startswith("BEGIN TRANSACTION INSERT INTO")
    assert text.endswith(end)
    assert text.count("INSERT INTO") == 2
    assert not write.options
    (read,) = made.statements["READ"].run
    assert read.startswith("BEGIN TRANSACTION SELECT") == (server is ACCORD)
    create = next(text for text in made.prepare if text.startswith("CREATE TABLE"))
    assert f"{option}\nAND comment" in create


def test_the_reader_of_a_pair_checks_rows_sum_and_time() -> None:
    read = workload(PAIRS).statements["READ"]
    assert [one.model_dump(exclude_defaults=True) for one in read.check] == [
        {"rows": 2},
        {"column": 1, "sum": "ordinal"},
        {"column": 2, "same": True},
    ]


def test_cassandra_looks_rows_up_in_the_requested_kind_of_index() -> None:
    plain = workload(INDEX).prepare[-1]
    for kind, begin in (
        ("secondary", "CREATE INDEX IF NOT EXISTS cassandrasecondaryindexbyvalue"),
        ("sai", f"{plain} USING 'sai'"),
        ("view", "CREATE MATERIALIZED VIEW IF NOT EXISTS ybdemo_keyspace."),
        ("table", "CREATE TABLE IF NOT EXISTS ybdemo_keyspace."),
    ):
        text = workload(f"{INDEX} --index {kind}").prepare[-1]
        assert text.startswith(begin)
        assert (text == plain) == (kind == "secondary")


def test_a_second_table_is_written_with_the_first_and_read() -> None:
    made = workload(f"{INDEX} --index table")
    assert len(made.statements["WRITE"].run) == 2
    assert made.statements["WRITE"].options == {"batch": "logged"}
    assert "cassandrasecondaryindexbyvalue WHERE v = {value}" in made.statements["READ"].run[0]


def test_yugabytedb_has_its_own_indexes_and_no_others() -> None:
    *_, create, index = workload(INDEX, YUGABYTE).prepare
    assert "WITH transactions = {'enabled': true}\nAND comment" in create
    assert "WITH" not in index
    weak = workload(f"{INDEX} --non_transactional_index", YUGABYTE).prepare
    assert weak[-1].endswith(
        "WITH transactions = {'enabled': false, 'consistency_level': 'user_enforced'}"
    )
    assert "WITH transactions" not in weak[-2]
    with pytest.raises(SpecError, match="YugabyteDB has no sai"):
        workload(f"{INDEX} --index sai", YUGABYTE)
