"""A load with one planted sin gives its reason and no other, and a clean load none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from imports.samples import sample
from kvmark.analysis.audit.observed import ObservedLoad, observe
from kvmark.analysis.audit.own_figures import with_own_figures
from kvmark.analysis.audit.pacing import (
    Exchanges,
    Numbers,
    load_model,
    omission,
    pace,
    pool_pace,
    sharing_clients,
    unused_share,
    usual_intervals,
)
from kvmark.analysis.verdict.checks_audit import check_audit
from kvmark.imports.foreign_command import announced_load
from kvmark.imports.writing import imported_record
from kvmark.learn.counterpart import counterpart
from kvmark.records.audit import AnnouncedLoad, AuditRecord, ComparedFigures, ThreadsRecord
from kvmark.spec.url import parse_system_url
from kvmark.spec.workload import parse_workload
from kvmark.stats.distributions import fit_population
from kvmark.trace.folder import Trace
from kvmark.trace.recording import TapProgress
from learn.planted import recorded

MS = 10**6
S = 10**9
NOBODY = AnnouncedLoad()


@dataclass(frozen=True)
class Client:
    """A simulated client, and the server that answers it."""

    model: str = "closed"
    connections: int = 10
    active: int = 10
    """The connections that do all the work."""
    span_ns: int = 4 * S
    interval_ns: int = 10 * MS
    """Between requests of a connection, unless the loop is closed."""
    service_ns: tuple[int, int] = (2 * MS, 3 * MS)
    slower: float = 0.0
    """Growth of the service times until the end."""
    stall: tuple[int, int] = (0, 0)
    """When the server answers nothing."""
    pause: tuple[int, int] = (0, 0)
    """When the client sends nothing."""
    oversleeps: int = 0
    """Every so many requests the client is late by five intervals, and then catches up."""
    depth: int = 1
    keys: int = 500
    hot: float = 0.0
    outcomes: tuple[str, ...] = ("ok",)
    pool: int = 0
    """The connections that all clients share, if any."""

    def requests(self) -> Iterator[tuple[int, int, int]]:
        """Connection, sending and answer of each request."""
        chance = np.random.default_rng(1)
        for connection in range(self.active):
            due_ns = self.interval_ns * connection // self.active
            free_ns = late_ns = number = 0
            while True:
                number += 1
                at_ns = free_ns + 20_000 if self.model == "closed" else due_ns
                if self.model == "paced":
                    at_ns = max(at_ns, free_ns)
                if self.oversleeps and number % self.oversleeps == 0:
                    late_ns = due_ns + 5 * self.interval_ns
                at_ns = max(at_ns, late_ns)
                begin, end = self.pause
                at_ns = end + connection if begin <= at_ns < end else at_ns
                if at_ns >= self.span_ns:
                    break
                took_ns = int(chance.integers(*self.service_ns))
                took_ns += int(took_ns * self.slower * at_ns / self.span_ns)
                begin, end = self.stall
                free_ns = (end if begin <= at_ns < end else at_ns) + took_ns
                yield from ((connection, at_ns, free_ns) for _ in range(self.depth))
                due_ns += self.interval_ns
        # The others log in.
        for connection in range(self.active, self.connections):
            yield connection, connection, connection + MS

    def trace(self, folder: Path) -> Trace:
        """What a tap records of it."""
        chance = np.random.default_rng(2)
        rows = sorted(self.requests(), key=lambda row: row[1])
        client, at_ns, completed_ns = np.array(rows).T
        count = len(rows)
        client = chance.integers(0, self.pool, count) if self.pool else client
        keys = np.where(chance.random(count) < self.hot, 0, chance.integers(0, self.keys, count))
        columns: dict[str, Any] = {
            "client": client,
            "completed_ns": pl.Series(completed_ns - at_ns[0]),
            "outcome": pl.Series(chance.choice(self.outcomes, count).tolist()),
            "statement": ["GET {key}"] * count,
        }
        return recorded(folder, keys, at_ns, ["read"] * count, **columns)

    def observed(
        self,
        folder: Path,
        announced: AnnouncedLoad = NOBODY,
        threads: ThreadsRecord | None = None,
    ) -> ObservedLoad:
        tap = TapProgress("h:1", 0, self.connections, 0, 0, True, b"", self.pool > 0)
        return observe(self.trace(folder), tap, announced, threads)


CLOSED, PACED = Client(), Client("paced")
OPEN = Client("open", connections=2, active=2, interval_ns=4 * MS, service_ns=(2 * MS, 9 * MS))
STALL, PAUSE = (S, S + 700 * MS), (2 * S, 2 * S + 600 * MS)
SATURATED = ThreadsRecord(3, 0.95, 1.2)

SINS: list[tuple[str | None, Client, AnnouncedLoad, dict[str, Any]]] = [
    *((None, client, NOBODY, {}) for client in (CLOSED, PACED, OPEN)),
    *((None, replace(client, pool=3), NOBODY, {}) for client in (CLOSED, PACED)),
    (None, replace(CLOSED, depth=16), NOBODY, {}),
    (None, replace(OPEN, stall=(S, S + 300 * MS)), NOBODY, {}),
    (None, CLOSED, AnnouncedLoad(10, 500, None), {}),
    (None, PACED, AnnouncedLoad(10, None, 1000.0), {}),
    (None, replace(CLOSED, keys=10**5), AnnouncedLoad(records=10**5), {}),
    ("misses", replace(CLOSED, outcomes=("miss",)), NOBODY, {}),
    ("misses", replace(PACED, outcomes=("ok", "miss")), NOBODY, {}),
    ("errors", replace(CLOSED, outcomes=("ok", "refused")), NOBODY, {}),
    ("one_hot_key", replace(CLOSED, hot=0.4), NOBODY, {}),
    ("one_hot_key", replace(CLOSED, keys=1), NOBODY, {}),
    ("fewer_keys", CLOSED, AnnouncedLoad(records=1000), {}),
    ("unused_connections", replace(CLOSED, active=2), NOBODY, {}),
    ("unused_connections", CLOSED, AnnouncedLoad(clients=50), {}),
    ("coordinated_omission", replace(CLOSED, stall=STALL), NOBODY, {}),
    ("coordinated_omission", replace(PACED, stall=STALL), NOBODY, {}),
    ("coordinated_omission", replace(CLOSED, stall=STALL, pool=3), NOBODY, {}),
    ("schedule_late", replace(PACED, oversleeps=40, pool=3), NOBODY, {}),
    *(("generator_pause", replace(one, pause=PAUSE), NOBODY, {}) for one in (CLOSED, PACED, OPEN)),
    ("schedule_late", replace(PACED, oversleeps=40), NOBODY, {}),
    ("schedule_late", replace(OPEN, oversleeps=40), NOBODY, {}),
    ("wrong_pace", PACED, AnnouncedLoad(rate=2000.0), {}),
    ("wrong_pace", OPEN, AnnouncedLoad(rate=450.0), {}),
    ("not_stationary", replace(CLOSED, slower=0.5), NOBODY, {}),
    ("too_short", replace(CLOSED, span_ns=2 * S), NOBODY, {}),
    ("generator_saturated", CLOSED, NOBODY, {"threads": SATURATED}),
    ("command_failed", CLOSED, NOBODY, {"exit_code": 1}),
    ("interrupted", CLOSED, NOBODY, {"exit_code": -2, "interrupted": True}),
]  # fmt: skip


@pytest.mark.parametrize(("code", "client", "announced", "ending"), SINS)
def test_a_sin_gives_its_reason_and_no_other(
    tmp_path: Path,
    code: str | None,
    client: Client,
    announced: AnnouncedLoad,
    ending: dict[str, Any],
) -> None:
    load = client.observed(tmp_path, announced)
    assert load.pace.model == client.model
    known: dict[str, Any] = {"threads": None, "exit_code": 0, "interrupted": False, **ending}
    audit = AuditRecord(
        tool="theirs", announced=announced, sent=load.sent, connections=load.connections,
        pace=load.pace, omission=load.omission, drift=load.drift, tap=None, figures=load.figures,
        intervals=load.sent.span_ns // load.slot_ns - 1, **known,
    )  # fmt: skip
    found = [reason.code for reason in check_audit(audit) if reason is not None]
    assert found == ([] if code is None else [code])


def test_clients_that_share_connections_are_counted_unless_their_number_is_unbound() -> None:
    chance = np.random.default_rng(3)
    rows = sorted(CLOSED.requests(), key=lambda row: row[1])
    _, sent, answered = np.array(rows).T
    clients, is_bound = sharing_clients(sent, answered)
    assert (clients.max() + 1, is_bound) == (CLOSED.active, True)
    # Each has its answer before its next request.
    for client in range(CLOSED.active):
        own = clients == client
        assert (answered[own][:-1] <= sent[own][1:]).all()
    sent = np.cumsum(chance.exponential(MS, 20_000)).astype(np.int64)
    answered = sent + chance.integers(2 * MS, 3 * MS, len(sent))
    assert not sharing_clients(sent, answered)[1]
    exchanges = Exchanges.of(sharing_clients(sent, answered)[0], sent, answered)
    found = pool_pace(exchanges, "closed", 0.5, is_bound=False)
    assert (found.model, found.interval_ns) == ("open", None)


def test_clients_are_bound_also_if_all_have_a_request_only_rarely() -> None:
    """Arrivals see fewer outstanding requests than there are over time; an open load doesn't."""
    chance = np.random.default_rng(6)
    free = [int(chance.exponential(MS)) for _ in range(8)]
    rows = []
    for _ in range(4000):
        client = free.index(min(free))
        sent, service, think = free[client], chance.exponential(MS), chance.exponential(2 * MS)
        rows.append((sent, sent + int(service)))
        free[client] = sent + int(service + think)
    sent, answered = np.array(rows).T
    assert sharing_clients(sent, answered)[1]


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_few_requests_give_no_bound(count: int) -> None:
    sent = np.arange(count) * 10
    for took in (0, 5, 25):
        assert not sharing_clients(sent, sent + took)[1]


