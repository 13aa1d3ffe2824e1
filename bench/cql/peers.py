"""The programs of the comparison on Cassandra: how each is found, and does a case.

Reads: each has one thread, or as YCSB one for each client, a connection to the node, and
consistency ONE. Writes: cassandra-stress's `write` with 8 threads on 8 connections, and programs
that take its words. Each run writes another table, which cassandra-stress and kvmark make; the
bare loop writes into the table of the warm-up.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from bench.common import peers
from bench.common.kvmark import JUDGED, cost, kvmark_once
from bench.common.peers import Once, bare, ycsb_once, ycsb_words
from bench.common.process import PeerFailedError, Program, execute
from bench.common.tools import (
    CACHE,
    KVMARK,
    MAVEN,
    Find,
    PeerMissingError,
    find_example,
    find_ycsb,
    java,
    make,
    program,
)

from kvmark.analysis.peers import PeerCase
from kvmark.records import Records

HERE: Final = Path(__file__).resolve().parent
FIELDS: Final = 5
FIELD_BYTES: Final = 34
THREADS: Final = 8
KEYSPACE: Final = "bench_stress"
LATTE: Final = "latte-cli@0.29.0"
STRESS_ARCHIVE: Final = "org.apache.cassandra:apache-cassandra:3.11.4"
COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
OPENED: Final = ("java.lang", "java.util", "java.io", "java.nio", "sun.nio.ch", "jdk.internal.ref")
RESULTS: Final = {
    name: re.compile(rf"^{name}\s*:\s*([\d,]+)", re.MULTILINE)
    for name in ("Op rate", "Total partitions", "Total errors")
}
VERSIONS: Final[Mapping[str, str]] = {
    "latte": "0.29.0, one thread",
    "YCSB": "core 0.17.0 from Maven with a binding of our own over the Java driver 4.19.0, which "
    "reads a row as YCSB's own does",
    "cassandra-stress": "3.11.4, from Cassandra's archive in Maven",
    "cql-stress": "as the variable CQL_STRESS names its launcher",
    "bare loop": "an example of our own: for each operation a frame out, its header and number of "
    "rows in, two time stamps and a record in a histogram, and nothing else",
}


class Case(PeerCase):
    """Work that several programs do."""

    #: Operations in flight.
    clients: int
    #: The workload of kvmark; none for `stress write`.
    workload: str | None = None


Job: TypeAlias = peers.Job[Case]


def kvmark_words(job: Job) -> list[object]:
    """A command line without its length."""
    url = f"cql://{job.host}:{job.port}/ycsb?consistency=one"
    words: list[object] = ["run", HERE / f"{job.case.workload}.yaml", "--system", url]
    words += ["--records", job.records, "--seed", job.seed, "--clients", job.case.clients]
    return [*words, "--pin", job.cores, "--workers", 1]


def read_kvmark(_: Program, job: Job) -> Once:
    """A run of kvmark."""
    words = [*kvmark_words(job), "--load", "never", "--operations", job.operations]
    return kvmark_once(words, job.cores)


def read_latte(program: Program, job: Job) -> Once:
    """latte, on the same crate of a driver."""
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        report = Path(folder) / "report.json"
        words: list[object] = ["run", HERE / "reads.rn", f"{job.host}:{job.port}"]
        words += ["--threads", 1, "--connections", 1, "--concurrency", job.case.clients]
        words += ["--start-cycle", job.seed * job.operations]
        words += ["--duration", job.operations, "--warmup", 0, "--consistency", "ONE"]
        words += ["-P", f"records={job.records}", "--quiet", "--output", report]
        # It leaves a log where it runs.
        ended = execute([*program, *words], job.cores, watched=True, folder=Path(folder))
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


def read_ycsb(program: Program, job: Job) -> Once:
    """YCSB 0.17.0's core with a CQL binding."""
    properties = {
        "fieldcount": FIELDS,
        "fieldlength": FIELD_BYTES,
        "insertorder": "ordered",
        "requestdistribution": "uniform",
        "cql.host": job.host,
        "cql.port": job.port,
        "cql.consistency": "ONE",
    }
    words = ycsb_words(job.records, job.operations, (1, 0), properties)
    return ycsb_once([*program, "-threads", str(job.case.clients)], words, job, watched=True)


def read_bare(program: Program, job: Job) -> Once:
    """A loop without a benchmark, on one connection."""
    statement = "SELECT * FROM ycsb.usertable WHERE y_id = ?"
    clients = job.case.clients
    once, printed = bare(program, job, watched=True, statement=statement, in_flight=clients)
    if printed["rows"] != job.operations:
        raise PeerFailedError(f"{printed['rows']} of {job.operations} reads found a row")
    return once


