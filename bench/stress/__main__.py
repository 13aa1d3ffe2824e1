"""Prints what kvmark's `stress` costs on a Cassandra node, beside the tools it speaks like.

python -m bench.stress [--blocks 3] [--bound 0.02] [--url HOST:PORT] [--results FOLDER]

Everyone runs the published log's `write`: 8 threads, 8 connections to the host, until the standard
error of the mean is below the bound. A block runs each once, in an order of its own, each on a
table of its own; ratios are geometric means over blocks with 95 % t-intervals on the logarithms.
CASSANDRA_STRESS and CQL_STRESS name the launchers of the other two; who has none is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bench.common.console import say

from kvmark.errors import KvmarkError
from kvmark.stats import Estimate, mean_interval, paired_ratio
from kvmark.testbed import cassandra
from kvmark.testbed.control import take_down
from kvmark.testbed.host import describe_host

LAUNCHERS: Final = {"cassandra-stress": "CASSANDRA_STRESS", "cql-stress": "CQL_STRESS"}
"""The other tools, and the variable that names each one's launcher."""
WORDS: Final = "write err<{bound} cl=ONE no-warmup -rate threads=8 {mode} {node} {schema}"
MODES: Final = {"cql-stress": "-mode cql3 native connectionsPerHost=8"}
MODE: Final = "-mode native cql3 connectionsPerHost=8"
RATE: Final = re.compile(r"^Op rate\s*:\s*([\d,]+)", re.MULTILINE)
PARTITIONS: Final = re.compile(r"^Total partitions\s*:\s*([\d,]+)", re.MULTILINE)
FRAME: Final = re.compile(r"\s+at \S+\(")
LAST_LINES: Final = 8
EXIT_CODES: Final = (0, 1)
FIGURES: Final = ("ops/s", "client CPU µs/op", "peak MiB")


class ToolFailedError(Exception):
    """A tool ended badly or said nothing that can be read."""