def test_clients_are_bound_also_if_they_wait_for_the_core_that_they_share() -> None:
    """Their rate is that of the core, whatever is outstanding, and none at the most."""
    chance = np.random.default_rng(7)
    ends: list[int] = []
    rows, now = [], 0
    for _ in range(4000):
        now += int(chance.exponential(MS))
        ends = sorted(end for end in ends if end > now)
        if len(ends) == 8:
            now, ends = ends[0], ends[1:]
        end = now + int(chance.exponential(4 * MS))
        ends.append(end)
        rows.append((now, end))
    sent, answered = np.array(rows).T
    assert sharing_clients(sent, answered)[1]


def model(client: Client, busiest: float | None = None) -> str:
    rows = np.array(list(client.requests()))
    return load_model(Exchanges.of(*rows.T).pipelines, busiest)[0]


def test_a_pace_is_told_from_a_loop_that_waits_for_its_own_thread() -> None:
    # Each answer after 2 to 3 ms: a pace of 3.2 ms leaves little room, and one of 10 ms much.
    assert model(replace(PACED, interval_ns=3_200_000)) == "paced"
    slow = replace(PACED, connections=1, active=1)
    assert [model(slow, busiest) for busiest in (None, 0.5, 0.9)] == ["paced", "paced", "paced"]
    # A pause that doesn't depend on the answer, unless all answers take the same time.
    chance = np.random.default_rng(4)
    for scatter, models in ((MS, ["closed", "closed"]), (3, ["paced", "closed"])):
        service = MS + chance.integers(0, scatter, 500)
        think = 4 * MS + chance.integers(0, MS, 500)
        sent = np.r_[0, np.cumsum(service + think)[:-1]]
        pipelines = Exchanges.of(np.zeros_like(sent), sent, sent + service).pipelines
        assert [load_model(pipelines, busiest)[0] for busiest in (0.1, 0.9)] == models


