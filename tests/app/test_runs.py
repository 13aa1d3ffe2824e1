"""Applications as a user runs them, and the published report as a study."""

import re
from typing import Any

import pytest
from command_line import Kvmark

from kvmark import catalog
from kvmark.cli.session import named_system
from kvmark.experiment.study.cases import Case
from kvmark.experiment.study.definition import Study, StudyRequest, published_for
from kvmark.spec.study import parse_study
from kvmark.testbed.console import Console
from kvmark.testbed.state import Testbed

SHORT = ("--num_threads_read", "3", "--num_threads_write", "2", "--num_writes", "400")
SHORT = (*SHORT, "--num_reads", "600", "--interval", "100ms", "--json", "--quiet")
ROWS = [
    "Read throughput", "Read response time", "Read service time",
    "Write throughput", "Write response time", "Write service time",
    "Load tester CPU, user", "Load tester CPU, system",
    "Cluster node CPU, user", "Cluster node CPU, system",
]  # fmt: skip


def table(kvmark: Kvmark, *words: object, exits: int = 0) -> Any:
    return kvmark("app", *words, exits=exits).json["table"]


def count(kvmark: Kvmark, run: str, group: str) -> int:
    totals = kvmark.manifest(run)["engine"]["totals"]
    return sum(one["count"] for one in totals if one["group"] == group)


@pytest.mark.parametrize(("name", "more"), [
    ("RedisKeyValue", ()),
    ("RedisKeyValue", ("--value_size", "100")),
    ("RedisPipelinedKeyValue", ("--pipeline_length", "8")),
    ("RedisHashPipelined", ("--pipeline_length", "2", "--value_size", "40")),
])  # fmt: skip
def test_an_application_reads_back_what_it_wrote(
    kvmark: Kvmark, server: Testbed, name: str, more: tuple[str, ...]
) -> None:
    words = (name, "--system", server.url, "--num_unique_keys", "50", *SHORT, *more)
    found = kvmark("app", *words).json
    answer = found["table"]
    assert [row["name"] for row in answer["rows"]] == ROWS
    assert (answer["mismatches"], answer["misses"]) == (0, 0)
    assert (answer["writers"], answer["readers"]) == (2, 3)
    length = answer["commands"]["Read"]
    assert count(kvmark, found["run"], "readers") * length >= 600


def test_a_wrong_value_is_counted_and_ends_with_code_1(kvmark: Kvmark, server: Testbed) -> None:
    words = ("RedisKeyValue", "--system", server.url, "--nouuid", "--num_unique_keys", "40", *SHORT)
    assert table(kvmark, *words)["mismatches"] == 0
    Console("redis", {"address": server.nodes[0].address}).ask("SET", "key:7", "val:8")
    answer = kvmark("app", *words, "--read_only", exits=1)
    assert "returned wrong values" in answer.err
    assert answer.json["table"]["mismatches"] > 0


def test_without_writers_keys_are_written_first(kvmark: Kvmark, server: Testbed) -> None:
    words = ("RedisKeyValue", "--system", server.url, "--num_unique_keys", "70", "--json", "-q")
    words = (*words, "--num_threads_write", "0", "--num_threads_read", "2", "--num_reads", "300")
    answer = table(kvmark, *words)
    assert (answer["writers"], answer["misses"], answer["mismatches"]) == (0, 0, 0)
    write = next(row for row in answer["rows"] if row["name"] == "Write throughput")
    assert write["spread"]["mean"] == 0


def test_cpu_time_of_other_servers_is_reported_as_unknown(kvmark: Kvmark) -> None:
    answer = table(kvmark, "CassandraKeyValue", "--system", "null:", *SHORT)
    assert "is unknown" in answer["unknown"][0]
    node = next(row for row in answer["rows"] if row["name"] == "Cluster node CPU, user")
    assert node["spread"] is None
    text = kvmark("app", "CassandraKeyValue", "--system", "null:", *SHORT[:-2], "-q").out
    assert "--observe http://HOST:9100/metrics" in text
    assert "Verdict" in text


def test_an_application_runs_as_a_workload_too(kvmark: Kvmark) -> None:
    words = ("apps/RedisKeyValue", "--system", "sim:", "--records", "100", "--operations", "200")
    refused = kvmark("run", *words, "-q", exits=1)
    assert "mismatch" in refused.out


