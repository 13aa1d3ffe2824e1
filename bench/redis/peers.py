"""How each peer is told to do a case, and how its answer is read.

The server counts the misses and the errors of a peer's shorter and longer run.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from bench.common import kvmark, ycsb
from bench.common.figures import SHORT, Bound, Measured, Once, Program, cost
from bench.common.process import PeerFailedError, execute
from bench.redis.server import Server, complaint
from bench.redis.tools import HERE

VALUE_BYTES = 64
YCSB_MIX = {"ycsb-a": (0.5, 0.5), "ycsb-c": (1.0, 0.0)}
RESP_COMMANDS = {
    "get": "GET {{key uniform {records}}}",
    "set": "SET {{key uniform {records}}} {{value {length}}}",
    "load": "SET {{key sequence {records}}} {{value {length}}}",
}


@dataclass(frozen=True)
class Case:
    """What is compared between peers."""

    name: str
    #: `get`, `set`, `ycsb-a` or `ycsb-c`.
    workload: str
    peers: tuple[str, ...]
    bounds: tuple[Bound, ...]
    pipeline_depth: int = 1
    #: Operations relative to a plain case: enough to see what one costs.
    factor: int = 1
    clients: int = 50

    @property
    def file(self) -> str:
        """The workload as kvmark knows it: a ready one, or a file of this folder."""
        if self.pipeline_depth > 1:
            return str(HERE / f"pipelined-{self.workload}.yaml")
        return str(HERE / f"{self.workload}.yaml") if self.hashes else f"redis/{self.workload}"

    @property
    def hashes(self) -> bool:
        """Whether a record is a hash, as YCSB lays it out, not a string."""
        return self.workload in YCSB_MIX


@dataclass(frozen=True)
class Job:
    """One run of a case."""

    case: Case
    host: str
    port: int
    records: int
    operations: int
    seed: int
    core: int

    @property
    def url(self) -> str:
        """The server as kvmark names it."""
        return f"redis://{self.host}:{self.port}"


def kvmark_words(job: Job, *more: object) -> list[str]:
    """The words behind the program's name, but for how long the run goes on."""
    case = job.case
    words: list[object] = ["run", case.file, "--system", job.url]
    words += ["--records", job.records, "--seed", job.seed, "--clients", case.clients]
    words += ["--pin", job.core, "--json", "--quiet"]
    if case.pipeline_depth > 1:
        words += ["--pipeline-depth", case.pipeline_depth]
    return [str(word) for word in (*words, *more)]


