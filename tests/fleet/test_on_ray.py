"""A fleet on Ray: three nodes on the loopback address, one of which is killed at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from kvmark.records import Records, Run, files, read_events
from kvmark.secret import Secret
from redis_testbeds import Up, root, up, with_redis

pytest.importorskip("ray", reason="Ray isn't installed: pip install 'kvmark[fleet]'")

from cluster import Cluster, running

from waiting import PATIENCE_S, wait_until

__all__ = ["root", "up", "with_redis"]

KVMARK = Path(sys.executable).with_name("kvmark")
Command = Callable[..., subprocess.Popen[str]]

COUNTED = ("run", "ycsb/a", "--system", "null:", "--operations", "30001", "--clients", "6")
ENDLESS = ("run", "ycsb/c", "--system", "sim:?mean_us=2000&servers=100", "--clients", "6",
           "--duration", "1h", "--interval", "100ms")  # fmt: skip
CANARY = "C4n4ryFl1es"
AGENT, GENERATOR = "ray::Agent", "kvmark.run.worker"
STUDY = """
name: lost-in-the-middle
question: Does a study go on when a machine is gone?
system: "sim:?mean_us=2000&servers=100"
workload: ycsb/c
run: {duration: 8s, interval: 200ms}
order: written
factors:
  clients: [6, 12]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running(3) as made:
        yield made


def ended(command: subprocess.Popen[str], *exits: int) -> str:
    """The output and errors of a command, which ends with one of these codes."""
    out, err = command.communicate(timeout=PATIENCE_S)
    assert command.returncode in exits, out + err
    return out + err


@pytest.fixture
def kvmark(cluster: Cluster, tmp_path: Path) -> Command:
    """Starts the command with the cluster's token."""

    def start(*words: str, **more: str) -> subprocess.Popen[str]:
        own = {**cluster.environment, "KVMARK_RUNS": str(tmp_path / "runs"), **more}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([KVMARK, *words], cwd=tmp_path, env=own, text=True, **pipes)

    return start


def measured_lines(folder: Path) -> int:
    """How many intervals the newest run that goes has since its measure phase started."""
    runs = sorted(path.parent for path in folder.glob(f"runs/*/{files.INTERVAL_LOG}"))
    if not runs:
        return 0
    begun = [one for one in read_events(runs[-1] / files.EVENTS) if one["kind"] == "phase_started"]
    measure = [event["phase"] for event in begun if event["name"] == "measure"]
    lines = (runs[-1] / files.INTERVAL_LOG).read_text().splitlines()
    return sum(json.loads(line)["phase"] in measure for line in lines[:-1])


def processes(command: str) -> set[int]:
    """The processes with this in their command, such as agents, or those that generate load."""
    found = psutil.process_iter(["pid", "cmdline"])
    return {one.pid for one in found if command in " ".join(one.info["cmdline"] or [])}


def counts(run: Run) -> dict[tuple[str, str], int]:
    totals = run.manifest.engine.totals
    return {(one.operation, one.outcome): one.count for one in totals}


def opened(folder: Path) -> list[Run]:
    """All runs, the newest first."""
    records = Records(folder / "runs")
    return [records.open(entry.id) for entry in records.list()]


def test_three_nodes_do_the_work_of_one(cluster: Cluster, kvmark: Command, tmp_path: Path) -> None:
    alone = kvmark(*COUNTED)
    together = kvmark(*COUNTED, "--fleet", cluster.address, "--machines", "3")
    for process in (alone, together):
        ended(process, 0)
    one, three = sorted(opened(tmp_path), key=lambda run: len(run.manifest.engine.agents))
    assert counts(three) == counts(one)
    assert sum(counts(three).values()) == 30_001
    agents = three.manifest.engine.agents
    assert [agent.share for agent in agents] == [0, 1, 2]
    assert len({agent.machine for agent in agents}) == 3
    agreed_ns = three.manifest.engine.phases[-1].start_ns
    assert all(agent.starts_ns[2] >= agreed_ns for agent in agents)
    assert all(agent.clock_round_trip_ns > 0 < agent.host["cores"] for agent in agents)


def test_limits_fail_the_command(cluster: Cluster, kvmark: Command) -> None:
    fleet = ("--fleet", cluster.address, "--machines", "3")
    missed = kvmark(*COUNTED, *fleet, "--slo", "p99<1ns", "--slo", "errors<0.1%")
    assert "kvmark: p99<1ns was missed" in ended(missed, 1)
    load = " ".join((*ENDLESS[1:4], "--duration", "2s", "--interval", "50ms"))
    sides = ("--base", "--clients 6", "--candidate", "--clients 3")
    gate = ("--max-blocks", "4", "--fail-if", "throughput<-20%")
    assert "worse than allowed: throughput<-20%" in ended(
        kvmark("ab", load, *sides, *gate, *fleet), 1
    )


