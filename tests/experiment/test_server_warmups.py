"""The warm-up of a study's servers, and what is seen of servers that had none."""

import json
import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path

import polars as pl
import pytest
from scripted_store import store
from studies import MakeStudy, Program

from kvmark.errors import Interrupted, SystemUnderTestError
from kvmark.experiment.journal import Journal
from kvmark.experiment.study import warm_up
from kvmark.experiment.study.answer import stored_study, study_results
from kvmark.experiment.study.definition import Study
from kvmark.frontends import commands_per_operation
from kvmark.plan.compile import compile_run
from kvmark.records import Records
from kvmark.spec.run import RunSpec
from kvmark.spec.url import parse_system_url
from kvmark.stats import warmup_gain
from runs_on_disk import closed


class Simulated:
    """A server that takes `slow` times longer when it begins, and half of that later on."""

    def __init__(self, seed: int, slow: float, half_life_s: float, noise: float = 0.03) -> None:
        self.chance, self.now_s, self.noise = random.Random(seed), 0.0, noise
        self.slow, self.half_life_s = slow, half_life_s

    @property
    def shortfall(self) -> float:
        """What it lacks now of the speed that it will have."""
        return -math.expm1(-self.slow * 2 ** (-self.now_s / self.half_life_s))

    def warmed_up(self, seconds: float, **full: float) -> warm_up.ServerWarmup:
        """Warms it up by loads of these full speeds, so many seconds a round, with noise."""

        def one_round(speed: float) -> float:
            self.now_s += seconds / 2
            found = speed * (1 - self.shortfall) * math.exp(self.chance.gauss(0, self.noise))
            self.now_s += seconds / 2
            return found

        loads = {name: lambda _, speed=speed: one_round(speed) for name, speed in full.items()}
        return warm_up.warm_up_servers(loads, 600, lambda: self.now_s, lambda _: None)


@pytest.mark.parametrize("seed", range(20))
def test_a_server_that_gets_faster_for_minutes_is_warmed_for_minutes(seed: int) -> None:
    # As Cassandra's nodes on a shared core: 0.5 of their speed at first, half the gap in 70 s.
    server = Simulated(seed, 0.7, 70)
    found = server.warmed_up(10, read=9_000, write=4_000, scan=2)
    assert warm_up.has_levelled(found.rounds)
    assert found.took_s >= 240
    assert server.shortfall < 0.07
    assert found.rounds[0] < 0.8


def test_a_noisy_machine_keeps_no_warm_up_going_and_ends_none_too_early() -> None:
    ended = []
    for seed in range(100):
        server = Simulated(seed, 0.7, 70, noise=0.12)
        ended.append((len(server.warmed_up(30, read=9_000).rounds), server.shortfall))
    rounds, shortfalls = zip(*ended, strict=True)
    assert sum(rounds) / 100 < 13
    assert sorted(rounds)[94] < warm_up.MOST_ROUNDS
    assert sorted(shortfalls)[94] < 0.1
    assert sum(shortfalls) / 100 < 0.03


def test_a_server_that_is_warm_needs_few_rounds_and_one_that_never_is_all() -> None:
    warm, never = Simulated(3, 0.0, 1), Simulated(3, 5.0, 2000)
    speeds = dict.fromkeys(("read", "write", "insert", "scan"), 9_000)
    assert len(warm.warmed_up(15, **speeds).rounds) <= 7
    found = never.warmed_up(30, read=9_000)
    assert len(found.rounds) == warm_up.MOST_ROUNDS
    assert not warm_up.has_levelled(found.rounds)
    assert (warmup_gain(found.rounds) or 0) > 0.03


def failing(fails_in: int, speed: float | None) -> warm_up.Load:
    """A load of this speed, or of one that doubles each round; it fails in one of them."""

    def load(number: int) -> float:
        if number == fails_in:
            raise SystemUnderTestError("it is gone; the run is kept as 20261126-000000-x")
        return speed or 2.0**number

    return load


@pytest.mark.parametrize(
    ("fails_in", "speed", "rounds", "asked"),
    [(2, 7.0, (1.0,) * 6, 7), (warm_up.MOST_ROUNDS, None, (1.0,), warm_up.MOST_ROUNDS)],
    ids=["the rounds before are left out", "the last round is followed by no other"],
)
def test_a_load_that_fails_is_left_out(
    fails_in: int, speed: float | None, rounds: tuple[float, ...], asked: int
) -> None:
    said: list[str] = []
    loads = {"good": lambda _: 5.0, "bad": failing(fails_in, speed)}
    found = warm_up.warm_up_servers(loads, 100, lambda: 0.0, said.append)
    assert (found.rounds, warm_up.has_levelled(found.rounds)) == (rounds, len(rounds) > 1)
    assert sum("round" in line for line in said) == asked
    assert "bad warms nothing up: it is gone" in said


