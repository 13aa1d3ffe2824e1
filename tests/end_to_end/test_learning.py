"""Workloads learnt from a trace, and their comparison with it."""

import re
from typing import Any

import pytest
from command_line import Exits, Kvmark

from learn.planted import AGAIN, ZIPFIAN, drawn, poisson, written

SIM = "--system sim:?clock=virtual -q"


@pytest.fixture
def learnt(kvmark: Kvmark) -> Kvmark:
    """The program with X.trace and the workload that was learnt from it."""
    written(kvmark.folder, drawn(AGAIN), poisson(60_000, 5000))
    kvmark("trace learn X.trace -o twin.yaml")
    return kvmark


def check(kvmark: Kvmark, file: str, exits: Exits, *options: str) -> tuple[Any, dict[str, str]]:
    """The document of a comparison, and its judgements by figure."""
    answer = kvmark(f"trace learn X.trace --check {file} {SIM} --json", *options, exits=exits).json
    return answer, {one["name"]: one["judgement"] for one in answer["figures"]}


def change(kvmark: Kvmark, file: str, key: str, value: object) -> None:
    """Copies the workload with another value of a key."""
    text = (kvmark.folder / "twin.yaml").read_text()
    changed, count = re.subn(rf"^( *{key}: ).*$", rf"\g<1>{value}", text, flags=re.MULTILINE)
    assert count == 1
    (kvmark.folder / file).write_text(changed)


@pytest.mark.parametrize("options", [(), ("--speed", "2")])
def test_a_learnt_workload_is_like_its_trace(learnt: Kvmark, options: tuple[str, ...]) -> None:
    answer, judgements = check(learnt, "twin.yaml", (0, 1), *options)
    # A dozen seconds are few for a p99: it may be undecided, and the total, too.
    assert answer["judgement"] == judgements.pop("p99") != "unlike"
    assert set(judgements.values()) == {"alike"}, answer["figures"]
    assert len(answer["runs"]) == 10


def test_a_workload_with_half_the_rate_is_unlike(learnt: Kvmark) -> None:
    change(learnt, "half.yaml", "rate", 2500)
    answer, judgements = check(learnt, "half.yaml", 1)
    assert answer["judgement"] == judgements["throughput"] == "unlike"


def test_a_workload_with_the_same_popularity_in_another_order_is_unlike(learnt: Kvmark) -> None:
    change(learnt, "shuffled.yaml", "share", 0)
    answer, judgements = check(learnt, "shuffled.yaml", 1)
    assert answer["judgement"] == "unlike"
    assert judgements["hit ratio of 1 % of the keys"] == "unlike"
    assert judgements["throughput"] == "alike"


def test_a_learnt_workload_runs_like_any_other(learnt: Kvmark) -> None:
    for options in ((), ("--records", "100000", "--rate", "1000")):
        words = f"run twin.yaml {SIM} --duration 2s --json"
        assert learnt(words, *options).json["verdict"]["judgement"] != "INVALID"


def test_wrong_use_is_refused(learnt: Kvmark) -> None:
    (learnt.folder / "few").mkdir()
    written(learnt.folder / "few", drawn(ZIPFIAN, 900), poisson(900, 5000))
    for words, part in (
        ("X.trace", "give -o FILE to make a workload, or --check FILE to judge one"),
        ("X.trace -o twin.txt", "twin.txt doesn't end in .yaml"),
        ("X.trace -o y.yaml --speed 2", "--speed is for --check"),
        ("X.trace --check twin.yaml", "give --system"),
        (f"X.trace --check twin.yaml {SIM} --records 5", "has the number of records"),
        (f"X.trace --check twin.yaml {SIM} --blocks 2", "must be at least 4"),
        ("few/X.trace -o few.yaml", "there must be 1,000"),
    ):
        assert part in learnt(f"trace learn {words}", exits=2).err