def test_the_rounds_of_an_event_loop_are_no_pace() -> None:
    """A late answer shortens the pause until the next round, as with a pace."""
    chance = np.random.default_rng(5)
    begins = np.cumsum(chance.integers(300_000, 700_000, 400))
    rows = [
        (client, begin + 1000 * client, begin + 1000 * client + chance.integers(50_000, 250_000))
        for begin in begins
        for client in range(20)
    ]
    pipelines = Exchanges.of(*np.array(rows).T).pipelines
    assert load_model(pipelines, None)[0] == "closed"


def test_a_pipeline_that_is_kept_full_is_a_closed_loop() -> None:
    """Sixteen requests wait at any time: each is sent when the one 16 before it is answered."""
    answered = np.arange(16, 2016) * MS
    sent = np.r_[np.zeros(16, np.int64), answered[:-16]]
    exchanges = Exchanges.of(np.zeros_like(sent), sent, answered)
    assert load_model(exchanges.pipelines, None) == ("closed", None)
    everything = np.ones(len(sent), np.bool_)
    found = omission(exchanges, everything)
    assert found is not None
    # None is left out: a request takes 16 intervals.
    assert found.corrected_ns_p99 == found.service_ns_p99 == 16 * MS


def test_the_requests_left_out_during_a_stall_wait_for_its_rest() -> None:
    """At 1 ms each, an answer after 101 ms hides 100 requests, which wait 100 ms to 1 ms."""
    service = np.full(1000, MS)
    service[500] = 101 * MS
    sent = np.r_[0, np.cumsum(service)[:-1]]
    found = omission(Exchanges.of(np.zeros_like(sent), sent, sent + service), service > 0)
    assert found is not None
    assert found.stalled_share == pytest.approx(100 / 1100)
    assert found.service_ns_p99 == MS
    assert found.corrected_ns_p99 == pytest.approx(90 * MS, abs=2 * MS)
    assert found.longest_ns == 101 * MS


