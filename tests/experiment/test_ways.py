"""Ways through proxies: how they are named, and what each costs beside the straight one."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from studies import MakeStudy, Program, make_study

from kvmark.analysis.path_costs import published_costs
from kvmark.analysis.study import ProxyCosts
from kvmark.catalog import study_text
from kvmark.errors import SpecError, UsageError
from kvmark.experiment.study.definition import named_proxies
from kvmark.experiment.study.published import read_published_ways
from kvmark.report.model.tables import to_text
from kvmark.report.views.proxies import cost_sentences, proxies_figure, proxies_grid
from kvmark.spec.url import SystemName
from kvmark.stats import Counts, Estimate, paired_difference_of
from kvmark.testbed.state import Testbed

SYSTEM = "sim:?clock=virtual&servers=8&mean_us=1000"
SIMULATED = f"""
system: "{SYSTEM}"
workload: ycsb/c
run: {{duration: 10s, records: 10, clients: 4}}
through: {{proxies: {{slow: "sim:?clock=virtual&servers=8&mean_us=2000"}}}}
repetitions: 3
"""


# Names.


def test_a_way_is_called_by_its_testbed_its_address_or_as_one_likes() -> None:
    words = ["up:haproxy", "redis://user:secret@h:7000/0", "mine=redis://h:7001?tls=true"]
    found = named_proxies([*map(SystemName, words)])
    assert list(found) == ["haproxy", "h:7000", "mine"]
    assert found["mine"] == SystemName("redis://h:7001?tls=true")


@pytest.mark.parametrize(
    "words", [["up:a", "a=redis://h"], ["direct=redis://h"], ["a=redis://u:secret@h"] * 2]
)
def test_two_ways_of_one_name_are_refused_without_a_secret(words: list[str]) -> None:
    with pytest.raises(SpecError, match="through: two ways are called") as refused:
        named_proxies([*map(SystemName, words)])
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "asked", "sentence"),
    [
        (study_text("proxy"), {"system": "sim:"}, "name a proxy before it with --through"),
        (SIMULATED, {"through": ("other=null:",)}, "through: other takes null operations"),
        (
            SIMULATED.replace(f'system: "{SYSTEM}"', "testbed: {system: redis}"),
            {},
            "name the system behind the proxy with --system",
        ),
    ],
)
def test_a_way_to_no_system_is_refused(
    study: MakeStudy, text: str, asked: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        study(text, **asked).check()


def test_ways_are_one_more_factor_of_any_study(study: MakeStudy) -> None:
    text = SIMULATED.partition("through:")[0] + "factors: {clients: [1, 2]}\n"
    found = study(text, through=("one=sim:", "two=sim:?servers=2"))
    assert found.factors == ("clients", "through")
    assert [case.labels["through"] for case in found.cases] == ["direct", "one", "two"] * 2
    assert str(found.system_name(found.cases[2])) == "sim:?servers=2"
    assert str(found.system_name(found.cases[0])).startswith("sim:?clock=virtual&servers=8")


# Costs.


def test_a_difference_of_quantiles_is_that_of_merged_blocks() -> None:
    direct = [Counts.of([100, 200, 300]), Counts.of([110, 210, 310])]
    through = [Counts.of([400, 500, 600]), Counts.of([410, 510, 610])]
    found = paired_difference_of(direct, through, 0.5, "ns")
    assert found.value == 300
    # Of equal blocks it is known what their clock can tell apart: half a nanosecond of each side.
    half = 12.706 * 0.5**0.5
    assert (found.low, found.high) == pytest.approx((300 - half, 300 + half), rel=1e-3)
    alone = paired_difference_of(direct[:1], through[:1], 0.5, "ns")
    assert (alone.value, alone.low) == (300, None)
    assert paired_difference_of([Counts.empty()], through[:1], 0.5, "ns") is None


def test_a_slower_way_loses_throughput_and_adds_response_time(program: Program) -> None:
    ended = program.study(SIMULATED, "--json")
    assert ended.code in (0, 1), ended
    (cost,) = ended.json["ways"]["costs"]
    assert cost["through"] == "slow"
    assert cost["proxy"] is None
    assert cost["blocks"] == 3
    # Each operation takes twice as long.
    lost, added = cost["throughput_lost"], cost["response_added"]["p50"]
    assert lost["value"] == pytest.approx(50, abs=2)
    assert lost["low"] <= lost["value"] <= lost["high"]
    assert added["value"] == pytest.approx(math.log(2), rel=0.1)
    assert added["low"] <= added["value"] <= added["high"]
    told = program.study(SIMULATED, "--resume")
    assert "What the way through each proxy costs" in told.out
    assert "Through slow " in told.out


def test_the_table_has_a_row_for_each_way_above_published_ones(tmp_path: Path) -> None:
    published = published_costs(read_published_ways(make_study(study_text("proxy"), tmp_path).file))
    debug, release = published
    assert release.throughput_lost.value == pytest.approx(26.7, abs=0.05)
    assert release.response_added["p50"].value == pytest.approx(0.3)
    assert release.proxy_memory_bytes == 10e6
    assert (debug.proxy.build, debug.proxy.threads) == ("debug", 4)
    mine = dataclasses.replace(release, through="haproxy", levels={"load": "closed"})
    ways = ProxyCosts((mine,), published, "a report")
    grid = proxies_grid(("load", "through"), ways)
    assert [row[1].text for row in grid.rows] == [
        "haproxy", "published: shotover", "published: shotover",
    ]  # fmt: skip
    text = to_text(grid, 140).plain
    assert "+0.3 " in text
    assert "−12.5" in text
    assert "26.7" in text
    assert "Published: a report." in text
    assert list(cost_sentences(ways)) == [
        "Through haproxy (load closed) 26.7 % of the throughput is lost, published 26.7 %, and the"
        " median response time changes by +300 µs."
    ]
    left = proxies_figure(ways).data.select("through", "series", "value").rows()
    assert left[0] == ("release-16", "measured", pytest.approx(73.3, abs=0.05))
    assert left[2] == ("release-16", "published", left[0][2])
    # An imprecise way is not compared, with a reason.
    imprecise = dataclasses.replace(mine, throughput_lost=lost(-1.2, -10, 7.6))
    known = to_text(proxies_grid(("through",), ProxyCosts((imprecise,))), 140).plain
    assert "−1.2 ± 8.8" in known
    assert "precise" not in known
    nothing = dataclasses.replace(mine, blocks=0, throughput_lost=None)
    unknown = to_text(proxies_grid(("through",), ProxyCosts((mine, nothing))), 140).plain
    assert "isn't precise enough to stand in a comparison" in " ".join(unknown.split())
    for found, sentence in (
        (lost(0.1, -0.2, 0.4), "no loss of throughput is seen (0.10 ± 0.30 %)"),
        (lost(12, 10, 14), "12.0 % of the throughput is lost (10.0 to 14.0)"),
        (lost(-3, -4, -2), "3.00 % of the throughput is won (2.00 to 4.00)"),
    ):
        (text,) = cost_sentences(ProxyCosts((dataclasses.replace(mine, throughput_lost=found),)))
        assert sentence in text


def lost(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, low, high, 5, "%", "paired")


# A real proxy before a real system.


def test_haproxy_to_redis_is_measured(program: Program, system: Testbed, haproxy: Testbed) -> None:
    words = ["--system", "up:redis", "--through", "up:haproxy", "--repetitions", "2"]
    words += ["--scale", "0.2", "--report", "page.html", "-q", "--json"]
    ended = program("study", "proxy", *words)
    assert ended.code in (0, 1), ended
    costs = ended.json["ways"]["costs"]
    assert [(cost["proxy"]["kind"], cost["proxy"]["threads"]) for cost in costs] == [
        ("haproxy", 1)
    ] * 2
    # On a machine that isn't quiet runs may be INVALID, and then that is said.
    for name in ("proxy_cpu", "proxy_memory_bytes"):
        assert all((cost[name] is None) == (name in cost["missing"]) for cost in costs), costs
    addresses = {"direct": system.nodes[0].address, "haproxy": haproxy.nodes[0].address}
    manifests = program.manifests()
    assert len(manifests) == 8
    for run, manifest in manifests.items():
        levels, plan = manifest["spec"]["study"]["levels"], manifest["plan"]
        assert plan["system"]["options"]["address"] == addresses[levels["through"]]
        arrivals = {one["name"]: one.get("arrival", {}).get("process") for one in plan["groups"]}
        assert arrivals["clients"] == ("closed" if levels["load"] == "closed" else "constant")
        if levels["through"] == "haproxy":
            assert manifest["testbed"]["kind"] == "haproxy"
            assert manifest["testbed"]["behind"]["system"] == "redis"
            resources = pl.read_parquet(program.folder / "runs" / run / "resources.parquet")
            nodes = {"coordinator", "generator", "haproxy", "primary-1"}
            assert set(resources["node"]) == nodes
    assert "What the way through each proxy costs" in (program.folder / "page.html").read_text()
