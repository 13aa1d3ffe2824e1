"""The sides: kvmark, a bare loop over the same crate, and YCSB's core with our binding.

The bare loop can be linked to the RocksDB that its crate compiles, too.

Each executes one case on its own copy of the same loaded database, with the same options, and
answers with a `Measured`. Processor time is what the process spent while its operations ran,
without starting up; memory is the most the process ever held.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.common.tools import find_example

YCSB_SOURCES = Path(__file__).resolve().parent / "ycsb"
YCSB_BINDING = "kvmark.peer.RocksDbBinding"
TOTAL = "[OVERALL], Throughput(ops/sec)"
YCSB_MIX = {"a": (0.5, 0.5), "b": (0.95, 0.05), "c": (1.0, 0.0)}


@dataclass(frozen=True)
class Case:
    """What is compared: a core workload of YCSB, with a number of threads."""

    workload: str
    threads: int

    def __str__(self) -> str:
        return f"{self.workload.upper()}, {self.threads} thread{'s' if self.threads > 1 else ''}"


@dataclass(frozen=True)
class Job:
    """One case on one copy of the loaded database."""

    case: Case
    database: Path
    records: int
    operations: int
    seed: int
    options: Mapping[str, str]


@dataclass(frozen=True)
class Measured:
    """What one side did."""

    operations: int
    ops_per_s: float
    cpu_ns_per_operation: float
    max_resident_bytes: int


@dataclass(frozen=True)
class Tools:
    """Where the built peers are."""

    ycsb_classes: str
    kvmark: Path
    bare: Path
    #: Linked to the RocksDB that its crate compiled; None where no peer wants it.
    bare_crate: Path | None


class PeerFailedError(Exception):
    """A peer ended badly or did not do what it was asked."""


def execute(command: Sequence[str], folder: Path) -> str:
    """Runs a command in a folder and returns what it wrote to its standard output."""
    finished = subprocess.run(  # noqa: S603
        command, cwd=folder, capture_output=True, text=True, check=False
    )
    if finished.returncode != 0:
        said = finished.stderr.strip()[-2000:]
        raise PeerFailedError(f"{command[0]} ended with {finished.returncode}: {said}")
    return finished.stdout


def build(peers: Sequence[str]) -> Tools:
    """Builds what these peers need; nothing is written into the clone."""
    return Tools(
        ycsb_classes=build_ycsb() if "YCSB" in peers else "",
        kvmark=Path(sys.executable).parent / "kvmark",
        bare=build_bare(),
        bare_crate=build_bare("crate") if "bare-crate" in peers else None,
    )


def build_bare(rocksdb: str | None = None) -> Path:
    """The bare loop, linked to the usual build of RocksDB or to another one."""
    return Path(*find_example("kvmark-driver-rocksdb", "bare_loop", rocksdb))


def build_ycsb() -> str:
    """Builds YCSB's binding and returns the class path of client and binding."""
    built = Path.home() / ".cache" / "kvmark" / "ycsb-rocksdb"
    execute(["mvn", "-B", "-ntp", "-q", f"-Dbuild.folder={built}", "package"], YCSB_SOURCES)
    return f"{built}/target/ycsb-rocksdb.jar:{built}/lib/*"


def load(tools: Tools, job: Job) -> None:
    """Puts the dataset in place with the bare loop: the bytes are the same from every side."""
    execute(bare_command(tools.bare, job, "load"), job.database.parent)


def bare_command(program: Path, job: Job, workload: str) -> list[str]:
    """The bare loop's command line; a load has one operation per record."""
    operations = job.records if workload == "load" else job.operations
    words = {
        "path": job.database,
        "workload": workload,
        "records": job.records,
        "operations": operations,
        "threads": job.case.threads,
        "seed": job.seed,
        **job.options,
    }
    return [str(program), *(f"{name}={value}" for name, value in words.items())]


def run_bare(tools: Tools, job: Job) -> Measured:
    """The bare loop over the same crate."""
    return bare(tools.bare, job)


def run_bare_crate(tools: Tools, job: Job) -> Measured:
    """The same loop, with the RocksDB that its crate compiled."""
    if tools.bare_crate is None:
        raise PeerFailedError("nothing was built with the crate's own RocksDB")
    return bare(tools.bare_crate, job)


def bare(program: Path, job: Job) -> Measured:
    """What one build of the bare loop does."""
    command = bare_command(program, job, job.case.workload)
    report = json.loads(execute(command, job.database.parent))
    cpu_s = report["cpu_user_s"] + report["cpu_system_s"]
    return Measured(
        operations=report["operations"],
        ops_per_s=report["ops_per_s"],
        cpu_ns_per_operation=cpu_s * 1e9 / report["operations"],
        max_resident_bytes=report["max_resident_bytes"],
    )