def write_stress(mode: str, program: Program, job: Job) -> Once:
    """`write` of cassandra-stress, or of a program that takes its words.

    Raises:
        PeerFailedError: it printed no results, or an operation failed.
    """
    words = f"write n={job.operations} cl=ONE no-warmup -rate threads={THREADS} -mode {mode}"
    words += f" connectionsPerHost={THREADS} -node {job.host} -port native={job.port}"
    words += f" -schema keyspace={KEYSPACE}"
    command = [*program, *words.split()]
    # cassandra-stress leaves logs where it runs.
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as name:
        folder, variables = Path(name), {"KVMARK_RUNS": name}
        ended = execute(command, job.cores, JUDGED, variables, watched=True, folder=folder)
        cpu_ns, peak_bytes = ended.cpu_ns, ended.peak_bytes
        if program == KVMARK_STRESS:
            cpu_ns, peak_bytes = cost(Records(folder).open("last"))
    printed = {name: pattern.search(ended.output) for name, pattern in RESULTS.items()}
    found = {name: int(one[1].replace(",", "")) for name, one in printed.items() if one}
    if len(found) < len(RESULTS) or found["Total errors"] > 0:
        errors = "\n".join((ended.errors or ended.output).splitlines()[-8:])
        raise PeerFailedError(f"{program[0]} has no results, or errors among them: {errors}")
    return Once(found["Total partitions"], found["Op rate"], cpu_ns, peak_bytes)


KVMARK_STRESS: Final = [*KVMARK, "stress"]


def write_kvmark(_: Program, job: Job) -> Once:
    """A run of kvmark with the same words; its cost is in its records."""
    return write_stress("native cql3", KVMARK_STRESS, job)


def write_bare(program: Program, job: Job) -> Once:
    """A loop without a benchmark that writes rows of the same size on as many connections."""
    names = ", ".join(["key", *(f'"C{number}"' for number in range(FIELDS))])
    marks = ", ".join("?" * (FIELDS + 1))
    statement = f"INSERT INTO {KEYSPACE}.standard1 ({names}) VALUES ({marks})"  # noqa: S608
    words = {"statement": statement, "in_flight": THREADS, "connections": THREADS}
    words |= {"records": job.operations, "fields": FIELDS, "field_bytes": FIELD_BYTES}
    return bare(program, job, watched=True, **words)[0]


Run: TypeAlias = Callable[[Program, Job], Once]
READ: Final[Mapping[str, Run]] = {
    "kvmark": read_kvmark,
    "latte": read_latte,
    "YCSB": read_ycsb,
    "bare loop": read_bare,
}
WRITE: Final[Mapping[str, Run]] = {
    "kvmark": write_kvmark,
    "cassandra-stress": partial(write_stress, "native cql3"),
    "cql-stress": partial(write_stress, "cql3 native"),
    "bare loop": write_bare,
}


def runs(case: Case) -> Mapping[str, Run]:
    """How each program does a case."""
    return READ if case.workload else WRITE


def prepare(programs: Mapping[str, Program], job: Job, warmup: int) -> None:
    """Makes the table, and does the work until Java has compiled the node's code for it.

    Raises:
        PeerFailedError: kvmark ended with an error, or an operation failed.
    """
    if job.case.workload:
        kvmark_once([*kvmark_words(job), "--load", "always", "--operations", 1], job.cores)
    runs(job.case)["kvmark"](programs["kvmark"], replace(job, operations=warmup))


def find_latte() -> list[str]:
    """Built by Cargo from the crate, with the versions that its author locked."""
    place = CACHE / LATTE.replace("@", "-")
    built = place / "bin" / "latte"
    if not built.exists():
        cargo = program("cargo", "install Rust as rustup.rs says")
        command = [cargo, "install", "--quiet", "--locked", LATTE, "--root", str(place)]
        make(command, place, "latte can't be built with Cargo")
    return [str(built)]


def find_cassandra_stress() -> list[str]:
    """From the archive that Maven fetches, with the Java packages that it reads opened."""
    place, virtual_machine = CACHE / "cassandra-stress-3.11.4", java()
    if not (place / "tools" / "lib" / "stress.jar").exists():
        archive = [f"-Dartifact={STRESS_ARCHIVE}:tar.gz:bin", f"-DoutputDirectory={place}"]
        make([*MAVEN, COPY, *archive], place, "it can't be fetched with Maven")
        tar = ["tar", "--strip-components=1", "-xzf", "apache-cassandra-3.11.4-bin.tar.gz"]
        make(tar, place, "its archive can't be unpacked")
    classes = f"{place}/conf:{place}/tools/lib/stress.jar:{place}/lib/*"
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    return [virtual_machine, *opened, "-cp", classes, "org.apache.cassandra.stress.Stress"]


def find_cql_stress() -> list[str]:
    """Named by the user: it is in no registry."""
    launcher = os.environ.get("CQL_STRESS")
    if not launcher:
        raise PeerMissingError("cql-stress is in no registry: name its launcher in CQL_STRESS")
    return shlex.split(launcher)


FIND: Final[Mapping[str, Find]] = {
    "kvmark": lambda: KVMARK,
    "latte": find_latte,
    "YCSB": partial(find_ycsb, "CqlBinding"),
    "cassandra-stress": find_cassandra_stress,
    "cql-stress": find_cql_stress,
    "bare loop": partial(find_example, "kvmark-driver-cql", "bare_wire"),
}
