"""Prints what the engine costs on this machine, beside the bounds it is held to.

python -m bench.engine [--repetitions 5] [--only TEXT] [--markdown] [--anyway]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from statistics import median

from bench.common.console import too_busy
from bench.common.tools import PeerMissingError
from bench.engine.cases import CASES, Case
from bench.engine.runs import RunFailedError

from kvmark.testbed.host import describe_host


def row(case: Case, repetitions: int) -> list[str]:
    """The median of a figure with its range, and whether the bound is met."""
    figures = sorted(case.measure() for _ in range(repetitions))
    middle = median(figures)
    met = case.met(middle)
    bound = "" if case.bound is None else f"{'≤' if case.most else '≥'} {case.bound:g}"
    said = {None: "", True: "met", False: "NOT met"}[met]
    spread = f"{figures[0]:.4g}–{figures[-1]:.4g}"
    return [case.name, f"{middle:.4g} {case.unit}", spread, bound, said]


def lines(rows: Sequence[Sequence[str]], *, markdown: bool) -> Iterator[str]:
    """The table, for a terminal or for a document."""
    if markdown:
        head, *body = rows
        yield f"| {' | '.join(head)} |"
        yield "|---|---:|---:|---:|---|"
        yield from (f"| {' | '.join(cells)} |" for cells in body)
        return
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(rows[0]))]
    for cells in rows:
        yield "  ".join(
            cell.ljust(width) for cell, width in zip(cells, widths, strict=True)
        ).rstrip()


def main(arguments: Sequence[str]) -> int:
    """Measures every case and prints; 1 when the machine is too busy, 3 when a run failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.engine", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", default="", help="figures with this text in their name")
    parser.add_argument("--markdown", action="store_true", help="a table for a document")
    parser.add_argument("--anyway", action="store_true", help="measure on a busy machine too")
    wanted = parser.parse_args(arguments)
    host = describe_host()
    if too_busy(host, anyway=wanted.anyway):
        return 1
    rows = [["figure", "median", "least–most", "bound", ""]]
    try:
        for case in (case for case in CASES if wanted.only in case.name):
            rows.append(row(case, wanted.repetitions))
            sys.stderr.write(f"{'  '.join(rows[-1])}\n")
    except (PeerMissingError, RunFailedError) as failure:
        sys.stderr.write(f"{failure}\n")
        return 3
    told = f"{host['processor']}, {host['cores']} cores, {wanted.repetitions} repetitions"
    sys.stdout.write("\n".join([told, "", *lines(rows, markdown=wanted.markdown)]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
