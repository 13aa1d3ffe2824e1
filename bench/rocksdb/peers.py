"""The sides: kvmark, a bare loop over the same crate, and YCSB's core with our binding.

The bare loop can be linked to the RocksDB that its crate compiles, too.

Each executes one case on its own copy of the same loaded database, with the same options, and
answers with a `Measured`. Processor time is what the process spent while its operations ran,
without starting up; memory is the most the process ever held. Of kvmark both its processes are in
them, the one that generates load and the one that watches it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.common import kvmark, process
from bench.common.figures import Bound, Measured, Program
from bench.common.process import PeerFailedError, usable_cores
from bench.common.tools import find_example, find_kvmark

YCSB_SOURCES = Path(__file__).resolve().parent / "ycsb"
YCSB_BINDING = "kvmark.peer.RocksDbBinding"
TOTAL = "[OVERALL], Throughput(ops/sec)"
YCSB_MIX = {"a": (0.5, 0.5), "b": (0.95, 0.05), "c": (1.0, 0.0)}


@dataclass(frozen=True)
class Case:
    """What is compared: a core workload of YCSB, with a number of threads."""

    workload: str
    threads: int
    peers: tuple[str, ...] = ()
    bounds: tuple[Bound, ...] = ()

    @property
    def name(self) -> str:
        """What the table calls it."""
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
class Tools:
    """Where the built peers are."""

    ycsb_classes: str
    kvmark: Program
    bare: Path
    #: Linked to the RocksDB that its crate compiled; None where no peer wants it.
    bare_crate: Path | None


def execute(command: Sequence[object], folder: Path) -> str:
    """What a command prints that is run in a folder, on the cores that this process may use."""
    return process.execute(list(map(str, command)), usable_cores(), folder=folder).output


def build(peers: Sequence[str]) -> Tools:
    """Builds what these peers need; nothing is written into the clone."""
    return Tools(
        ycsb_classes=build_ycsb() if "YCSB" in peers else "",
        kvmark=find_kvmark(),
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
        ops_per_s=report["ops_per_s"],
        cpu_ns_per_operation=cpu_s * 1e9 / report["operations"],
        peak_bytes=report["max_resident_bytes"],
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
        ops_per_s=values[TOTAL],
        cpu_ns_per_operation=values["[PROCESS], CpuTime(ms)"] * 1e6 / job.operations,
        peak_bytes=round(values["[PROCESS], MaxResident(KiB)"] * 1024),
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
    words = ["run", f"ycsb/{job.case.workload}", "--json"]
    words += ["--system", f"rocksdb:{job.database}?{options}"]
    words += ["--records", str(job.records), "--operations", str(job.operations)]
    words += ["--clients", str(job.case.threads), "--seed", str(job.seed)]
    once = kvmark.once(tools.kvmark, words, usable_cores())
    return Measured(once.ops_per_s, once.cpu_ns / once.operations, once.peak_bytes)


PEERS: Mapping[str, Callable[[Tools, Job], Measured]] = {
    "kvmark": run_kvmark,
    "bare": run_bare,
    "YCSB": run_ycsb,
    "bare-crate": run_bare_crate,
}
#: What is compared where nothing else is asked for.
USUAL = ("kvmark", "bare", "YCSB")
