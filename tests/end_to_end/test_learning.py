"""A trace learnt and held against its workload by the words a user types."""

from collections.abc import Mapping
from typing import Any

import pytest
from command_line import Kvmark

from learn.planted import AGAIN, ZIPFIAN, drawn, poisson, written

SIM = ("--system", "sim:?clock=virtual", "-q")


@pytest.fixture
def learnt(kvmark: Kvmark) -> Kvmark:
    written(kvmark.folder, drawn(AGAIN), poisson(60_000, 5000))
    kvmark("trace", "learn", "X.trace", "-o", "twin.yaml")
    return kvmark


def judged(
    kvmark: Kvmark, file: str, exits: int | tuple[int, ...], *more: str
) -> Mapping[str, Any]:
    words = ("trace", "learn", "X.trace", "--check", file, *SIM, "--json", *more)
    return kvmark(*words, exits=exits).json


def figures(answer: Mapping[str, Any]) -> dict[str, str]:
    return {one["name"]: one["judgement"] for one in answer["figures"]}


def changed(kvmark: Kvmark, file: str, old: str, new: str) -> None:
    text = (kvmark.folder / "twin.yaml").read_text()
    assert old in text
    (kvmark.folder / file).write_text(text.replace(old, new))


def test_a_twin_is_one(learnt: Kvmark) -> None:
    for more in ((), ("--speed", "2")):
        answer = judged(learnt, "twin.yaml", (0, 1), *more)
        found = figures(answer)
        # A dozen seconds are few for a p99: it may be unknown, and then the whole is.
        assert answer["judgement"] == found["p99"] != "unlike"
        del found["p99"]
        assert set(found.values()) == {"alike"}, answer["figures"]
        assert len(answer["runs"]) == 10


def test_a_halved_rate_is_no_twin(learnt: Kvmark) -> None:
    text = (learnt.folder / "twin.yaml").read_text()
    (rate,) = [line for line in text.splitlines() if line.strip().startswith("rate: ")]
    half = float(rate.partition(":")[2]) / 2
    changed(learnt, "half.yaml", rate, f"{rate.partition('rate')[0]}rate: {half}")
    answer = judged(learnt, "half.yaml", 1)
    assert answer["judgement"] == "unlike"
    assert figures(answer)["throughput"] == "unlike"


def test_the_right_popularity_in_a_shuffled_order_is_no_twin(learnt: Kvmark) -> None:
    text = (learnt.folder / "twin.yaml").read_text()
    (share,) = [line for line in text.splitlines() if line.strip().startswith("share: ")]
    changed(learnt, "shuffled.yaml", share, f"{share.partition('share')[0]}share: 0")
    answer = judged(learnt, "shuffled.yaml", 1)
    assert answer["judgement"] == "unlike"
    assert figures(answer)["hit ratio of 1 % of the keys"] == "unlike"
    assert figures(answer)["throughput"] == "alike"


def test_the_workload_is_one_like_any_other(learnt: Kvmark) -> None:
    words = ("run", "twin.yaml", *SIM, "--duration", "2s", "--json")
    assert learnt(*words).json["verdict"]["judgement"] != "INVALID"
    more = (*words, "--records", "100000", "--rate", "1000")
    assert learnt(*more).json["verdict"]["judgement"] != "INVALID"


def test_words_that_are_wrong_are_refused_in_one_sentence(learnt: Kvmark) -> None:
    (learnt.folder / "few").mkdir()
    written(learnt.folder / "few", drawn(ZIPFIAN, 900), poisson(900, 5000))
    for words, sentence in (
        ((), "give -o FILE to make a workload, or --check FILE to judge one"),
        (("-o", "twin.txt"), "twin.txt doesn't end in .yaml"),
        (("-o", "y.yaml", "--speed", "2"), "--speed is for --check"),
        (("--check", "twin.yaml"), "give --system"),
        (("--check", "twin.yaml", *SIM, "--records", "5"), "has the number of records"),
        (("--check", "twin.yaml", *SIM, "--blocks", "2"), "must be at least 4"),
    ):
        assert sentence in learnt("trace", "learn", "X.trace", *words, exits=2).err
    few = learnt("trace", "learn", "few/X.trace", "-o", "few.yaml", exits=2)
    assert "there must be 1,000" in few.err