def test_the_usual_interval_is_that_of_a_client_that_catches_up_or_ignores_its_stalls() -> None:
    first = np.cumsum([0, *[10] * 20, 500, *[10] * 20])
    second = np.cumsum([0, *[99, 101] * 20, 700, 0, 0, 0, 0, 0, 0, *[99, 101] * 20])
    group = np.repeat([0, 1, 2], [len(first), len(second), 1])
    found = usual_intervals(group, np.r_[first, second, 7])
    assert found.tolist() == [10.0, 100.0, 0.0]


def test_lateness_counts_from_the_own_pace() -> None:
    """Every twentieth request is 30 ms late, and the next ones catch up."""
    due = np.arange(1000) * 10 * MS
    sent = due.copy()
    for first in range(9, 990, 20):
        sent[first : first + 4] = due[first] + 30 * MS + np.arange(4) * 1_100_000
    exchanges = Exchanges.of(np.zeros_like(sent), sent, sent + MS)
    found = pace(exchanges, "paced", 0.1)
    assert found.interval_ns == pytest.approx(10 * MS, rel=0.002)
    # 30, 21 and 12 ms late; 3 ms is less than an interval.
    assert found.late_share == pytest.approx(0.15, abs=0.005)
    assert found.late_ns_p99 == pytest.approx(30 * MS, rel=0.02)


@pytest.mark.parametrize(
    ("counts", "expected", "share"),
    [([5, 5, 5], 3, 0.0), ([500, 500, 1, 1], 4, 0.5), ([7, 7], 8, 0.75), ([5, 6], 1, 0.0)],
)
def test_connections_without_a_tenth_of_their_share_are_unused(
    counts: list[int], expected: int, share: float
) -> None:
    assert unused_share(np.array(counts), expected) == share


def drawn(keys: Numbers) -> list[int]:
    return sorted(np.unique(keys, return_counts=True)[1].tolist(), reverse=True)


def test_the_draws_show_how_many_items_there_are() -> None:
    chance = np.random.default_rng(3)
    weights = np.arange(1, 1001) ** -0.99
    for keys, spread, size in (
        (np.zeros(9, np.int64), "one", 1),
        (np.arange(900), "once", None),
        (np.arange(900) % 300, "in turn", 300),
        (chance.integers(0, 10, 5000), "even", 10),
        (chance.integers(0, 10_000, 5000), "even", 10_000),
        (chance.integers(0, 10_000, 100_000), "even", 10_000),
        (chance.integers(0, 10**6, 5000), "even", None),
        (chance.choice(1000, 100_000, p=weights / weights.sum()), "uneven", 1000),
        (chance.choice(1000, 2000, p=weights / weights.sum()), "uneven", None),
    ):
        found = fit_population(drawn(keys))
        assert found is not None
        assert found.spread == spread, (spread, size)
        assert found.size == (None if size is None else pytest.approx(size, rel=0.06))
    assert fit_population([]) is None


