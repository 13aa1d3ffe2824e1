"""Cases: their combinations and order."""

from itertools import pairwise

import pytest
from studies import MakeStudy

from kvmark import catalog
from kvmark.errors import SpecError, UsageError
from kvmark.experiment.study.definition import Study

TEXT = """
system: "null:"
workload: ycsb/a
factors:
  clients: [1, 2, 3]
  keys: {path: workload.groups.clients.keys, levels: [uniform, sequential]}
exclude:
  - {clients: [2, 3], keys: sequential}
repetitions: 5
seed: 3
"""


def titles(study: Study) -> list[str]:
    """The cases in words."""
    return [case.title for case in study.cases]


def test_all_combinations_are_cases_but_those_that_a_rule_excludes(study: MakeStudy) -> None:
    assert titles(study(TEXT)) == [
        "clients 1, keys uniform",
        "clients 1, keys sequential",
        "clients 2, keys uniform",
        "clients 3, keys uniform",
    ]
    assert titles(study(TEXT, only=("clients=2,3",))) == [
        "clients 2, keys uniform",
        "clients 3, keys uniform",
    ]


def test_a_choice_of_an_unknown_factor_or_level_is_rejected(study: MakeStudy) -> None:
    with pytest.raises(SpecError, match="clients has no level '4'; known are 1, 2, 3"):
        titles(study(TEXT, only=("clients=4",)))
    with pytest.raises(SpecError, match="there is no factor 'client' — did you mean"):
        titles(study(TEXT, only=("client=1",)))
    with pytest.raises(UsageError, match="no case is left"):
        titles(study(TEXT, only=("clients=2", "keys=sequential")))


def test_each_repetition_is_a_block_of_all_cases_in_random_order(study: MakeStudy) -> None:
    runs = [(block, case.title) for block, case in study(TEXT).runs()]
    assert [block for block, _ in runs] == [block for block in range(5) for _ in range(4)]
    orders = [tuple(title for block, title in runs if block == one) for one in range(5)]
    assert {frozenset(order) for order in orders} == {frozenset(titles(study(TEXT)))}
    assert len(set(orders)) > 1
    assert runs == [(block, case.title) for block, case in study(TEXT).runs()]
    assert runs != [(block, case.title) for block, case in study(TEXT, seed=4).runs()]


def test_the_order_of_the_file_is_an_option(study: MakeStudy) -> None:
    made = study(f"{TEXT}order: written\n")
    assert [case.title for _, case in made.runs()] == titles(made) * 5


def test_cases_of_one_testbed_come_one_after_the_other(study: MakeStudy) -> None:
    text = catalog.study_text("cassandra-initial")
    cases = [case.labels for _, case in study(text, repetitions=1).runs()]
    names = ("nodes", "data", "concurrent_reads")
    testbeds = [tuple(case[name] for name in names) for case in cases]
    changes = sum(one != other for one, other in pairwise(testbeds))
    assert changes == 6
    assert len(cases) == 47
    # A bound on memory means nothing to a system that the study doesn't start.
    assert "data" in study(text, system="null:").without_effect


def test_the_scale_test_has_no_combination_that_means_nothing(study: MakeStudy) -> None:
    made = study(catalog.study_text("hcassandra"))
    cases = [case.labels for case in made.cases]
    assert len({case["clients"] for case in cases}) == 13
    assert {case["consistency"] for case in cases if case["operation"] == "read"} == {
        "ONE", "LOCAL_ONE", "TWO", "QUORUM",
    }  # fmt: skip
    single = {case["consistency"] for case in cases if case["replication_factor"] == "1"}
    assert single == {"ANY", "ONE", "LOCAL_ONE"}
    # With the only copy gone, others can at most keep a write for it.
    gone = {(case["operation"], case["consistency"]) for case in cases
            if case["replication_factor"] == "1" and case["node_down"] == "yes"}  # fmt: skip
    assert gone == {("write", "ANY")}
    published = study(catalog.study_text("hcassandra"), only=("published",))
    assert len(published.cases) == len(published.published) == 124


def test_factors_that_another_system_does_not_know_are_left_out(study: MakeStudy) -> None:
    made = study(catalog.study_text("hcassandra"), system="null:")
    assert made.factors == ("scenario", "operation", "clients")
    assert made.without_effect == ("replication_factor", "consistency", "node_down")
