"""Measures one published report again, stores its runs, and fills all documents.

    make measure REPORT=hcassandra MINUTES=120

A study continues after its stored runs, also on another machine. The generator has core 0 and the
servers core 1, proxies both.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Final

from kvmark.experiment.journal import Journal
from kvmark.experiment.study.answer import newest_with_cases
from kvmark.experiment.study.design import every_core
from kvmark.experiment.study.warm_up import MOST_ROUNDS, Load, client_speed, warm_up_servers
from kvmark.records.archive import unpack
from kvmark.records.store import Records
from kvmark.testbed import testbeds_root
from kvmark.testbed.host import other_busy_cores
from kvmark.testbed.state import all_testbeds

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / ".venv/bin/kvmark"
RECORDS = "docs/records"
BEGUN = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
SECONDS_A_MINUTE = 60
ROUND_S = 45
"""Of a server's warm-up."""
LONGEST_RUN_S = 300
"""Of a case whose servers are warm."""
OF_A_WARM_UP = ".tried-*"
"""The folder of a run that isn't kept."""
ENOUGH = (0, 1)
"""Exit codes of a measurement: 1 is a verdict that is a no."""
ENGINES = ("fjall", "lmdb", "redb", "rocksdb", "sqlite")
SMALL_MEMORY_BYTES = 640 << 20
"""Half of the dataset, and what kvmark itself takes."""
STUDIES: Final[Mapping[str, tuple[str, ...]]] = {
    "hcassandra": ("hcassandra", "node_down=no"),
    # After each run with a fault servers are warmed again.
    "hcassandra-node-down": ("hcassandra", "nodes=3", "scenario=2", "clients=100"),
    "yugabyte-1.0.7": ("yugabyte-1.0.7",),
    "cassandra-initial": ("cassandra-initial",),
}
"""A study's file, and the cases of it, under the name of its records."""
TARGETS: Final[Mapping[str, str]] = {
    "redis": "1000,2000,4000,6000,8000,10000,12000,14000,16000",
    "rocksdb": "5000,10000,20000,40000,60000,80000,100000,120000,140000",
}
WITHOUT_LOGS = "--no-histogram-logs"
"""Of runs that are many: the histograms of each interval are most of a run's size."""
WITH_LOGS = ("failover",)
NOT_MEASURING = ("docs", "tests", "bench", "scripts", "python/kvmark/report", "*.md")
"""Paths whose changes move no figure."""
IDLE_FOR_S = 5
IDLE_BELOW_CORES = 0.2
"""Above what three idle nodes and Ray use."""
SHOTOVER_PORT = 19_042
RAY_PORT = 6380
WAYS: Final = tuple((build, threads) for build in ("release", "debug") for threads in (4, 16))


def main() -> int:
    """Measures the report that was named, then writes the documents."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", choices=[*REPORTS, *STUDIES])
    parser.add_argument("--minutes", type=float, help="stop a study then; it can go on later")
    asked = parser.parse_args()
    if asked.report in STUDIES:
        study(asked.report, asked.minutes)
    else:
        REPORTS[asked.report](asked.report)
        store(asked.report)
    return kvmark("doc", *map(str, pages()))


def pages() -> list[Path]:
    """The documents with marked blocks."""
    documents = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    return [page for page in documents if "\n<!-- kvmark: " in page.read_text("utf-8")]


def head() -> str:
    """The last commit that changed what measures: pages are written between two evenings."""
    paths = (".", *(f":!{path}" for path in NOT_MEASURING))
    command = ["git", "log", "-1", "--format=%H", "--", *paths]
    return subprocess.check_output(command, cwd=ROOT, text=True).strip()


def published_rocksdb(report: str) -> None:
    """YCSB's sequence on embedded RocksDB, with the published sizes."""
    words = ("--pin", "0", "--repetitions", "10", "--report", "none")
    must("study", "ycsb-published", *words, *marked(report))


def first_command(report: str) -> None:
    """The README's first command."""
    must("ycsb", "--report", "none", *marked(report))


