"""cassandra-stress's `write`, 8 threads on 8 connections, and those who speak like it.

Each run writes a table of its own, which cassandra-stress and kvmark make; the bare loop writes
into that of the loading.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.common import kvmark
from bench.common.figures import Once, Program
from bench.common.process import Ended, PeerFailedError, execute
from bench.cql.job import Job

THREADS: Final = 8
COLUMNS: Final = 5
COLUMN_BYTES: Final = 34
KEYSPACE: Final = "bench_stress"
_WORDS: Final = (
    "write n={n} cl=ONE no-warmup -rate threads={threads} -mode {mode}"
    " -node {host} -port native={port} -schema keyspace={keyspace}"
)
_MODE: Final = f"native cql3 connectionsPerHost={THREADS}"
_MODE_OF_CQL_STRESS: Final = f"cql3 native connectionsPerHost={THREADS}"
_RATE: Final = re.compile(r"^Op rate\s*:\s*([\d,]+)", re.MULTILINE)
_PARTITIONS: Final = re.compile(r"^Total partitions\s*:\s*([\d,]+)", re.MULTILINE)
_ERRORS: Final = re.compile(r"^Total errors\s*:\s*([\d,]+)", re.MULTILINE)


def run_kvmark(program: Program, job: Job) -> Once:
    """Ours, with the same words; what it cost stands in its records."""
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        said = _stress([*program, "stress"], job, _MODE, Path(folder))
        phase, _ = kvmark.measured(kvmark.newest_manifest(Path(folder), ""))
        cpu_ns, peak_bytes = kvmark.spent(phase, kvmark.watched(Path(folder)))
    return replace(said, cpu_ns=cpu_ns, peak_bytes=peak_bytes)


def run_cassandra_stress(program: Program, job: Job) -> Once:
    """Cassandra's own."""
    return _stress_apart(program, job, _MODE)


def run_cql_stress(program: Program, job: Job) -> Once:
    """ScyllaDB's, in Rust."""
    return _stress_apart(program, job, _MODE_OF_CQL_STRESS)


def run_bare(program: Program, job: Job) -> Once:
    """A loop without a benchmark, that writes rows of the same size on as many connections."""
    names = ", ".join(["key", *(f'"C{number}"' for number in range(COLUMNS))])
    marks = ", ".join("?" * (COLUMNS + 1))
    statement = f"INSERT INTO {KEYSPACE}.standard1 ({names}) VALUES ({marks})"  # noqa: S608
    words = [f"address={job.host}:{job.port}", f"statement={statement}", f"seed={job.seed}"]
    words += [f"in_flight={THREADS}", f"connections={THREADS}", f"operations={job.operations}"]
    words += [f"records={job.operations}", f"fields={COLUMNS}", f"field_bytes={COLUMN_BYTES}"]
    ended = execute([*program, *words], job.cores, watched=True)
    answer = json.loads(ended.output)
    return Once(job.operations, answer["ops_per_s"], ended.cpu_ns, ended.peak_bytes)


def _stress_apart(program: Sequence[str], job: Job, mode: str) -> Once:
    """In a folder of its own: cassandra-stress leaves logs where it runs."""
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        return _stress(program, job, mode, Path(folder))


def _stress(program: Sequence[str], job: Job, mode: str, folder: Path) -> Once:
    words = _WORDS.format(
        n=job.operations,
        threads=THREADS,
        mode=mode,
        host=job.host,
        port=job.port,
        keyspace=KEYSPACE,
    )
    runs = {"KVMARK_RUNS": str(folder)}
    command = [*program, *words.split()]
    ended = execute(command, job.cores, (0, 1), runs, watched=True, folder=folder)
    return _read(ended, program[0])


def _read(ended: Ended, name: str) -> Once:
    """The figures of a Results block.

    Raises:
        PeerFailedError: there is none, or an operation failed.
    """
    rate, partitions, errors = (one.search(ended.output) for one in (_RATE, _PARTITIONS, _ERRORS))
    if rate is None or partitions is None or errors is None or _number(errors) > 0:
        said = "\n".join((ended.errors or ended.output).splitlines()[-8:])
        raise PeerFailedError(f"{name} has no results, or errors among them: {said}")
    return Once(_number(partitions), _number(rate), ended.cpu_ns, ended.peak_bytes)


def _number(found: re.Match[str]) -> int:
    return int(found[1].replace(",", ""))
