"""Prints what the published clients of two applications cost the load generator, and its memory.

python -m bench.apps [--seconds 30] [--flat-seconds 600] [--only TEXT]

The published report doesn't tell its pipeline's length: by Little's law it was near 480 commands,
and the batch 100 rows. Servers are those that `kvmark up` starts here, one node each; one that
can't be started is named, and the rest goes on. The last case runs on the simulated driver as fast
as it goes and prints the generator's memory by the tenth of the run: it must not grow.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kvmark.records import Run

PROGRAM: Final = Path(sys.executable).with_name("kvmark")
PARTS: Final = 10


@dataclass(frozen=True, slots=True)
class Case:
    """An application with its published clients."""

    title: str
    #: What `kvmark up` starts; None for the simulated driver.
    system: str | None
    words: tuple[str, ...]


CASES: Final = (
    Case(
        "RedisPipelinedKeyValue, 24 writers, pipelines of 480",
        "redis",
        ("RedisPipelinedKeyValue", "--num_threads_write", "24", "--num_threads_read", "0",
         "--pipeline_length", "480"),
    ),
    Case(
        "RedisPipelinedKeyValue, 16 readers, pipelines of 480",
        "redis",
        ("RedisPipelinedKeyValue", "--num_threads_write", "0", "--num_threads_read", "16",
         "--pipeline_length", "480"),
    ),
    Case(
        "CassandraBatchKeyValue, 32 writers, batches of 100",
        "cassandra",
        ("CassandraBatchKeyValue", "--num_threads_write", "32", "--num_threads_read", "0",
         "--batch_size", "100", "--num_writes", "-1"),
    ),
)  # fmt: skip


def say(line: str) -> None:
    """Prints a line at once, also into a pipe."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Runs the cases that were asked for, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--flat-seconds", type=int, default=600)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    say(f"{'case':<54}{'ops/s':>12}{'CPU ns/op':>12}{'peak MiB':>10}")
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        for case in CASES:
            if asked.only in case.title:
                _measure(case, asked.seconds, Path(folder))
        if asked.only in "flat memory":
            _flat(asked.flat_seconds, Path(folder))


def _measure(case: Case, seconds: int, folder: Path) -> None:
    with _up(case.system, folder) as system:
        if system is None:
            say(f"{case.title:<54}{'no server':>12}")
            return
        words = (*case.words, "--system", system, "--run_time", str(seconds), "--interval", "1s")
        document = _kvmark(("app", *words, "--json", "--quiet"), folder)
    if document is None:
        say(f"{case.title:<54}{'failed':>12}")
        return
    run = Run.open(folder / "runs" / document["run"])
    table = document["table"]
    done = sum(row["spread"]["mean"] for row in table["rows"] if row["name"].endswith("throughput"))
    phase = run.counted[0]
    cpu_ns = (phase.process.cpu_user_ns or 0) + (phase.process.cpu_system_ns or 0)
    operations = done * phase.window_ns / 1e9
    peak = (phase.process.max_resident_bytes or 0) / 2**20
    say(f"{case.title:<54}{done:>12,.0f}{cpu_ns / max(operations, 1):>12,.0f}{peak:>10,.1f}")


def _flat(seconds: int, folder: Path) -> None:
    """Memory of the generator over a long run as fast as it goes."""
    system = ("--system", "sim:?servers=32&mean_us=0", "--run_time", str(seconds))
    document = _kvmark(("app", "RedisKeyValue", *system, "--json", "--quiet"), folder)
    if document is None:
        say("flat memory: the run failed")
        return
    run = Run.open(folder / "runs" / document["run"])
    resident = run.resources["resident_bytes"].to_list()
    operations = sum(total.count for total in run.manifest.engine.totals)
    say(f"\nflat memory: {operations:,} operations in {seconds} s on the simulated driver")
    for part in range(PARTS):
        first, last = (len(resident) * edge // PARTS for edge in (part, part + 1))
        most = max(resident[first:last], default=0) / 2**20
        say(f"  {part * 100 // PARTS:>3} % to {(part + 1) * 100 // PARTS:>3} %  {most:>8.1f} MiB")


@contextmanager
def _up(system: str | None, folder: Path) -> Iterator[str | None]:
    """A server of its own, which is gone afterwards."""
    name = f"bench-apps-{system}"
    done = subprocess.run(  # noqa: S603 - the program of this clone
        [PROGRAM, "up", str(system), "--name", name],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    try:
        yield f"up:{name}" if done.returncode == 0 else None
    finally:
        subprocess.run(  # noqa: S603 - the program of this clone
            [PROGRAM, "down", name, "--remove"], cwd=folder, capture_output=True, check=False
        )


def _kvmark(words: Sequence[str], folder: Path) -> dict[str, Any] | None:
    done = subprocess.run(  # noqa: S603 - the program of this clone
        [str(PROGRAM), *words], cwd=folder, capture_output=True, text=True, check=False
    )
    if not done.stdout:
        sys.stderr.write(done.stderr)
        return None
    document: dict[str, Any] = json.loads(done.stdout)
    return document


if __name__ == "__main__":
    main()