def embedded(report: str) -> None:
    """Embedded engines with 1,000,000 records, then synced, with two clients, and little memory."""
    words = ("--records", "1000000", "--duration", "3s", "--budget", "none", "--report", "none")
    must("ycsb", *words, *marked(report))
    with TemporaryDirectory() as folder:
        stores = [f"{engine}:{folder}/{engine}" for engine in ENGINES]
        load = ("--workloads", "load", "--repetitions", "1")
        must("ycsb", *words, *load, *systems(stores))
        again = ("ycsb", *words, "--workloads", "a,c", "--on-existing", "keep")
        synced = [f"{store_url}?durability=sync" for store_url in stores]
        must(*again, *systems(synced), *marked(f"{report}-sync"))
        must(*again, "-threads", "2", *systems(stores), *marked(f"{report}-threads"))
        # LMDB's pages that are read ahead displace those in use: 200 reads/s instead of thousands.
        no_ahead = [one + "?read_ahead=false" * one.startswith("lmdb:") for one in stores]
        small = ("--memory", "128MiB", *systems(no_ahead))
        for file in Path(folder).rglob("*"):
            if file.is_file():
                leave_page_cache(file)
        with limited_memory(SMALL_MEMORY_BYTES):
            must(*again, *small, *marked(f"{report}-memory"))
    for part in ("sync", "threads", "memory"):
        store(f"{report}-{part}")


def systems(urls: Iterable[str]) -> tuple[str, ...]:
    """Options that name several systems."""
    return tuple(word for url in urls for word in ("--system", url))


def leave_page_cache(file: Path) -> None:
    """Removes a file from the page cache, whose pages count where they were read first."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def limited_memory(limit_bytes: int) -> Iterator[None]:
    """Limits the memory of this process and its children, files in the page cache included."""
    root = Path("/sys/fs/cgroup")
    old = root / "memory"
    kind, name = (old, "memory.limit_in_bytes") if old.is_dir() else (root, "memory.max")
    group = kind / "kvmark-measure"
    group.mkdir()
    try:
        (group / name).write_text(str(limit_bytes))
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        (kind / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def failover(report: str) -> None:
    """Kills a Redis for two seconds under a fixed rate."""
    with server("redis", "--appendonly", "yes") as system:
        load = ("--rate", "5000", "--clients", "64", "--duration", "20s", "--interval", "250ms")
        fault = ("--fault", "8s kill primary-1 for 2s", "--verify", "--pin", "0")
        must("run", "redis/set", *load, *fault, "--system", system, *marked(report))


def redis(report: str) -> None:
    """YCSB's sequence on Redis, whose scans take their time."""
    with server("redis") as system:
        words = ("--system", system, "--pin", "0", "--repetitions", "10", "--report", "none")
        must("study", "ycsb-published", *words, *marked(report))


def targets(report: str) -> None:
    """YCSB's A and C on both stores at rates from far below what they can do to beyond it."""
    common = ("--records", "10000", "--pin", "0", "--report", "none")
    with server("redis") as system, TemporaryDirectory() as folder:
        stores = {"redis": system, "rocksdb": f"rocksdb:{folder}/store"}
        for name, store_url in stores.items():
            first = ("--workloads", "load", "--repetitions", "1")
            must("ycsb", "--system", store_url, *first, *common)
            words = ("--workloads", "a,c", "--on-existing", "keep", "--repetitions", "5", *common)
            offered = ("--target", TARGETS[name], "--operations", "20000")
            must("ycsb", "--system", store_url, *words, *offered, *marked(report))


def haproxy(report: str) -> None:
    """What HAProxy costs before Redis."""
    with server("redis") as system, proxy(system, "--kind", "haproxy", "--threads", "1") as way:
        words = ("--system", system, "--through", way, "--tag", tag(report), "--report", "none")
        must("study", "proxy", *words, "--commit", head())


def shotover(report: str) -> None:
    """The published line of cassandra-stress, straight and through Shotover, five times each.

    Each begins with an empty table on an idle node; each published one had a new node.
    """
    # The most heap that Cassandra takes by default.
    with server("cassandra", "--heap", "8G") as system, ExitStack() as stack:
        ports = {"direct": 9042}
        for number, (build, threads) in enumerate(WAYS):
            name, port = f"{build}-{threads}", SHOTOVER_PORT + number
            words = ("--build", build, "--threads", str(threads), "--port", str(port))
            stack.enter_context(proxy(system, "--kind", "shotover", *words))
            ports[name] = port
        warming = (f"duration={ROUND_S}s truncate=once", "--tag", "warm-up")
        warm_up(system, lambda _: speed_of(partial(stress, 9042, *warming)))
        names = list(ports)
        for first in range(len(names)):
            # Each way is once at each place among them.
            for name in names[first:] + names[:first]:
                wait_for_idle_cores()
                stress(ports[name], "truncate=once", "--tag", tag(report), "--tag", name)


def transactional(report: str) -> None:
    """Pairs that Accord writes in one transaction, on so few keys that they meet all the time."""
    with server("cassandra", "--version", "6.0") as system:
        clients = ("--num_threads_read", "6", "--num_threads_write", "6")
        load = (*clients, "--num_unique_keys", "200", "--run_time", "120", "--pin", "0")
        words = ("CassandraTransactionalKeyValue", "--system", system, *load)
        must("app", *words, *marked(report))


