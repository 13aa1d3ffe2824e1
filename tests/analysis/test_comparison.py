"""Two sides of runs: what is refused, answered and warned of; and objectives of one side."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from kvmark.analysis.compare.bounds import GateResult, evaluate_gate, figure, one_sided
from kvmark.analysis.compare.comparability import differences
from kvmark.analysis.compare.comparison import Comparison, compare
from kvmark.analysis.compare.selection import runs_of
from kvmark.analysis.summary.metrics import level
from kvmark.cli.commands.compare import junit
from kvmark.errors import RecordsError, UsageError
from kvmark.records import Records, Run
from kvmark.report.views.comparison import (
    answers,
    comparison_grid,
    comparison_markdown,
    condition_sentence,
)
from kvmark.report.views.gather import origin_facts
from kvmark.spec.metric import Gate, IfUnknown, parse_condition, parse_metric, parse_objective
from kvmark.stats import difference, level_of
from kvmark.stats.level import holm

Make = Callable[[], Any]
Change = Callable[[Any], None]


def larger(draft: Any) -> None:
    draft.plan["dataset"]["count"] = 5000


def more_clients(draft: Any) -> None:
    draft.plan["groups"][0]["clients"] = 16


def side(made: Make, seed: int, mean: float = 1.0, runs: int = 4) -> list[Run]:
    """Repetitions that scatter by 2 %."""
    speeds = np.random.default_rng(seed).lognormal(np.log(mean), 0.02, runs)
    return [made(float(speed)) for speed in speeds]


def effect(comparison: Comparison, metric: str = "throughput") -> Any:
    (case,) = comparison.cases
    return next(row.effect for row in case.rows if row.metric.name == metric)


def codes(comparison: Comparison) -> set[str]:
    return {caution.code for case in comparison.cases for caution in case.cautions}


def test_a_change_between_repetitions_is_found_with_its_size(made: Make) -> None:
    found = effect(compare(side(made, 1), side(made, 2, 1.1)))
    assert found.significant()
    assert found.change == pytest.approx(0.1, abs=0.03)
    # Repetitions of the same show no difference, and what could have been seen.
    same = effect(compare(side(made, 1), side(made, 2)))
    assert not same.significant()
    assert 0.01 < same.detectable < 0.1


def test_all_metrics_of_a_comparison_share_one_error_level(made: Make) -> None:
    comparison = compare(side(made, 1), side(made, 2, 1.02))
    effects = [row.effect for row in comparison.cases[0].rows if row.effect]
    assert comparison.family == len(effects) == 9
    p_values = [one.p_value for one in effects if one.p_value is not None]
    assert [one.family_p_value for one in effects] == holm(p_values)
    # An interval stays that of its change alone.
    throughput = effect(comparison)
    assert throughput.family_p_value >= throughput.p_value
    assert (throughput.ratio.low > 1) == (throughput.p_value < 0.05)


@pytest.mark.parametrize(("confidence", "level"), [(0.95, "5 %"), (0.99, "1 %"), (0.999, "0.1 %")])
def test_a_comparison_prints_its_confidence(made: Make, confidence: float, level: str) -> None:
    case = compare(side(made, 1), side(made, 2), confidence=confidence)
    several = replace(case, cases=case.cases * 2)
    for comparison in (case, several):
        notes = " ".join(comparison_grid(comparison).notes)
        assert f"Interval: {confidence * 100:g} % confidence of each change alone." in notes
        assert f"so that {level} of comparisons without any difference report one" in notes
        assert confidence == 0.95 or "95 %" not in notes


def test_single_runs_are_compared_by_their_intervals_and_say_so(made: Make) -> None:
    comparison = compare([made()], [made(1.05)])
    assert effect(comparison).significant()
    assert "one_run" in codes(comparison)
    runs = side(made, 1, runs=3)
    assert level(runs, parse_metric("p99")).between_runs
    assert level(runs[:1], parse_metric("READ.service.p99")) is not None


@pytest.mark.parametrize(
    ("place", "change", "allowed"),
    [
        ("dataset.count", lambda draft: draft.plan["dataset"].update(count=2000), "plan"),
        ("groups[0].clients", lambda draft: draft.plan["groups"][0].update(clients=16), "plan"),
        ("system.version", lambda draft: draft.engine["system"].update(version="11"), "system"),
        (
            "system.compression",
            lambda draft: draft.engine["system"].update(configuration={"compression": "none"}),
            "system",
        ),
    ],
)
def test_only_allowed_differences_are_accepted(
    made: Make, place: str, change: Change, allowed: str
) -> None:
    sides = [made()], [made(change)]
    with pytest.raises(UsageError, match="differ") as refused:
        compare(*sides)
    assert place in str(refused.value)
    assert f"--allow {allowed}" in str(refused.value)
    comparison = compare(*sides, allow=(allowed,))
    assert [one.place for one in comparison.cases[0].differences] == [place]


def on_servers(heap: int, core: int = 0) -> Change:
    node = {"name": "node-1", "role": "peer", "address": f"127.0.0.1:{9042 + heap}",
            "cores": [core]}  # fmt: skip
    testbed = {"observed": True, "system": "cassandra", "network": None, "nodes": [node],
               "heap_bytes": heap * 2**30, "memory_bytes": None}  # fmt: skip
    return lambda draft: draft.testbed.update(testbed)


def test_servers_with_another_heap_are_refused_unless_that_is_allowed(made: Make) -> None:
    sides = [made(on_servers(1))], [made(on_servers(8, 1))]
    with pytest.raises(UsageError, match="--allow environment") as refused:
        compare(*sides)
    assert "the environments of the sides differ (servers.cores 0 against 1" in str(refused.value)
    assert "servers.heap 1024 MiB against 8192 MiB" in str(refused.value)
    comparison = compare(*sides, allow=("environment",))
    assert "servers.heap 1024 MiB against 8192 MiB" in comparison_markdown(comparison)
    same = [made(on_servers(1)) for _ in range(2)]
    assert compare(same[:1], same[1:]).cases[0].differences == ()
    # What is known of one side only is no difference.
    assert differences(same, [made()]) == ()
    # Nor may the runs of one side differ.
    with pytest.raises(UsageError, match=r"servers\.heap"):
        compare([sides[0][0], sides[1][0]], same)


def test_machines_are_warned_of_with_everything_that_differs(made: Make) -> None:
    hosts = (
        {"kernel": "6.1", "sysctl": {"vm.swappiness": "60"}},
        {"cores": 8, "kernel": "6.2", "sysctl": {"vm.swappiness": "1"}},
    )
    first, other = ([made(lambda draft, host=host: draft.host.update(host))] for host in hosts)
    (case,) = compare(first, other).cases
    (sentence,) = [one.sentence for one in case.cautions if one.code == "machines"]
    assert sentence == (
        "The sides ran on different machines: cores 4 against 8; kernel 6.1 against 6.2;"
        " vm.swappiness 60 against 1."
    )


def test_a_report_says_in_what_the_servers_of_its_runs_differ(made: Make) -> None:
    runs = [made(on_servers(heap)) for heap in (1, 8)]
    (servers,) = [one.text for one in origin_facts(runs) if one.label == "Servers"]
    assert servers == "not the same for all runs: heap 1024 MiB, or 8192 MiB"
    (servers,) = [one.text for one in origin_facts(runs[:1]) if one.label == "Servers"]
    assert servers == "nodes 1 peer, cores 0, heap 1024 MiB"


def test_unequal_durability_is_named_first_also_of_unlike_stores(made: Make) -> None:
    def on(name: str, durability: str) -> Change:
        system = {"system": name, "version": "1", "configuration": {"durability": durability}}
        return lambda draft: draft.engine["system"].update(system)

    sides = [made(on("LMDB", "process"))], [made(on("redb", "none"))]
    with pytest.raises(UsageError, match="--allow system") as refused:
        compare(*sides)
    expected = "differ (system.durability process against none; system.name LMDB against redb)"
    assert expected in str(refused.value)


def test_both_sides_are_named_by_their_difference_and_reports_by_durability(made: Make) -> None:
    def on(durability: str, **settings: str) -> Run:
        changed = {"configuration": {"durability": durability, **settings}}
        return made(lambda draft: draft.engine["system"].update(changed))

    before = [on("none", memory="1"), on("none", memory="2")]
    (case,) = compare(before, [on("process", memory="1")], allow=("system",)).cases
    texts = [origin_facts(side) for side in (before, [on("process")])]
    systems = [fact.text for facts in texts for fact in facts if fact.label == "System"]
    assert [text.partition(", ")[2] for text in systems] == [
        "durability none", "durability process",
    ]  # fmt: skip
    # The memory differs within a side.
    assert case.baseline == f"{systems[0]}, 2 runs"
    assert case.candidate.startswith(f"{systems[1]}, run ")


def test_seeds_and_places_are_no_differences(made: Make) -> None:
    def elsewhere(draft: Any) -> None:
        draft.plan["seeds"] = {"keys": 5}
        draft.plan["system"]["options"] = {"path": "other/db"}

    assert differences([made()], [made(elsewhere)]) == ()


def test_an_invalid_run_is_refused_unless_it_is_allowed(made: Make) -> None:
    broken = made(lambda draft: draft.turn(20_000, "READ", "timeout"))
    sides = [made()], [broken]
    with pytest.raises(UsageError, match=r"is INVALID .*--allow invalid"):
        compare(*sides)
    assert "verdict" in codes(compare(*sides, allow=("invalid",)))


def test_a_side_is_doubted_by_the_verdict_of_its_case(made: Make) -> None:
    def few_intervals(draft: Any) -> None:
        draft.intervals[:] = [row for row in draft.intervals if row["start_ns"] == 0]

    apart, near = ([made(speed) for speed in (1.0, other)] for other in (1.1, 1.001))
    (case,) = compare(apart, near).cases
    said = [one.sentence for one in case.cautions if one.code == "verdict"]
    assert said == ["SUSPECT: the runs of the baseline together (imprecise)."]
    # Each of them is too short by itself, and five of them are not.
    short = [made(few_intervals) for _ in range(5)]
    assert "verdict" not in codes(compare(short, short[::-1]))
    assert "verdict" in codes(compare(short[:4], short[:4]))


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("generator", lambda draft: draft.worker.update(cpu_ns=16_000_000_000)),
        ("generator", lambda draft: draft.worker.update(waiting_for_core_ns=900_000_000)),
    ],
)
def test_sides_not_driven_alike_are_warned_of(made: Make, code: str, change: Change) -> None:
    assert code not in codes(compare([made()], [made()]))
    assert code in codes(compare([made()], [made(change)]))


def test_cases_with_other_plans_are_compared_by_name_where_that_is_allowed(made: Make) -> None:
    base = [made(), made(larger)]
    more = [made(more_clients), made(larger, more_clients)]
    with pytest.raises(UsageError, match=r"groups\[0\].clients 8 against 16"):
        compare(base, more)
    comparison = compare(base, more, allow=("plan",))
    assert [case.title for case in comparison.cases] == [
        "A with 1,000 records",
        "A with 5,000 records",
    ]


def held(
    text: str, before: Sequence[float], after: Sequence[float], conditions: int = 1,
    if_unknown: IfUnknown = "fail",
) -> GateResult:  # fmt: skip
    condition = parse_condition(text)
    effect = difference(level_of(before), level_of(after), one_sided(0.95, conditions))
    return evaluate_gate(condition, effect, Gate((condition,), if_unknown))


STEADY, NOISY = [100.0, 101, 99, 100, 100.5], [100.0, 150, 60, 130, 80]


@pytest.mark.parametrize(
    ("text", "before", "factor", "answer"),
    [
        ("throughput<-3%", STEADY, 0.95, "worse"),
        ("throughput<-3%", STEADY, 0.99, "not worse"),
        ("throughput<-3%", STEADY, 0.97, "can't tell"),
        ("throughput<-3%", NOISY, 0.9, "can't tell"),
        ("throughput<-3%", STEADY, 1.1, "not worse"),
        ("p99>5%", STEADY, 1.1, "worse"),
        # Surely slower, and surely by less than the margin.
        ("p99>5%", STEADY, 1.03, "not worse"),
        ("p99>5%", STEADY, 1.055, "can't tell"),
    ],
)
def test_an_interval_decides_a_condition(
    text: str, before: Sequence[float], factor: float, answer: str
) -> None:
    assert held(text, before, [value * factor for value in before]).answer == answer


def test_what_can_not_be_told_ends_a_build_unless_it_may_pass() -> None:
    noisy = [value * 0.9 for value in NOISY]
    assert held("throughput<-3%", NOISY, noisy).failed
    assert not held("throughput<-3%", NOISY, noisy, if_unknown="pass").failed
    assert held("throughput<-3%", STEADY, [80.0, 81], if_unknown="pass").failed
    for if_unknown in ("fail", "pass"):
        assert not held("throughput<-3%", STEADY, STEADY, if_unknown=if_unknown).failed


def test_a_metric_without_an_estimate_can_not_be_told(made: Make) -> None:
    def rare(draft: Any) -> None:
        update = draft.total("UPDATE")
        draft.complete(("READ", 500))
        draft.engine["totals"].append(update)
        draft.plan["groups"][0]["mix"] = []

    condition = parse_condition("READ.p99>5%")
    sides = [made(rare)], [made(rare)]
    ends = compare(*sides, gate=Gate((condition,)))
    assert [(one.answer, one.effect) for one in ends.failed] == [("can't tell", None)]
    assert not compare(*sides, gate=Gate((condition,), "pass")).failed


def failing(made: Make, shares: Sequence[float]) -> list[Run]:
    """Repetitions of which such shares of the reads time out."""

    def fails(draft: Any, share: float) -> None:
        if share:
            draft.turn(int(draft.total("READ")["count"] * share), "READ", "timeout")

    speeds = np.random.default_rng(3).lognormal(0, 0.002, len(shares))
    return [
        made(float(speed), partial(fails, share=share))
        for speed, share in zip(speeds, shares, strict=True)
    ]


def answer_to(text: str, base: Sequence[Run], candidate: Sequence[Run]) -> GateResult:
    gate = Gate((parse_condition(text),))
    (case,) = compare(base, candidate, gate=gate, allow=("invalid",)).cases
    return case.held[0]


@pytest.mark.parametrize("text", ["p99>5%", "READ.p99>5%", "service.p99>5%", "READ.mean>5%"])
@pytest.mark.parametrize("runs", [1, 4])
def test_a_condition_counts_failures_as_beyond_any_bound(made: Make, text: str, runs: int) -> None:
    sound, broken = failing(made, [0.0] * runs), failing(made, [0.03] * runs)
    found = answer_to(text, sound, broken)
    assert (found.answer, found.failed) == ("worse", True)
    assert "of the candidate's operations have no answer" in condition_sentence(found)
    assert answer_to(text, broken, sound).answer == "not worse"


@pytest.mark.parametrize(
    ("base", "candidate"),
    [
        ([0.03] * 3, [0.031] * 3),
        # Of all operations, 0.99 % and 1.01 % on average.
        ([0.012, 0.028, 0.0194], [0.013, 0.029, 0.0186]),
    ],
)
def test_equal_shares_of_failures_are_undecided(
    made: Make, base: Sequence[float], candidate: Sequence[float]
) -> None:
    found = answer_to("p99>5%", failing(made, base), failing(made, candidate))
    assert found.answer == "can't tell"


def test_few_failures_move_the_quantile_that_a_condition_is_about(made: Make) -> None:
    sound, few = failing(made, [0.0] * 4), failing(made, [0.01] * 4)
    found = answer_to("p99>5%", sound, few)
    assert found.answer == "worse"
    shown = effect(compare(sound, few, allow=("invalid",)), "p99")
    assert shown.change < 0.05 < found.effect.change


def test_a_condition_on_an_operation_that_no_run_has_is_wrong_use(made: Make) -> None:
    sides = side(made, 1), side(made, 2)
    gate = Gate((parse_condition("REED.p99>5%"),))
    with pytest.raises(UsageError, match=r"'REED.p99'.*no operation 'REED'.*READ, UPDATE"):
        compare(*sides, gate=gate)

    # Nor is one that only a case has which the other side lacks.
    def scans(draft: Any) -> None:
        draft.plan["name"] = "ycsb/e"
        draft.engine["totals"][0]["operation"] = "SCAN"

    only_before = [*sides[0], made(scans)]
    with pytest.raises(UsageError, match="no operation 'SCAN'"):
        compare(only_before, sides[1], gate=Gate((parse_condition("SCAN.p99>5%"),)))
    known = Gate((parse_condition("READ.p99>500%"),))
    assert [one.answer for one in compare(*sides, gate=known).cases[0].held] == ["not worse"]


def test_a_condition_on_an_operation_is_none_on_cases_without_it(made: Make) -> None:
    def scans(draft: Any) -> None:
        draft.plan["name"] = "ycsb/e"
        draft.plan["groups"][0]["mix"] = [{"kind": "scan", "weight": 1.0}]
        draft.complete(("SCAN", 200_000))

    both = [[made(), made(), made(scans)] for _ in range(2)]
    comparison = compare(*both, gate=Gate((parse_condition("READ.p99>50%"),)))
    assert [len(case.held) for case in comparison.cases] == [1, 0]


def test_a_case_that_the_candidate_lacks_ends_a_build_unless_it_may_pass(made: Make) -> None:
    base = [*side(made, 1), made(larger)]
    conditions = (parse_condition("throughput<-50%"),)
    ends = compare(base, side(made, 2), gate=Gate(conditions))
    assert (ends.failed, ends.unmeasured) == ((), ("A with 5,000 records",))
    assert ET.fromstring(junit(ends).encode()).attrib["failures"] == "1"
    passes = compare(base, side(made, 2), gate=Gate(conditions, "pass"))
    assert (passes.baseline_only, passes.unmeasured) == (("A with 5,000 records",), ())
    assert answers(passes)[1] == "Only the baseline has A with 5,000 records."
    assert compare(base, side(made, 2)).unmeasured == ()


def test_several_conditions_share_the_error_level() -> None:
    before, after = [100.0, 103, 98, 101], [94.0, 97, 93, 98]
    assert held("throughput<-1%", before, after).answer == "worse"
    assert held("throughput<-1%", before, after, conditions=1000).answer == "can't tell"


def test_a_condition_at_its_margin_ends_a_build_as_often_as_the_level_says() -> None:
    chance, worse = np.random.default_rng(1), 0
    for _ in range(400):
        before, after = chance.lognormal(0, 0.05, 5), chance.lognormal(np.log(0.97), 0.05, 5)
        worse += held("throughput<-3%", before.tolist(), after.tolist()).answer == "worse"
    # 5 %, give or take three standard errors.
    assert 7 <= worse <= 33


def in_blocks(made: Make, records: Records, blocks: int = 6) -> list[Sequence[Run]]:
    """Blocks of `kvmark ab` in which the machine's speed moves far more than the sides differ."""
    chance = np.random.default_rng(5)
    target = {"metric": "throughput", "within": 0.01, "find": None, "most_blocks": 100,
              "first_stage": 4}  # fmt: skip
    for block in range(blocks):
        speed = float(chance.lognormal(0, 0.3))
        for name, factor in (("base", 1.0), ("candidate", 1.02)):
            place = {"name": "ab:x", "side": name, "block": block, "asked": target}

            def of_block(draft: Any, place: Any = place, name: str = name) -> None:
                draft.spec = {"ab": place}
                draft.tags = (f"ab:x:{name}",)

            noise = float(chance.lognormal(0, 0.002))
            made(speed * factor * noise, of_block)
    return [runs_of(records, [f"tag:ab:x:{side}"]) for side in ("base", "candidate")]