def test_without_a_load_there_is_no_warm_up_and_an_interrupt_ends_it() -> None:
    def stopped(_: int) -> float:
        raise Interrupted("stopped")

    assert (
        warm_up.warm_up_servers({"bad": failing(1, 1.0)}, 100, lambda: 0.0, lambda _: None) is None
    )
    with pytest.raises(Interrupted):
        warm_up.warm_up_servers({"read": stopped}, 100, lambda: 0.0, lambda _: None)


class Starved:
    """A server whose compiler needs 60 s of a core; of its own it gets a tenth."""

    def __init__(self, *, restless: bool = False) -> None:
        self.now_s, self.to_do_s, self.is_alone = 0.0, 60.0, True
        self.restless, self.on_all = restless, list[bool]()

    @contextmanager
    def lent(self) -> Iterator[None]:
        self.is_alone = False
        yield
        self.is_alone = True

    def load(self, number: int) -> float:
        self.now_s += 20
        self.on_all.append(not self.is_alone)
        found = 1000 * math.exp(-self.to_do_s / 60) * (1.0 if self.is_alone else 1.3)
        self.to_do_s = max(self.to_do_s - (2 if self.is_alone else 20), 0)
        return 2.0**number if self.restless else found

    def warmed_up(self, *lent: Callable[[], AbstractContextManager[None]]) -> warm_up.ServerWarmup:
        return warm_up.warm_up_servers(
            {"read": self.load}, 800, lambda: self.now_s, lambda _: None, *lent
        )


