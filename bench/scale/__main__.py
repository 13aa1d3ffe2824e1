"""Prints what ten thousand clients take in one process, beside a published test's machines.

python -m bench.scale [--clients 10000] [--duration 10] [--nodes 3] [--only TEXT] [--results FOLDER]

Generator and server share this machine: the figures are the generator's memory and its processor
time per operation, not the system's throughput. A system that fails is named below the table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.common.console import carried_out, keep, say
from bench.common.limits import SPARE_FILES, raise_file_limit
from bench.scale.cases import Facts, RunFailedError, cases, measured
from bench.scale.published import CORES_EACH, MACHINES, published_at

from kvmark.errors import KvmarkError
from kvmark.testbed.host import describe_host

HEAD = ("system", "clients", "ops/s", "failed", "client CPU µs/op", "peak memory MB")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--duration", type=int, default=10, help="seconds to measure")
    parser.add_argument("--nodes", type=int, default=3, help="of Cassandra; 0 to leave it out")
    parser.add_argument("--only", default="", help="systems with this text in their name")
    parser.add_argument("--results", type=Path, help="folder for the table and its figures")
    parser.add_argument("--anyway", action="store_true", help="measure on a busy machine too")
    return parser.parse_args(arguments)


def row(name: str, facts: Facts) -> tuple[str, ...]:
    """A system in cells."""
    return (
        name,
        f"{facts.clients:,}",
        f"{facts.ops_per_s:,.0f}",
        f"{facts.failed:.2%}",
        f"{facts.cpu_ns_per_operation / 1e3:.2f}",
        f"{facts.peak_bytes / 1e6:.0f}",
    )


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Words left, numbers right."""
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(HEAD))]
    for cells in rows:
        first = cells[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
        yield "  ".join((first, *rest))


def beside(clients: int) -> Iterator[str]:
    """The published set-up in words."""
    for one in published_at(clients):
        yield (
            f"Published, {one.operation} at {clients:,} clients: {one.ops_per_s:,.0f} ops/s from"
            f" {MACHINES} machines of {CORES_EACH} vCPU, {one.cpu_us_at_hand:,.0f} µs of vCPU at"
            " hand for each operation."
        )


def text_of(measured: Mapping[str, Facts], failures: Sequence[str], clients: int) -> str:
    """Everything that is printed."""
    host = describe_host()
    told = f"{host['processor']}, {host['cores']} cores for the generator and the system together"
    rows = [HEAD, *(row(name, facts) for name, facts in measured.items())]
    classes = [
        f"{name}: {count:,} operations ended as {outcome}."
        for name, facts in measured.items()
        for outcome, count in facts.failures.items()
    ]
    return "\n".join([told, "", *table(rows), *classes, *failures, "", *beside(clients)]) + "\n"


def run(given: argparse.Namespace) -> bool:
    """Measures every system and prints; whether nothing failed."""
    # Before servers start: they may open as many files as we may.
    if not raise_file_limit(given.clients + SPARE_FILES):
        limit = given.clients + SPARE_FILES
        say(f"too few files may be open: raise it with `ulimit -Hn {limit}`")
        return False
    found: dict[str, Facts] = {}
    failures: list[str] = []
    for case in cases(given.nodes):
        if given.only.lower() not in case.name.lower():
            continue
        try:
            found[case.name] = measured(case, given.clients, given.duration)
            say("  ".join(row(case.name, found[case.name])))
        except (RunFailedError, KvmarkError) as failure:
            failures.append(f"{case.name} failed: {failure}")
            say(failures[-1])
        except KeyboardInterrupt:
            failures.append(f"{case.name} was interrupted, and what would have come after it")
            break
    text = text_of(found, failures, given.clients)
    if given.results:
        kept = {name: asdict(facts) for name, facts in found.items()}
        document = {"measured": kept, "failures": failures}
        keep(given.results, "bench-scale", text, json.dumps(document, indent=1))
    sys.stdout.write(text)
    return not failures


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; 1 when the machine is too busy, 3 when a system failed."""
    given = parse(arguments)
    return carried_out(lambda: run(given), anyway=given.anyway)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