@dataclass(frozen=True)
class Measured:
    """One run of one tool."""

    block: int
    tool: str
    operations: int
    ops_per_s: float
    cpu_us: float
    """User and system time for each operation, start and end included."""
    peak_mib: float

    def figure(self, name: str) -> float:
        """A figure by its name in the table."""
        values = (self.ops_per_s, self.cpu_us, self.peak_mib)
        return dict(zip(FIGURES, values, strict=True))[name]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.stress", description=__doc__)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--bound", default="0.02", help="relative standard error that ends a run")
    parser.add_argument("--url", help="a node's HOST:PORT; else one of our own is started")
    parser.add_argument("--generator-core", type=int, help="core of the clients; else all")
    parser.add_argument("--server-core", help="core of a node of our own; else all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, help="folder for the table and every run")
    return parser.parse_args(arguments)


def tools() -> dict[str, list[str]]:
    """Everyone who is on this machine, and the beginning of their command lines."""
    found = {"kvmark": [str(Path(sys.executable).with_name("kvmark")), "stress"]}
    for name, variable in LAUNCHERS.items():
        launcher = os.environ.get(variable)
        if launcher:
            found[name] = shlex.split(launcher)
        else:
            say(f"{name} is left out: name its launcher in {variable}")
    return found


@contextmanager
def node(given: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Host and port of a node, one of our own unless another was named."""
    if given.url:
        host, _, port = given.url.partition(":")
        yield host, port or "9042"
        return
    with tempfile.TemporaryDirectory(prefix="kvmark-bench-") as folder:
        root = Path(folder)
        cores = (int(given.server_core),) if given.server_core else ()
        testbed = cassandra.up(cassandra.Wanted(cores=cores), root, say)
        try:
            yield testbed.nodes[0].host, str(testbed.nodes[0].port)
        finally:
            take_down(root)


def words_of(tool: str, bound: str, at: tuple[str, str], block: int) -> list[str]:
    """What a tool is told. Its table is a new one: not everyone can empty one that is there."""
    host, port = at
    node = f"-node {host} -port native={port}"
    schema = f"-schema keyspace=bench_{tool.replace('-', '_')}_{block}"
    mode = MODES.get(tool, MODE)
    return WORDS.format(bound=bound, mode=mode, node=node, schema=schema).split()


def run(tool: str, command: Sequence[str], core: int | None, block: int) -> Measured:
    """Runs a tool to its end.

    Raises:
        ToolFailedError: it ended badly, or its figures can't be found.
    """
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory() as runs:
        process = subprocess.Popen(  # noqa: S603 - launchers that the user names
            [*pinned, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "KVMARK_RUNS": runs},
        )
        _, status, usage = os.wait4(process.pid, 0)
        code = process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    rate, partitions = RATE.search(text), PARTITIONS.search(text)
    if code not in EXIT_CODES or rate is None or partitions is None:
        raise ToolFailedError(f"{tool} ended with {code}: {reason(text)}")
    operations = int(partitions[1].replace(",", ""))
    cpu_us = (usage.ru_utime + usage.ru_stime) * 1e6 / operations
    ops_per_s = float(rate[1].replace(",", ""))
    return Measured(block, tool, operations, ops_per_s, cpu_us, usage.ru_maxrss / 1024)


def reason(text: str) -> str:
    """The last lines of an output that aren't a stack's frames."""
    lines = [line for line in text.splitlines() if line.strip() and not FRAME.match(line)]
    return "\n".join(lines[-LAST_LINES:])


def measure(
    given: argparse.Namespace, found: Mapping[str, Sequence[str]], measured: list[Measured]
) -> None:
    """Adds every tool once in each block, in an order of the block's own.

    Raises:
        ToolFailedError: a tool ended badly.
        KvmarkError: there is no node.
    """
    order = random.Random(given.seed)  # noqa: S311 - an order, not a secret
    with node(given) as at:
        for block in range(given.blocks):
            names = list(found)
            order.shuffle(names)
            for name in names:
                command = [*found[name], *words_of(name, given.bound, at, block)]
                one = run(name, command, given.generator_core, block)
                say(
                    f"block {block + 1}/{given.blocks}  {name}: {one.ops_per_s:,.0f} op/s,"
                    f" {one.cpu_us:.1f} µs, {one.peak_mib:.0f} MiB"
                )
                measured.append(one)


def whole_blocks(measured: Sequence[Measured], tools: int) -> list[Measured]:
    """What was measured in blocks in which every tool had its turn."""
    turns = Counter(one.block for one in measured)
    return [one for one in measured if turns[one.block] == tools]


def values(measured: Sequence[Measured], tool: str, figure: str) -> list[float]:
    """A tool's figure in each block."""
    return [one.figure(figure) for one in measured if one.tool == tool]


def table(measured: Sequence[Measured], found: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Means, and kvmark's ratios to each of the others."""
    host = describe_host()
    yield f"{host['processor']}, {host['cores']} cores; write, 8 threads, 8 connections"
    yield f"{'tool':<20}" + "".join(f"{figure:>19}" for figure in FIGURES)
    for tool in found:
        means = (mean_interval(values(measured, tool, figure), "").value for figure in FIGURES)
        yield f"{tool:<20}" + "".join(f"{mean:>19,.1f}" for mean in means)
    for tool in (name for name in found if name != "kvmark"):
        ratios = (
            ratio_text(paired_ratio(values(measured, tool, one), values(measured, "kvmark", one)))
            for one in FIGURES
        )
        yield f"{'kvmark ÷ ' + tool:<26}" + "".join(f"{ratio:>26}" for ratio in ratios)


def ratio_text(ratio: Estimate) -> str:
    """A ratio and its interval."""
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.3f}"
    return f"{ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


def keep(folder: Path, measured: Sequence[Measured], text: str) -> None:
    """Writes the table and every run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench-stress.txt").write_text(text)
    document = json.dumps([asdict(one) for one in measured], indent=1)
    (folder / "bench-stress.json").write_text(document)


def main(arguments: Sequence[str], find: Callable[[], dict[str, list[str]]] = tools) -> int:
    """Measures and prints, also when stopped early; 3 when a tool or the node failed."""
    given, found = parse(arguments), find()
    every: list[Measured] = []
    code = 0
    try:
        measure(given, found, every)
    except (ToolFailedError, KvmarkError) as failure:
        say(str(failure))
        code = 3
    except KeyboardInterrupt:
        code = 130
    measured = whole_blocks(every, len(found))
    if not measured:
        return code
    text = "\n".join(table(measured, found)) + "\n"
    if given.results:
        keep(given.results, measured, text)
    sys.stdout.write(text)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