@pytest.mark.parametrize(
    ("command", "announced"),
    [
        ("memtier_benchmark -s h -t 2 -c25 --key-maximum=1000", AnnouncedLoad(50, 1000)),
        ("memtier_benchmark --threads 2 --clients=5 --rate-limiting 7", AnnouncedLoad(10, rate=70)),
        ("/usr/bin/redis-benchmark -r 100000 -c 7", AnnouncedLoad(7, 100_000)),
        ("taskset -c 1 redis-benchmark", AnnouncedLoad(50)),
        ("sh -c|redis-benchmark -c 3 && true", AnnouncedLoad(3)),
        ("cassandra-stress write n=9 -rate threads=8 fixed=500/s", AnnouncedLoad(rate=500)),
        ("cassandra-stress read -rate threads=8", AnnouncedLoad()),
        ("latte run a.rn --threads 2 -r 70 host", AnnouncedLoad(rate=70)),
        ("mine -c 5", AnnouncedLoad()),
    ],
)  # fmt: skip
def test_the_options_of_known_tools_announce_their_load(
    command: str, announced: AnnouncedLoad
) -> None:
    first, *inner = command.split("|")
    assert announced_load([*first.split(), *inner]) == announced


def test_a_tool_s_figures_stand_beside_those_of_the_same_command() -> None:
    tap = [ComparedFigures(name, 1.0, 2.0, 3.0) for name in ("all", "GET", "SET")]
    redis = {
        one.name: one
        for one in with_own_figures(tap, imported_record(sample("redis-benchmark.csv")))
    }
    assert redis["SET"].own_rate == 84459.46
    assert redis["GET"].own_p50_ns == pytest.approx(55_000)
    assert redis["all"].own_rate is None
    assert redis["PING_INLINE"].rate is None
    memtier = {
        one.name: one for one in with_own_figures(tap, imported_record(sample("memtier.json")))
    }
    assert set(memtier) >= {"all", "GET", "SET"}
    assert memtier["GET"].rate == 1.0
    assert (memtier["GET"].own_rate or 0) + (memtier["SET"].own_rate or 0) == pytest.approx(
        memtier["Totals"].own_rate if "Totals" in memtier else memtier["all"].own_rate, rel=0.01
    )
    cql = [ComparedFigures(name, 1.0, 2.0, 3.0) for name in ("all", "SELECT", "UPDATE")]
    stress = with_own_figures(cql, imported_record(sample("cassandra-stress-direct.log")))
    assert [one.name for one in stress] == ["all", "SELECT", "UPDATE"]
    assert [one.own_rate for one in stress] == [15072, None, 15072]


@pytest.mark.parametrize(
    ("client", "options", "keys"),
    [
        (CLOSED, "--clients 10", "uniform"),
        (PACED, "--rate 1000 --clients 10", "uniform"),
        (OPEN, "--rate 500 --clients 256", "uniform"),
        (replace(CLOSED, depth=16, hot=0.5), "--clients 10", "zipfian"),
    ],
)
def test_the_same_load_is_a_workload_of_kvmark(
    tmp_path: Path, client: Client, options: str, keys: str
) -> None:
    load = client.observed(tmp_path)
    trace = Trace.open(tmp_path / "X.trace")
    system = parse_system_url("redis://h")
    found = counterpart(load, trace, system, "theirs", None)
    assert found is not None
    assert " ".join(found.options) == f"--system redis://h --duration 4s {options}"
    workload = parse_workload(found.text, "workload.yaml")
    assert workload.dataset.records == pytest.approx(500, rel=0.02)
    assert workload.groups[0].keys.distribution == keys
    assert workload.statements["READ"].pipelines == (client.depth > 1)
    assert counterpart(load, trace, parse_system_url("null:"), "theirs", None) is None
