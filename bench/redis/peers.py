"""The programs of the comparison on Redis: how each is found, loads keys, and does a case."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from bench.common import peers
from bench.common.kvmark import kvmark_load, kvmark_once
from bench.common.peers import Once, ycsb_once, ycsb_words
from bench.common.process import PeerFailedError, Program, execute
from bench.common.tools import CACHE, KVMARK, Find, find_example, find_ycsb, make, program

from kvmark.analysis.peers import PeerCase

HERE: Final = Path(__file__).resolve().parent
VALUE_BYTES: Final = 64
YCSB_MIX: Final = {"ycsb-a": (0.5, 0.5), "ycsb-c": (1.0, 0.0)}
RESP_COMMANDS: Final = {
    "get": "GET {{key uniform {records}}}",
    "set": "SET {{key uniform {records}}} {{value {length}}}",
    "load": "SET {{key sequence {records}}} {{value {length}}}",
}
GO_YCSB: Final = "github.com/pingcap/go-ycsb/cmd/go-ycsb"
VERSIONS: Final[Mapping[str, str]] = {
    "redis-benchmark": "Debian's redis-tools",
    "resp-benchmark": "0.2.5 from PyPI",
    "bare epoll loop": "an example of our own: for each GET a send, a receive, two time stamps and "
    "a record in a histogram, and nothing else",
    "YCSB": "core 0.17.0 from Maven with a binding of our own over jedis 5.2.0, which sends the "
    "commands of YCSB's own",
    "go-ycsb": "1.0.1; it reads with HMGET where the others use HGETALL",
}


class Case(PeerCase):
    """Work that several programs do."""

    #: `get`, `set`, `ycsb-a` or `ycsb-c`.
    workload: str
    pipeline_depth: int = 1
    #: Operations relative to a plain case: enough to see the cost of one.
    factor: int = 1
    clients: int = 50

    @property
    def has_hashes(self) -> bool:
        """Whether a record is a hash, as in YCSB's layout, and not a string."""
        return self.workload in YCSB_MIX

    @property
    def file(self) -> str:
        """The workload of kvmark: a ready one, or a file of this folder."""
        if self.pipeline_depth > 1:
            return str(HERE / f"pipelined-{self.workload}.yaml")
        return str(HERE / f"{self.workload}.yaml") if self.has_hashes else f"redis/{self.workload}"


Job: TypeAlias = peers.Job[Case]


def kvmark_words(job: Job, *more: object) -> list[object]:
    """A command line without its length."""
    case, url = job.case, f"redis://{job.host}:{job.port}"
    words: list[object] = ["run", case.file, "--system", url, "--records", job.records]
    words += ["--seed", job.seed, "--clients", case.clients, "--pin", job.cores]
    if case.pipeline_depth > 1:
        words += ["--pipeline-depth", case.pipeline_depth]
    return [*words, *more]