def test_help_lists_applications_flags_and_the_file_to_copy(kvmark: Kvmark) -> None:
    every = kvmark("app", "--help").out
    assert "RedisHashPipelined" in every
    assert "--non_transactional_index" in every
    one = kvmark("app", "RedisKeyValue", "--help").out
    assert "--use_redis_cluster" in one
    assert "--batch_write" not in one
    assert "name: apps/RedisKeyValue" in one


NAME = "yugabyte-1.0.7"


@pytest.fixture(scope="module")
def study() -> Study:
    """The ready study, as large as it is written."""
    file = parse_study(catalog.study_text(NAME), f"{NAME}.yaml")
    return Study(file, StudyRequest(scale=1.0), named_system)


def case(study: Study, **labels: str) -> Case:
    """The one case with these levels."""
    (found,) = (one for one in study.cases if labels.items() <= one.labels.items())
    return found


def test_every_case_is_published_and_each_application_has_its_ends(study: Study) -> None:
    assert len(study.published) == 35 + 6
    known = [one.labels["application"] for one in study.cases]
    assert set(known) == {one.levels["application"] for one in study.published}
    assert 15 <= len(known) <= 30
    assert all(published_for(one.labels, study.published) for one in study.cases)


def test_all_280_published_rows_stand_beside_a_case(study: Study) -> None:
    rows = sum(len(one.spreads) for one in study.published)
    assert rows == 280
    both = published_for(
        {"application": "CassandraKeyValue", "writers": "192", "readers": "16"}, study.published
    )
    assert both is not None
    assert both.spreads["Read latency, ms/op"]["mean"] == 0.81
    # Readers and writers together.
    assert both.figures["throughput"] == pytest.approx(19798.69 + 76801.56)


def test_a_workload_s_published_rate_is_that_of_all_its_operations(study: Study) -> None:
    scans = published_for(case(study, application="workloade").labels, study.published)
    assert scans is not None
    assert scans.figures == {"throughput": 14007.41}
    assert scans.operations["SCAN"] == {"mean_us": 17633.02, "p99_us": 50303.0}


def test_batches_and_pipelines_have_the_length_that_littles_law_gives(study: Study) -> None:
    def commands(application: str) -> list[int]:
        plan = study.plan(case(study, application=application, writers="10", readers="6"))
        return [one.commands.get("size", 0) for one in plan.statements[:2]]

    assert commands("RedisPipelinedKeyValue") == [480, 480]
    batches = study.plan(case(study, application="CassandraBatchKeyValue", writers="64"))
    assert batches.statements[0].commands["size"] == 100


def test_the_transactional_application_has_accord_s_transactions(study: Study) -> None:
    writes = case(study, application="CassandraTransactionalKeyValue", writers="32")
    testbed, plan = study.testbed(writes), study.plan(writes)
    assert testbed is not None
    assert testbed.version == "6.0"
    (text,) = next(one.texts for one in plan.statements if one.name == "WRITE")
    assert text.startswith("BEGIN TRANSACTION")
    assert any("transactional_mode = 'full'" in one for one in plan.prepare)


def test_the_document_has_the_published_rows_below_the_measured_ones(
    kvmark: Kvmark, server: Testbed
) -> None:
    only = ("--only", "application=RedisPipelinedKeyValue", "--only", "writers=10")
    words = ("study", NAME, "--system", server.url, *only, "--scale", "0.05", "-q")
    kvmark(*words, "--repetitions", "1", "--report", "found.md", exits=(0, 1))
    text = (kvmark.folder / "found.md").read_text()
    assert "RedisPipelinedKeyValue, 10 writers, 6 readers" in text
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    place = next(i for i, line in enumerate(lines) if line[:1] == ["Write service time, ms/op"])
    assert lines[place][1] == "measured"
    assert lines[place + 1][1:4] == ["published", "22.23", "16.35"]
    # A pipeline of 480 commands counts as 480 operations, as in the published rows.
    reads = next(line for line in lines if line[:1] == ["Read throughput, ops/sec"])
    _, _, every_case = text.partition("## Every case")
    (row,) = re.findall(r"^\| RedisPipelinedKeyValue +\| +10 \| +6 \| +([\d,]+)", every_case, re.M)
    assert float(reads[2]) > 480
    assert float(row.replace(",", "")) > float(reads[2])
