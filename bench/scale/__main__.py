"""Prints what ten thousand clients take in one process, beside a published test's machines.

python -m bench.scale [--clients 10000] [--duration 10] [--cassandra 3] [--only TEXT] [--anyway]

Generator and server share this machine: the figures are the generator's memory and its processor
time per operation, not the system's throughput.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from bench.common.console import too_busy
from bench.common.limits import SPARE_FILES, raise_file_limit
from bench.scale.cases import Case, Facts, RunFailedError, cases, measured
from bench.scale.published import CORES_EACH, MACHINES, published_at

from kvmark.errors import KvmarkError
from kvmark.testbed.host import describe_host

HEAD = ("system", "clients", "ops/s", "failed", "client CPU µs/op", "peak memory MB")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--duration", type=int, default=10, help="seconds to measure")
    parser.add_argument("--cassandra", type=int, default=0, metavar="NODES", help="as well")
    parser.add_argument("--only", default="", help="systems with this text in their name")
    parser.add_argument("--anyway", action="store_true", help="measure on a busy machine too")
    return parser.parse_args(arguments)


def row(case: Case, facts: Facts) -> tuple[str, ...]:
    """A case in cells."""
    return (
        case.name,
        f"{facts.clients:,}",
        f"{facts.ops_per_s:,.0f}",
        f"{facts.failed:,}",
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


def main(arguments: Sequence[str]) -> int:
    """Measures every case and prints; 1 when the machine is too busy, 3 when a run failed."""
    given = parse(arguments)
    host = describe_host()
    if too_busy(host, anyway=given.anyway):
        return 1
    # Before servers start: they may open as many files as we may.
    if not raise_file_limit(given.clients + SPARE_FILES):
        limit = given.clients + SPARE_FILES
        sys.stderr.write(f"too few files may be open: raise it with `ulimit -Hn {limit}`\n")
        return 1
    rows: list[Sequence[str]] = [HEAD]
    failed = False
    for case in cases(given.cassandra):
        if given.only in case.name:
            try:
                rows.append(row(case, measured(case, given.clients, given.duration)))
                sys.stderr.write(f"{'  '.join(rows[-1])}\n")
            except (RunFailedError, KvmarkError) as failure:
                sys.stderr.write(f"{case.name}: {failure}\n")
                failed = True
    told = f"{host['processor']}, {host['cores']} cores for the generator and the system together"
    sys.stdout.write("\n".join([told, "", *table(rows), "", *beside(given.clients)]) + "\n")
    return 3 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