def test_servers_that_are_lent_cores_are_warm_sooner_and_are_watched_on_their_own() -> None:
    starved, lent = Starved(), Starved()
    slowly, fast = starved.warmed_up(), lent.warmed_up(lent.lent)
    assert slowly.rounds_on_all_cores == ()
    assert starved.to_do_s > 0 == lent.to_do_s
    assert (fast.took_s, warm_up.has_levelled(fast.rounds)) == (300, True)
    assert (len(fast.rounds_on_all_cores), fast.rounds) == (9, (1.0,) * 6)
    assert lent.on_all == [True] * 9 + [False] * 6
    assert fast.as_json()["rounds_on_all_cores"][-2:] == [1.0, 1.0]
    # Cores are lent for half of the time at most.
    never = Starved(restless=True)
    assert not warm_up.has_levelled(never.warmed_up(never.lent).rounds)
    assert (sum(never.on_all), len(never.on_all)) == (warm_up.MOST_ROUNDS // 2, warm_up.MOST_ROUNDS)


def test_speed_is_operations_in_a_client_s_time_and_failures_are_none(tmp_path: Path) -> None:
    manifest = closed(Records(tmp_path)).manifest
    (read,) = manifest.engine.totals
    assert warm_up.client_speed(manifest) == pytest.approx(1e9 / read.service.mean)
    failed = (read.model_copy(update={"outcome": "timeout"}),)
    engine = manifest.engine.model_copy(update={"totals": failed})
    with pytest.raises(SystemUnderTestError, match="no operation succeeded"):
        warm_up.client_speed(manifest.model_copy(update={"engine": engine}))


LOADS = """
system: "sim:"
workload: ycsb/c
run: {records: 10, duration: 1m, warmup: 5s, faults: []}
factors:
  workload: [ycsb/a]
  clients: [1, 50, 1000]
"""


def specs(study: Study) -> list[RunSpec]:
    return [study.run_spec(case, parse_system_url("sim:"), 0) for case in study.cases]


MIXES = """factors:
  mix:
    levels:
      reads: {workload.groups.0.mix: {read: 1}}
      writes: {workload.groups.0.mix: {update: 1}}
"""


@pytest.mark.parametrize(
    ("factors", "chosen"),
    [
        ("factors: {workload: [ycsb/a, ycsb/c], clients: [1, 50, 1000]}", [1, 4]),
        (MIXES, [0, 1]),
    ],
)
def test_a_case_per_workload_warms_up(study: MakeStudy, factors: str, chosen: list[int]) -> None:
    text = LOADS[: LOADS.index("factors:")]
    assert warm_up.warm_up_places(specs(study(f"{text}{factors}\n"))) == chosen
    # Reads leave the records unchanged.
    assert [warm_up.is_read_only(one) for one in specs(study(text + MIXES))] == [True, False]
    once = text.replace("duration: 1m, warmup: 5s, ", "").replace("ycsb/c", "ycsb/load")
    assert warm_up.warm_up_places(specs(study(once))) == []


def test_a_warm_up_is_the_load_without_rate_faults_pauses_or_end(study: MakeStudy) -> None:
    [asked, *_] = specs(study(LOADS.replace("faults: []", "rate: 500, arrival: poisson")))
    short = warm_up.shorten(asked, 3_000_000, settle=False)
    [group] = short.workload.groups
    assert (short.rate, short.arrival, group.clients, short.settle) == (None, None, 1, False)
    assert (short.duration_ns, short.warmup_ns, short.faults) == (3_000_000, 0, ())
    assert short.workload.dataset == asked.workload.dataset

    [asked] = specs(study(GROUPS))
    plan = compile_run(warm_up.shorten(asked, 3_000_000, settle=True))
    found = [
        (one.clients, one.arrival.process, one.arrival.think_time_ns) for one in plan.groups[:2]
    ]
    assert found == [(3, "closed", 0), (16, "closed", 0)]
    assert [part.operations for part in plan.phases[-1].groups] == [None, None]


GROUPS = """
system: "sim:"
workload: mixed
run: {duration: 1m}
workloads:
  mixed:
    description: Groups with words of their own.
    dataset: {records: 100}
    groups:
      - {name: slow, mix: {read: 1}, clients: 3, think_time: 1s, operations: 10}
      - {name: paced, mix: {update: 1}, rate: 50}
"""


@pytest.mark.parametrize(("scale", "minutes"), [(None, 10), (0.025, 2.5), (0.1, 10), (1.0, 10)])
def test_a_small_study_warms_up_less(study: MakeStudy, scale: float | None, minutes: float) -> None:
    text = LOADS + "server_warmup: 10m\nscale: {default: 0.1, of: [duration]}\n"
    assert study(text, scale=scale).server_warmup_ns == minutes * 60 * 10**9
    assert study(LOADS).server_warmup_ns is None


# From the command line.


COLD = """
workload: ycsb/c
run: {records: 100, load: never, clients: 2, duration: 400ms, interval: 10ms}
repetitions: 3
seed: 2
effects: [{title: larger, from: {value_size: 10}, to: {value_size: 40}}]
factors:
  value_size: {path: workload.dataset.fields.length, levels: [10, 20, 30, 40]}
"""


def test_a_server_that_gets_faster_is_warm_before_its_first_case(program: Program) -> None:
    served_before = count()

    def slower_at_first() -> None:
        # Two clients get no more than 20 of these a second, however quick the machine is.
        if next(served_before) < 40:
            time.sleep(0.1)

    with store(slower_at_first) as served:
        text = COLD.replace("ycsb/c", "redis/set")
        system = f'system: "redis://127.0.0.1:{served.port}"\nserver_warmup: 10s\n'
        ended = program.study(system + text, "--json")
    assert ended.json["missing"] == 0, ended
    kept = [one["spec"]["study"] for one in program.manifests().values()]
    # Who started a server knows when; a study that meets one doesn't.
    assert ["after_start" in one for one in kept] == [False] * 12
    assert all(one["server_warmup"] == kept[0]["server_warmup"] for one in kept)
    assert kept[0]["server_warmup"]["rounds"][0] < 0.8
    # Its rounds are no runs of the study, and nothing of them is left.
    assert len(list((program.folder / "runs").glob("2*/manifest.json"))) == 12
    assert not list((program.folder / "runs").glob(".*"))


def as_if_cold(folder: Path) -> None:
    """Changes a run as if its servers had just started, and one machine had been slower."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    own, engine = manifest["spec"]["study"], manifest["engine"]
    # Each case at another place in each repetition.
    size = int(own["levels"]["value_size"])
    own["after_start"] = 1 + (size // 10 + own["repetition"]) % 4
    for total in engine["totals"]:
        share = math.exp(-1.0 * 2.0 ** (1 - own["after_start"]))
        total["in_window"] = round(total["in_window"] * share)
    engine["clock"]["source"] = "tsc"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    [measure] = [one for one in engine["phases"] if one["name"] == "measure"]
    at_ns = engine["started_wall_ns"] + measure["start_ns"]
    took_ns = 1_400_000 if (size, own["repetition"]) == (10, 1) else 1_000_000
    samples = [
        {"at_wall_ns": at_ns + number, "node": "coordinator", "fixed_work_ns": took_ns + number}
        for number in range(10)
    ]
    pl.DataFrame(samples).write_parquet(folder / "resources.parquet")


def test_runs_soon_after_a_start_or_on_a_slower_machine_are_suspect(program: Program) -> None:
    system = 'system: "sim:?clock=virtual&mean_us=900"\n'
    warm = program.study(system + COLD, "--json").json
    judged = {one["code"] for row in warm["rows"] for one in row["figures"]["verdict"]["reasons"]}
    assert not judged & {"cold_servers", "machine_speed"}
    assert [one["change"]["n"] for one in warm["effects"]] == [3]
    records = Records(program.folder / "runs")
    for path in records.root.glob("2*/manifest.json"):
        as_if_cold(path.parent)
    [journal] = [Journal(path, records) for path in records.root.glob("studies/*")]
    found = study_results(stored_study(journal), journal, commands_per_operation)
    codes = {
        row.levels["value_size"]: {one.code for one in row.figures.verdict.reasons}
        for row in found.rows
        if row.figures
    }
    assert all("cold_servers" in told for told in codes.values())
    assert [size for size, told in codes.items() if "machine_speed" in told] == ["10"]
    assert found.effects[0].change is None