def test_blocks_that_are_compared_later_are_compared_in_pairs(made: Make, records: Records) -> None:
    base, candidate = in_blocks(made, records)
    found = effect(compare(base, candidate))
    assert found.significant()
    assert found.change == pytest.approx(0.02, abs=0.005)
    (case,) = compare(base, candidate).cases
    assert case.blocks == 6
    # A block without its other side is left out, and said to be.
    (case,) = compare(base, candidate[1:]).cases
    assert (case.blocks, "alone" in {one.code for one in case.cautions}) == (5, True)
    # Runs of different experiments are no pairs.
    (case,) = compare(base, side(made, 2)).cases
    assert case.blocks is None


def test_words_mean_ids_tags_and_commits(records: Records, made: Make) -> None:
    run = made()
    assert [one.id for one in runs_of(records, [run.id, "last"])] == [run.id]
    for word in ("tag:none", "commit:none", "20300101"):
        with pytest.raises(RecordsError):
            runs_of(records, [word])


@pytest.mark.parametrize("text", ["p99<1h", "errors<50%", "throughput>1", "mean<1h", "max<1h"])
def test_an_objective_holds_within_its_bound(made: Any, text: str) -> None:
    found = figure([made()], parse_objective(text))
    assert found.held is True
    assert found.sentence.startswith(f"{text} held with ")