def validation(report: str) -> None:
    """Reads for a fixed time, of twice as many partitions as were written."""
    with server("cassandra", "--nodes", "3"):
        words = ("stress", "--pin", "0", *marked(report))
        rate = ("-rate", "threads=100", "-node", "127.0.0.1")
        must(*words, "write", "n=200000", "no-warmup", *rate)
        for errors in ((), ("-errors", "ignore")):
            beyond = ("-pop", "dist=uniform(1..400000)")
            # Some reads fail: that is measured.
            kvmark(*words, "read", "duration=20s", "no-warmup", *beyond, *rate, *errors)


def two_machines(report: str) -> None:
    """Scenario 1 with its load from the two agents of a fleet."""
    with server("cassandra", "--nodes", "3") as system, fleet(2) as head_address:
        words = ("stress", "--fleet", head_address, "--machines", "2")
        line = "write duration={} truncate=once cl=LOCAL_ONE -rate threads={} -node 127.0.0.1"
        warming = ("--tag", "warm-up", *line.format(f"{ROUND_S}s", 400).split())
        warm_up(system, lambda _: speed_of(partial(must, *words, *warming)))
        measured = (*words, *marked(report))
        for threads in (number for number in (10, 100, 400, 1600) for _ in range(3)):
            wait_for_idle_cores()
            must(*measured, *line.format("30s", threads).split())


def stress(port: int, how: str, *words: str) -> None:
    """The published command line, and how else, at a port.

    Without a duration it ends when the standard error of its mean is below 0.02.
    """
    line = f"write {how} no-warmup -mode native cql3 connectionsPerHost=8 -rate threads=8"
    node = f"-node 127.0.0.1 -port native={port}"
    must("stress", "--pin", "0", "--commit", head(), *words, *line.split(), *node.split())


def speed_of(make: Callable[[], None]) -> float:
    """The throughput of the run that this makes."""
    make()
    kept = Records.at(None)
    return client_speed(kept.open(kept.find("last").id).manifest)


def warm_up(system: str, load: Load) -> None:
    """Loads a server of our own in rounds until it gets no faster: Java compiles what it runs.

    A study warms its servers up in the same way. These measurements are no result.
    """
    (own,) = (one for one in all_testbeds(testbeds_root()) if f"up:{one.name}" == system)
    cores = every_core(own)
    found = warm_up_servers({system: load}, ROUND_S * MOST_ROUNDS, time.monotonic, print, cores)
    if found is None:
        sys.exit("nothing was measured of a server that nothing warmed up")


def wait_for_idle_cores() -> None:
    """Waits until servers are idle, for example until compaction is done."""
    until_s = time.monotonic() + LONGEST_RUN_S
    while (busy := other_busy_cores(IDLE_FOR_S)) > IDLE_BELOW_CORES:
        if time.monotonic() > until_s:
            sys.exit(
                f"{busy:.2g} cores are busy {LONGEST_RUN_S} s after the last run: stop other"
                " programs, or look into the server's log"
            )


def study(name: str, minutes: float | None) -> None:
    """Continues a study until it is done, or the minutes are over; stores its runs.

    A part is stored beside the earlier whole, from which documents are filled.
    """
    kept, whole = Records.at(None), ROOT / RECORDS / f"{name}.tar.xz"
    begun = whole.with_name(f"{name}.begun.tar.xz")
    for stored in (begun, whole):
        if stored.exists() and not goes_on(kept, name):
            bring_back(stored, kept, name)
    file, *chosen = STUDIES[name]
    only = [word for choice in chosen for word in ("--only", choice)]
    words = ["study", file, *only, "--commit", head(), "--report", "none"]
    if goes_on(kept, name):
        words.append("--resume")
    running = subprocess.Popen([str(PROGRAM), *words], cwd=ROOT)
    try:
        longest_s = None if minutes is None else minutes * SECONDS_A_MINUTE
        is_whole = running.wait(longest_s) in ENOUGH
    except subprocess.TimeoutExpired:
        is_whole = False
        end_after_its_run(running, kept, name)
    output = whole if is_whole else begun
    journal = journal_of(kept, name)
    if journal is None or not any(attempt.is_whole for attempt in journal.attempts()):
        sys.exit(f"no run of the study {file} came to its end: there is nothing to store")
    must("runs", "archive", f"study:{journal.id}", "--output", str(output), "--force", WITHOUT_LOGS)
    if is_whole:
        begun.unlink(missing_ok=True)
        for page in pages():
            text = page.read_text("utf-8")
            if begun.name in text:
                page.write_text(text.replace(begun.name, whole.name), "utf-8")