def run_kvmark(_: Program, job: Job) -> Once:
    """A run of kvmark; one operation of a pipeline is many commands."""
    depth = job.case.pipeline_depth
    words = kvmark_words(job, "--load", "never", "--operations", job.operations // depth)
    return kvmark_once(words, job.cores, depth)


def load_kvmark(_: Program, job: Job) -> None:
    """The keys that redis-benchmark, or YCSB, reads too."""
    kvmark_load(kvmark_words(job), job.cores)


def redis_benchmark_words(job: Job) -> list[object]:
    """Keys are drawn uniformly; one value is drawn."""
    case = job.case
    words: list[object] = ["-h", job.host, "-p", job.port, "-t", case.workload, "-n"]
    words += [job.operations, "-r", job.records, "-d", VALUE_BYTES, "-c", case.clients]
    return [*words, "-P", case.pipeline_depth]


def run_redis_benchmark(program: Program, job: Job) -> Once:
    """Redis's own benchmark."""
    ended = execute([*program, *redis_benchmark_words(job), "--csv"], job.cores)
    rate = re.search(r'^"[A-Z]+","([0-9.]+)"', ended.output, re.MULTILINE)
    if rate is None:
        raise PeerFailedError(f"redis-benchmark printed no rate: {ended.errors.strip()[-500:]}")
    return Once(job.operations, float(rate[1]), ended.cpu_ns)


def resp_benchmark_words(job: Job, command: str) -> list[object]:
    """Commands in its own language, on the only core that it may use."""
    text = RESP_COMMANDS[command].format(records=job.records, length=VALUE_BYTES)
    words: list[object] = ["-h", job.host, "-p", job.port, "-c", job.case.clients]
    return [*words, "-P", job.case.pipeline_depth, "--cores", 0, text]


def run_resp_benchmark(program: Program, job: Job) -> Once:
    """resp-benchmark, whose load path is Rust too."""
    words = [*resp_benchmark_words(job, job.case.workload), "-n", job.operations]
    ended = execute([*program, *words], job.cores)
    last = re.findall(r"qps: (\d+), conn: \d+, cnt: (\d+)", ended.output)
    if not last or int(last[-1][1]) != job.operations:
        raise PeerFailedError(f"resp-benchmark did not do {job.operations} operations")
    return Once(job.operations, float(last[-1][0]), ended.cpu_ns)


def load_resp_benchmark(program: Program, job: Job) -> None:
    """Its keys have other names."""
    words = [*resp_benchmark_words(job, "load"), "--load", "-n", job.records]
    execute([*program, *words], job.cores)


def run_bare(program: Program, job: Job) -> Once:
    """A loop without a benchmark; its keys are those of redis-benchmark."""
    return peers.bare(program, job, connections=job.case.clients)[0]


def properties(job: Job, more: Mapping[str, object]) -> list[str]:
    """The properties that YCSB and its Go port share, and more."""
    fields = {"fieldcount": 1, "fieldlength": VALUE_BYTES, **more}
    return ycsb_words(job.records, job.operations, YCSB_MIX[job.case.workload], fields)


def run_ycsb(program: Program, job: Job) -> Once:
    """YCSB 0.17.0's core with a Redis binding."""
    words = properties(job, {"redis.host": job.host, "redis.port": job.port})
    return ycsb_once([*program, "-threads", str(job.case.clients)], words, job)


def go_ycsb_words(job: Job, command: str) -> list[str]:
    """A command line of the Go port."""
    more = {"redis.addr": f"{job.host}:{job.port}", "threadcount": job.case.clients}
    return [command, "redis", *properties(job, more)]


def run_go_ycsb(program: Program, job: Job) -> Once:
    """The Go port of YCSB."""
    ended = execute([*program, *go_ycsb_words(job, "run")], job.cores)
    found = re.findall(r"^TOTAL .*Count: (\d+), OPS: ([0-9.]+)", ended.output, re.MULTILINE)
    if not found or int(found[-1][0]) != job.operations:
        done = found[-1][0] if found else "none"
        raise PeerFailedError(f"go-ycsb did {done} of {job.operations} operations")
    return Once(job.operations, float(found[-1][1]), ended.cpu_ns)


def load_go_ycsb(program: Program, job: Job) -> None:
    """Its own keys, and one more than the records: its zipfian reads draw from that many."""
    job = replace(job, records=job.records + 1)
    execute([*program, *go_ycsb_words(job, "load")], job.cores)


def find_redis_benchmark() -> list[str]:
    """From Debian."""
    return [program("redis-benchmark", "install it with `sudo apt-get install redis-tools`")]


def find_resp_benchmark() -> list[str]:
    """From PyPI, in a virtual environment."""
    place = CACHE / "resp-benchmark-0.2.5"
    built = place / "bin" / "resp-benchmark"
    if not built.exists():
        failed = "resp-benchmark can't be installed from PyPI"
        make([sys.executable, "-m", "venv", "--clear", str(place)], place.parent, failed)
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        make([*pip, "resp-benchmark==0.2.5"], place, failed)
    return [str(built)]


def find_go_ycsb() -> list[str]:
    """Built from the exact version that go.mod names."""
    wanted, place = HERE / "go-ycsb" / "go.mod", CACHE / "go-ycsb"
    built, source = place / "go-ycsb", place / "made-from"
    if not (built.exists() and source.exists() and source.read_bytes() == wanted.read_bytes()):
        go = program("go", "install Go 1.21 or newer, for example Debian's golang-go")
        place.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(wanted, place / "go.mod")
        command = [go, "build", "-mod=mod", "-o", str(built), GO_YCSB]
        make(command, place, "go-ycsb can't be built with Go")
        shutil.copyfile(wanted, source)
    return [str(built)]


FIND: Final[Mapping[str, Find]] = {
    "kvmark": lambda: KVMARK,
    "redis-benchmark": find_redis_benchmark,
    "resp-benchmark": find_resp_benchmark,
    "bare epoll loop": partial(find_example, "kvmark-driver-resp", "bare_epoll"),
    "YCSB": partial(find_ycsb, "RedisBinding"),
    "go-ycsb": find_go_ycsb,
}
RUN: Final[Mapping[str, Callable[[Program, Job], Once]]] = {
    "kvmark": run_kvmark,
    "redis-benchmark": run_redis_benchmark,
    "resp-benchmark": run_resp_benchmark,
    "bare epoll loop": run_bare,
    "YCSB": run_ycsb,
    "go-ycsb": run_go_ycsb,
}
LOAD: Final[Mapping[str, Callable[[Program, Job], None]]] = {
    "kvmark": load_kvmark,
    "resp-benchmark": load_resp_benchmark,
    "go-ycsb": load_go_ycsb,
}
"""Programs that load; the others read the keys of kvmark."""