def failures(count: int) -> Callable[[Any], None]:
    return lambda draft: draft.turn(count, "READ", "timeout")


def test_a_load_alone_says_nothing_of_an_objective(made: Any) -> None:
    load = made(lambda draft: draft.phase.update(name="load"))
    found = figure([load], parse_objective("p99<1h"))
    assert (found.held, found.value) == (None, None)
    assert found.sentence == "p99<1h: nothing was measured"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        *((text, 10_000) for text in ("p99<1h", "p99.9<1h", "service.p99<1h", "READ.p99<1h")),
        # One failure puts a mean and a maximum beyond any bound.
        ("mean<1h", 1),
        ("max<1h", 1),
    ],
)
def test_failed_operations_are_slower_than_any_bound(made: Any, text: str, count: int) -> None:
    found = figure([made(failures(count))], parse_objective(text))
    assert (found.held, found.value) == (False, None)
    assert "of the operations failed or were never issued" in found.sentence


def test_failures_move_a_quantile_by_their_number(made: Any) -> None:
    before, after = (
        figure([run], parse_objective("p99<1h")) for run in (made(), made(failures(1_000)))
    )
    assert after.held
    assert (after.value or 0) > (before.value or 0)
    assert "p99<1h held with" in after.sentence
    assert after.sentence.endswith("% without an answer count as slower")
    # Those of another operation are no concern of this one.
    assert figure([made(failures(10))], parse_objective("UPDATE.p99<1h")).unanswered == 0


@pytest.mark.parametrize("count", ["dropped", "abandoned"])
@pytest.mark.parametrize("text", ["p99<1h", "READ.p99<1h"])
def test_unissued_arrivals_are_beyond_any_bound(healthy_open: Any, count: str, text: str) -> None:
    draft = healthy_open()
    draft.group.update({count: draft.group["issued"] // 50})
    assert figure([draft.run()], parse_objective(text)).held is False
    assert figure([healthy_open().run()], parse_objective(text)).held is True


def test_a_miss_is_an_answer_and_with_failures_alone_an_objective_is_missed(healthy: Any) -> None:
    draft = healthy()
    draft.turn(10_000, "READ", "miss")
    assert figure([draft.run()], parse_objective("p99<1h")).held is True
    draft.complete(("READ", 200_000, "timeout"))
    found = figure([draft.run()], parse_objective("p99<1h"))
    assert found.held is False
    assert "100.000% of the operations" in found.sentence