def test_a_replay_is_divided(cluster: Cluster, kvmark: Command, tmp_path: Path) -> None:
    rows = (
        f"{n // 500},key{n * n % 37},12,{n % 500 + 1},{n % 7},{'get' if n % 5 else 'set'},0\n"
        for n in range(2000)
    )
    (tmp_path / "t.csv").write_text("".join(rows))
    made = (KVMARK, "trace", "import", "t.csv", "-o", "t.trace")
    subprocess.run(made, cwd=tmp_path, check=True, timeout=PATIENCE_S)
    # The nodes have other caches than who made the tape.
    own = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = ("replay", "t.trace", "--system", "null:", "--speed", "10", "--clients", "6")
    alone = kvmark(*words, **own)
    fleet = ("--fleet", cluster.address, "--machines", "3")
    together = kvmark(*words, *fleet, **own)
    swept = kvmark(*words[:4], *fleet, "--clients", "6", "--sweep", "speed=10,max", **own)
    for process in (alone, together, swept):
        # A busy machine may be late, which makes a run no worse here.
        ended(process, 0, 1)
    *divided, one = sorted(opened(tmp_path), key=lambda run: -len(run.manifest.engine.agents))
    assert [len(run.manifest.engine.agents) for run in (*divided, one)] == [3, 3, 3, 0]
    for run in divided:
        assert counts(run) == counts(one)
        phases = {phase.name: phase.groups[0] for phase in run.manifest.engine.phases[::2]}
        assert phases["measure"].issued == 2000
        assert phases["measure"].due in (2000, None)
        assert phases["load"].issued == one.manifest.engine.phases[0].groups[0].issued > 0


def test_stress_is_divided(cluster: Cluster, kvmark: Command, tmp_path: Path) -> None:
    own = ("stress", "--fleet", cluster.address, "--machines", "3", "--commit", "abc")
    words = ("write", "n=3001", "no-warmup", "-rate", "threads=6", "-node", "null:")
    ended(kvmark(*own, *words), 0)
    (run,) = opened(tmp_path)
    assert sum(counts(run).values()) == 3001
    assert len(run.manifest.engine.agents) == 3
    assert run.manifest.commit == "abc"


def test_more_machines_than_there_are_is_wrong_use(cluster: Cluster, kvmark: Command) -> None:
    told = ended(kvmark(*COUNTED, "--fleet", cluster.address, "--machines", "4"), 2)
    assert "fleet: 4 machines are wanted and 3 of the cluster" in told


def test_load_stops_without_the_command(cluster: Cluster, kvmark: Command, tmp_path: Path) -> None:
    before = processes(AGENT)
    command = kvmark(*ENDLESS, "--fleet", cluster.address)
    wait_until(lambda: measured_lines(tmp_path) > 3, "intervals stream in")
    agents = processes(AGENT) - before
    assert len(agents) == 3
    # Ray would have them give way to all other programs of their machines.
    started = [child for each in agents for child in psutil.Process(each).children(recursive=True)]
    loading = {each.pid: each.nice() for each in started if each.pid in processes(GENERATOR)}
    assert set(loading.values()) == {psutil.Process().nice()}
    os.kill(command.pid, signal.SIGKILL)
    command.communicate(timeout=PATIENCE_S)
    wait_until(lambda: not processes(AGENT) - before, "the agents are gone")
    wait_until(lambda: not processes(GENERATOR) & set(loading), "nothing generates load any more")


def test_a_password_is_secret(cluster: Cluster, kvmark: Command, up: Up, tmp_path: Path) -> None:
    system = f"redis://default:{CANARY}@{up(password=Secret(CANARY)).nodes[0].address}"
    words = ("run", "ycsb/c", "--system", system, "--records", "50", *ENDLESS[4:])
    command = kvmark(*words, "--fleet", cluster.address)
    wait_until(lambda: measured_lines(tmp_path) > 0, "the run has an interval")
    assert not processes(CANARY)
    command.send_signal(signal.SIGINT)
    assert CANARY not in ended(command, 130)
    assert list(cluster.folder.rglob("*.log"))
    # Ray's store of objects is its memory, not a file.
    for folder in (tmp_path / "runs", cluster.folder):
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert not [path for path in files if CANARY.encode() in path.read_bytes()]


def test_a_study_outlives_a_node(cluster: Cluster, kvmark: Command, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    command = kvmark("study", "study.yaml", "--fleet", cluster.address, "--report", "none")
    wait_until(lambda: measured_lines(tmp_path) > 10, "the first case is being measured")
    cluster.kill(2)
    ended(command, 1)
    second, first = opened(tmp_path)
    verdicts = [
        json.loads(Records(tmp_path / "runs").verdict_path(run.id).read_text())
        for run in (first, second)
    ]
    (lost,) = [agent for agent in first.manifest.engine.agents if agent.lost]
    assert 0 < lost.lost.missing < 1 / 3
    assert sum(counts(first).values()) > 0
    assert first.manifest.engine.phases[-1].stopped_by == "duration"
    reasons, others = (
        {one["code"]: one["sentence"] for one in each["reasons"]} for each in verdicts
    )
    begin = f"Share {lost.share + 1} of 3, generated by {lost.machine}"
    assert reasons["lost_share"].startswith(begin)
    assert "fewer_machines" in others
    assert len(second.manifest.engine.agents) == 2
    assert all(agent.lost is None for agent in second.manifest.engine.agents)