def run_kvmark(program: Program, job: Job) -> Once:
    """Ours."""
    depth = job.case.pipeline_depth
    words = kvmark_words(job, "--load", "never", "--operations", job.operations // depth)
    return kvmark.once(program, words, job.core, depth)


def redis_benchmark_words(job: Job) -> list[str]:
    """Keys are drawn uniformly, as ours are; the value is drawn once."""
    words: list[object] = ["-h", job.host, "-p", job.port, "-t", job.case.workload]
    words += ["-n", job.operations, "-r", job.records, "-d", VALUE_BYTES]
    words += ["-c", job.case.clients, "-P", job.case.pipeline_depth]
    return [str(word) for word in words]


def run_redis_benchmark(program: Program, job: Job) -> Once:
    """Redis's own benchmark."""
    ended = execute([*program, *redis_benchmark_words(job), "--csv"], job.core)
    found = re.search(r'^"[A-Z]+","([0-9.]+)"', ended.output, re.MULTILINE)
    if found is None:
        raise PeerFailedError(f"redis-benchmark gave no rate: {ended.errors.strip()[-500:]}")
    return Once(job.operations, float(found[1]), ended.cpu_ns)


def resp_benchmark_words(job: Job, command: str) -> list[str]:
    """Its own command language; it names keys in its own way and needs its own load."""
    case = job.case
    text = RESP_COMMANDS[command].format(records=job.records, length=VALUE_BYTES)
    words: list[object] = ["-h", job.host, "-p", job.port, "-c", case.clients]
    # The first of the cores it may use, which is the only one.
    words += ["-P", case.pipeline_depth, "--cores", 0, text]
    return [str(word) for word in words]


def run_resp_benchmark(program: Program, job: Job) -> Once:
    """resp-benchmark, whose load path is Rust as ours is."""
    words = [*resp_benchmark_words(job, job.case.workload), "-n", str(job.operations)]
    ended = execute([*program, *words], job.core)
    last = re.findall(r"qps: (\d+), conn: \d+, cnt: (\d+)", ended.output)
    if not last or int(last[-1][1]) != job.operations:
        raise PeerFailedError(f"resp-benchmark did not do {job.operations} operations")
    return Once(job.operations, float(last[-1][0]), ended.cpu_ns)


def run_bare_epoll(program: Program, job: Job) -> Once:
    """A loop without a benchmark: keys are named and drawn as redis-benchmark's are."""
    words = [f"address={job.host}:{job.port}", f"connections={job.case.clients}"]
    words += [f"records={job.records}", f"operations={job.operations}", f"seed={job.seed}"]
    ended = execute([*program, *words], job.core)
    return Once(job.operations, json.loads(ended.output)["ops_per_s"], ended.cpu_ns)


def ycsb_properties(job: Job) -> list[str]:
    """What YCSB and its Go port call alike."""
    read, update = YCSB_MIX.get(job.case.workload, (1.0, 0.0))
    properties = {
        "recordcount": job.records,
        "operationcount": job.operations,
        "fieldcount": 1,
        "fieldlength": VALUE_BYTES,
        "readproportion": read,
        "updateproportion": update,
        "requestdistribution": "zipfian",
    }
    return ycsb.words(properties)


def run_ycsb(program: Program, job: Job) -> Once:
    """YCSB 0.17.0's core with our Redis binding."""
    words = ["-t", "-threads", str(job.case.clients), *ycsb_properties(job)]
    words += ["-p", "workload=site.ycsb.workloads.CoreWorkload"]
    words += ["-p", f"redis.host={job.host}", "-p", f"redis.port={job.port}"]
    ended = execute([*program, *words], job.core)
    return ycsb.once(ended, job.operations)


def go_ycsb_words(job: Job, word: str) -> list[str]:
    """The command line behind the program's name."""
    address = f"redis.addr={job.host}:{job.port}"
    clients = f"threadcount={job.case.clients}"
    return [word, "redis", *ycsb_properties(job), "-p", address, "-p", clients]


def run_go_ycsb(program: Program, job: Job) -> Once:
    """The Go port of YCSB."""
    ended = execute([*program, *go_ycsb_words(job, "run")], job.core)
    found = re.findall(r"^TOTAL .*Count: (\d+), OPS: ([0-9.]+)", ended.output, re.MULTILINE)
    if not found or int(found[-1][0]) != job.operations:
        done = found[-1][0] if found else "none"
        raise PeerFailedError(f"go-ycsb did {done} of {job.operations} operations")
    return Once(job.operations, float(found[-1][1]), ended.cpu_ns)


RUN: Mapping[str, Callable[[Program, Job], Once]] = {
    "kvmark": run_kvmark,
    "redis-benchmark": run_redis_benchmark,
    "resp-benchmark": run_resp_benchmark,
    "bare epoll loop": run_bare_epoll,
    "YCSB": run_ycsb,
    "go-ycsb": run_go_ycsb,
}


def load_kvmark(program: Program, job: Job) -> None:
    """The keys that redis-benchmark or YCSB read too."""
    words = kvmark_words(job, "--load", "always", "--operations", 1)
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        execute([*program, *words], job.core, kvmark.MEASURED, {"KVMARK_RUNS": folder})


def load_resp_benchmark(program: Program, job: Job) -> None:
    """Keys of its own."""
    words = [*resp_benchmark_words(job, "load"), "--load", "-n", str(job.records)]
    execute([*program, *words], job.core)


def load_go_ycsb(program: Program, job: Job) -> None:
    """Keys of its own, and one more than its records: its zipfian reads draw from that many."""
    job = replace(job, records=job.records + 1)
    execute([*program, *go_ycsb_words(job, "load")], job.core)


LOAD: Mapping[str, Callable[[Program, Job], None]] = {
    "kvmark": load_kvmark,
    "resp-benchmark": load_resp_benchmark,
    "go-ycsb": load_go_ycsb,
}
"""Who loads; the others read what kvmark loaded."""


def measure(server: Server, peer: str, program: Program, job: Job) -> Measured:
    """One peer's figures in one case.

    Raises:
        PeerFailedError: the peer or the server says that the case was not done.
    """
    before = server.counters()
    run = RUN[peer]
    short = run(program, replace(job, operations=job.operations // SHORT))
    long = run(program, job)
    wrong = complaint(before, server.counters())
    if wrong:
        raise PeerFailedError(wrong)
    return cost(short, long)
