"""How each peer is told to read, and how its answer is read.

All use one thread of their own, or as YCSB does one for each client, a connection to the node, and
consistency ONE.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from bench.common import kvmark, ycsb
from bench.common.figures import SHORT, Measured, Once, Program, cost
from bench.common.process import PeerFailedError, execute
from bench.cql import stress
from bench.cql.job import Case, Job
from bench.cql.tools import HERE

FIELDS = 5
FIELD_BYTES = 34


def kvmark_words(job: Job, *more: object) -> list[str]:
    """The words behind the program's name, but for how long the run goes on."""
    url = f"cql://{job.host}:{job.port}/ycsb?consistency=one"
    words: list[object] = ["run", HERE / f"{job.case.workload}.yaml", "--system", url]
    words += ["--records", job.records, "--seed", job.seed, "--clients", job.case.clients]
    words += ["--pin", job.cores, "--workers", 1, "--json", "--quiet"]
    return [str(word) for word in (*words, *more)]


def run_kvmark(program: Program, job: Job) -> Once:
    """Ours."""
    words = kvmark_words(job, "--load", "never", "--operations", job.operations)
    return kvmark.once(program, words, job.cores)


def load(program: Program, job: Job) -> None:
    """Makes the table and the rows that all read."""
    kvmark.once(program, kvmark_words(job, "--load", "always", "--operations", 1), job.cores)


def run_latte(program: Program, job: Job) -> Once:
    """latte, on the same crate of a driver as ours."""
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        report = Path(folder) / "report.json"
        words: list[object] = ["run", HERE / "reads.rn", f"{job.host}:{job.port}"]
        words += ["--threads", 1, "--connections", 1, "--concurrency", job.case.clients]
        words += ["--start-cycle", job.seed * job.operations]
        words += ["--duration", job.operations, "--warmup", 0, "--consistency", "ONE"]
        words += ["-P", f"records={job.records}", "--quiet", "--output", report]
        command = [*program, *(str(word) for word in words)]
        # It leaves a log where it runs.
        ended = execute(command, job.cores, watched=True, folder=Path(folder))
        result = json.loads(report.read_text())["result"]
    done = (result["request_count"], result["row_count"], result["error_count"])
    if done != (job.operations, job.operations, 0):
        requests, rows, errors = done
        raise PeerFailedError(
            f"latte did {requests} of {job.operations} operations, with {rows} rows and {errors}"
            " errors"
        )
    rate = job.operations / result["elapsed_time_s"]
    return Once(job.operations, rate, ended.cpu_ns, ended.peak_bytes)


def run_ycsb(program: Program, job: Job) -> Once:
    """YCSB 0.17.0's core with our CQL binding."""
    properties = {
        "workload": "site.ycsb.workloads.CoreWorkload",
        "recordcount": job.records,
        "operationcount": job.operations,
        "fieldcount": FIELDS,
        "fieldlength": FIELD_BYTES,
        "insertorder": "ordered",
        "readproportion": 1,
        "updateproportion": 0,
        "requestdistribution": "uniform",
        "cql.host": job.host,
        "cql.port": job.port,
        "cql.consistency": "ONE",
    }
    words = ["-t", "-threads", str(job.case.clients), *ycsb.words(properties)]
    return ycsb.once(execute([*program, *words], job.cores, watched=True), job.operations)


def run_bare(program: Program, job: Job) -> Once:
    """A loop without a benchmark, on one connection."""
    statement = "SELECT * FROM ycsb.usertable WHERE y_id = ?"
    words = [f"address={job.host}:{job.port}", f"statement={statement}"]
    words += [f"in_flight={job.case.clients}", f"records={job.records}"]
    words += [f"operations={job.operations}", f"seed={job.seed}"]
    ended = execute([*program, *words], job.cores, watched=True)
    answer = json.loads(ended.output)
    if answer["rows"] != job.operations:
        raise PeerFailedError(f"{answer['rows']} of {job.operations} reads found a row")
    return Once(job.operations, answer["ops_per_s"], ended.cpu_ns, ended.peak_bytes)


Run = Callable[[Program, Job], Once]

READ: Mapping[str, Run] = {
    "kvmark": run_kvmark,
    "latte": run_latte,
    "YCSB": run_ycsb,
    "bare loop": run_bare,
}
WRITE: Mapping[str, Run] = {
    "kvmark": stress.run_kvmark,
    "cassandra-stress": stress.run_cassandra_stress,
    "cql-stress": stress.run_cql_stress,
    "bare loop": stress.run_bare,
}


def runs(case: Case) -> Mapping[str, Run]:
    """How each peer carries out a case."""
    return READ if case.workload else WRITE


def measure(peer: str, program: Program, job: Job) -> Measured:
    """One peer's figures in one case.

    Raises:
        PeerFailedError: the peer ended badly, or not every operation went well.
    """
    run = runs(job.case)[peer]
    short = run(program, replace(job, operations=job.operations // SHORT))
    return cost(short, run(program, job))


def prepare(program: Program, job: Job, warmup: int) -> None:
    """Makes the table, and does a case's work until Java has compiled the node's way there.

    Raises:
        PeerFailedError: it ended badly, or not every operation went well.
    """
    if job.case.workload:
        load(program, job)
    runs(job.case)["kvmark"](program, replace(job, operations=warmup))