def ycsb_command(tools: Tools, job: Job) -> list[str]:
    """The command line of YCSB's own client."""
    read, update = YCSB_MIX[job.case.workload]
    properties = {
        "workload": "site.ycsb.workloads.CoreWorkload",
        "recordcount": job.records,
        "operationcount": job.operations,
        "readproportion": read,
        "updateproportion": update,
        "requestdistribution": "zipfian",
        "rocksdb.path": job.database,
        **{f"rocksdb.{name}": value for name, value in job.options.items()},
    }
    given = [word for name, value in properties.items() for word in ("-p", f"{name}={value}")]
    client = ["java", "-cp", tools.ycsb_classes, "site.ycsb.Client"]
    return [*client, "-t", "-db", YCSB_BINDING, "-threads", str(job.case.threads), *given]


def run_ycsb(tools: Tools, job: Job) -> Measured:
    """YCSB 0.17.0's core with our RocksDB binding."""
    values = ycsb_values(execute(ycsb_command(tools, job), job.database.parent))
    # YCSB ends with 0 when one of its threads died: only its figures say that it did its work.
    done = ycsb_succeeded(values)
    if TOTAL not in values or done != job.operations:
        raise PeerFailedError(f"YCSB did {done:.0f} of {job.operations} operations")
    return Measured(
        operations=job.operations,
        ops_per_s=values[TOTAL],
        cpu_ns_per_operation=values["[PROCESS], CpuTime(ms)"] * 1e6 / job.operations,
        max_resident_bytes=round(values["[PROCESS], MaxResident(KiB)"] * 1024),
    )


def ycsb_values(output: str) -> dict[str, float]:
    """YCSB's `[group], metric, value` lines."""
    lines = re.findall(r"^(\[[^\]]+\], [^,]+), ([0-9.E-]+)$", output, re.MULTILINE)
    return {name: float(value) for name, value in lines}


def ycsb_succeeded(values: Mapping[str, float]) -> float:
    """How many operations YCSB says went well."""
    return sum(value for name, value in values.items() if name.endswith("Return=OK"))


def run_kvmark(tools: Tools, job: Job) -> Measured:
    """Ours, all three instants and histograms on; its figures come from the manifest of its run."""
    options = "&".join(f"{name}={value}" for name, value in job.options.items())
    command = [str(tools.kvmark), "run", f"ycsb/{job.case.workload}", "--json"]
    command += ["--system", f"rocksdb:{job.database}?{options}"]
    command += ["--records", str(job.records), "--operations", str(job.operations)]
    command += ["--clients", str(job.case.threads), "--seed", str(job.seed)]
    with tempfile.TemporaryDirectory(dir=job.database.parent) as folder:
        execute(["env", f"KVMARK_RUNS={folder}", *command], job.database.parent)
        return of_manifest(newest_manifest(Path(folder)))


def newest_manifest(runs: Path) -> dict[str, Any]:
    """The manifest of the run that ended last."""
    manifests = sorted(runs.glob("*/manifest.json"), key=lambda path: path.stat().st_mtime_ns)
    if not manifests:
        raise PeerFailedError(f"kvmark left no closed run in {runs}")
    manifest: dict[str, Any] = json.loads(manifests[-1].read_text())
    return manifest


def of_manifest(manifest: Mapping[str, Any]) -> Measured:
    """The figures of the measure phase."""
    engine = manifest["engine"]
    phase = next(phase for phase in engine["phases"] if phase["name"] == "measure")
    totals = [row for row in engine["totals"] if row["phase"] == phase["index"] and not row["part"]]
    bad = {row["outcome"] for row in totals if row["count"]} - {"ok"}
    if bad:
        raise PeerFailedError(f"kvmark recorded outcomes other than ok: {', '.join(sorted(bad))}")
    operations = sum(row["count"] for row in totals)
    spent_ns = phase["process"]["cpu_user_ns"] + phase["process"]["cpu_system_ns"]
    return Measured(
        operations=operations,
        ops_per_s=operations * 1e9 / (phase["drained_ns"] - phase["start_ns"]),
        cpu_ns_per_operation=spent_ns / operations,
        max_resident_bytes=phase["process"]["max_resident_bytes"],
    )


PEERS: Mapping[str, Callable[[Tools, Job], Measured]] = {
    "kvmark": run_kvmark,
    "bare": run_bare,
    "YCSB": run_ycsb,
    "bare-crate": run_bare_crate,
}
#: What is compared where nothing else is asked for.
USUAL = ("kvmark", "bare", "YCSB")