def bring_back(stored: Path, kept: Records, name: str) -> None:
    """Unpacks the stored runs of a study that continues."""
    with TemporaryDirectory() as folder:
        unpack(stored, Path(folder))
        if goes_on(Records(Path(folder)), name):
            copytree(folder, kept.root, dirs_exist_ok=True)


def journal_of(kept: Records, name: str) -> Journal | None:
    """The newest study of the file with just these cases."""
    file, *chosen = STUDIES[name]
    return newest_with_cases(kept, file, tuple(chosen))


def goes_on(kept: Records, name: str) -> bool:
    """Whether these records have a part of a study that was measured at this very commit."""
    journal = journal_of(kept, name)
    if journal is None:
        return False
    made = [str(attempt.run) for attempt in journal.attempts() if attempt.is_whole]
    there = [run for run in made if (kept.root / run).is_dir()]
    return bool(there) and kept.open(there[-1]).manifest.commit == head()


def end_after_its_run(running: subprocess.Popen[bytes], kept: Records, name: str) -> None:
    """Interrupts a study at the end of its current run, so that the run isn't lost.

    A warm-up is lost anyway: the servers are started again when the study continues.
    """
    before, until_s = ended_runs(kept, name), time.monotonic() + LONGEST_RUN_S
    while running.poll() is None and ended_runs(kept, name) == before:
        if time.monotonic() > until_s or any(kept.root.glob(OF_A_WARM_UP)):
            break
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    running.wait()


def ended_runs(kept: Records, name: str) -> int:
    """The number of ended runs in a study's journal."""
    journal = journal_of(kept, name)
    tries = [] if journal is None else journal.attempts()
    return sum(one.took_s is not None for one in tries)


@contextmanager
def testbed(name: str, *words: str) -> Iterator[str]:
    """A testbed as long as it is needed; gives its URL."""
    must("up", *words, "--name", name)
    try:
        yield f"up:{name}"
    finally:
        must("down", name, "--remove")


def server(system: str, *words: str) -> AbstractContextManager[str]:
    """A server on core 1."""
    return testbed(f"measure-{system}", system, "--core", "1", *words)


def proxy(system: str, *words: str) -> AbstractContextManager[str]:
    """A proxy before a system."""
    name = "-".join(["measure", *(word for word in words if not word.startswith("--"))])
    return testbed(name, "proxy", "--to", system, *words)


@contextmanager
def fleet(machines: int) -> Iterator[str]:
    """A cluster of Ray on this machine with this number of agents; gives its head."""
    head_address = f"127.0.0.1:{RAY_PORT}"
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    ray = [str(PROGRAM.parent / "ray")]
    here = ["--node-ip-address=127.0.0.1", "--num-cpus=1", "--disable-usage-stats"]
    head_words = ["--head", f"--port={RAY_PORT}", "--include-dashboard=false"]
    try:
        subprocess.run([*ray, "start", *head_words, *here], check=True)
        for _ in range(machines - 1):
            subprocess.run([*ray, "start", f"--address={head_address}", *here], check=True)
        yield head_address
    finally:
        subprocess.run([*ray, "stop"], check=False)


def marked(name: str) -> tuple[str, ...]:
    """Options that tag runs, and record this clone's commit."""
    return ("--tag", tag(name), "--commit", head())


def tag(name: str) -> str:
    """The tag of the runs of this call alone."""
    return f"{name}-{BEGUN}"


def store(name: str) -> None:
    """Stores the runs of this call beside the documents."""
    output, logs = f"{RECORDS}/{name}.tar.xz", () if name in WITH_LOGS else (WITHOUT_LOGS,)
    must("runs", "archive", f"tag:{tag(name)}", "--output", output, "--force", *logs)


def must(*words: str) -> None:
    """A command that must not fail."""
    code = kvmark(*words)
    if code not in ENOUGH:
        sys.exit(code)


def kvmark(*words: str) -> int:
    """The exit code of a command of this clone."""
    return subprocess.run([str(PROGRAM), *words], cwd=ROOT, check=False).returncode


REPORTS: Final[Mapping[str, Callable[[str], None]]] = {
    "first-command": first_command,
    "ycsb-rocksdb": published_rocksdb,
    "embedded": embedded,
    "failover": failover,
    "ycsb-redis": redis,
    "ycsb-targets": targets,
    "haproxy": haproxy,
    "shotover": shotover,
    "transactional": transactional,
    "hcassandra-validation": validation,
    "hcassandra-fleet": two_machines,
}


if __name__ == "__main__":
    sys.exit(main())
