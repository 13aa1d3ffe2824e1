"""The published report as a study: its cases and rows, and its tables next to kvmark's."""

import re

import pytest
from command_line import Kvmark

from kvmark import catalog
from kvmark.cli.session import named_system
from kvmark.experiment.study.cases import Case
from kvmark.experiment.study.definition import Study, StudyRequest, published_for
from kvmark.spec.study import parse_study
from kvmark.testbed.state import Testbed

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


def test_every_published_pair_and_workload_is_a_case_and_no_other(study: Study) -> None:
    assert len(study.cases) == len(study.published) == 35 + 6
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
        plan = study.plan(case(study, application=application, writers="4", readers="12"))
        return [one.commands.get("size", 0) for one in plan.statements[:2]]

    assert commands("RedisPipelinedKeyValue") == [480, 480]
    batches = study.plan(case(study, application="CassandraBatchKeyValue", writers="32"))
    assert batches.statements[0].commands["size"] == 100


def test_the_transactional_application_has_accord_s_transactions(study: Study) -> None:
    mixed = case(study, application="CassandraTransactionalKeyValue", writers="12")
    testbed, plan = study.testbed(mixed), study.plan(mixed)
    assert testbed is not None
    assert testbed.version == "6.0"
    (text,) = next(one.texts for one in plan.statements if one.name == "WRITE")
    assert text.startswith("BEGIN TRANSACTION")
    assert any("transactional_mode = 'full'" in one for one in plan.prepare)


def test_the_document_has_the_published_rows_below_the_measured_ones(
    kvmark: Kvmark, server: Testbed
) -> None:
    only = ("--only", "application=RedisPipelinedKeyValue", "--only", "writers=14")
    words = ("study", NAME, "--system", server.url, *only, "--scale", "0.004", "-q")
    kvmark(*words, "--report", "found.md", exits=(0, 1))
    text = (kvmark.folder / "found.md").read_text()
    assert "RedisPipelinedKeyValue, 14 writers, 3 readers" in text
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    place = next(i for i, line in enumerate(lines) if line[:1] == ["Write service time, ms/op"])
    assert lines[place][1] == "measured"
    assert lines[place + 1][1:4] == ["published", "20.13", "16.63"]
    # A pipeline of 480 commands counts as 480 operations, as in the published rows.
    reads = next(line for line in lines if line[:1] == ["Read throughput, ops/sec"])
    (row,) = re.findall(r"^\| RedisPipelinedKeyValue +\| +14 \| +3 \| +([\d,]+)", text, re.M)
    assert float(reads[2]) > 480
    assert float(row.replace(",", "")) > float(reads[2])
