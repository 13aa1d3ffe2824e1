"""Measures what the README shows, and puts its table and pictures there.

The quickstart's sequence on RocksDB, and a Redis that is killed for a while. The whole reports
stand in docs/results, so that every figure in the README comes from a run that `make readme`
repeats.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PROGRAM = ROOT / ".venv/bin/kvmark"
REPORT = ROOT / "docs" / "results" / "ycsb-rocksdb.md"
PICTURE = "docs/results/ycsb-rocksdb/throughput.svg"
COLUMNS = {
    "workload": "workload",
    "measured ops/s": "throughput, ops/s",
    "response time, µs p50": "p50, µs",
    "response time, µs p99": "p99, µs",
    "verdict": "verdict",
}
"""The report's columns that the README shows, and what it calls them."""
RECORDS = "10,000"
"""The size whose rows the README shows; the report has them all."""
FAILOVER = ROOT / "docs" / "results" / "failover.md"
FAILOVER_PICTURE = "docs/results/failover/rate.svg"
SERVER = "readme-failover"
LOAD = ("--rate", "5000", "--clients", "64", "--duration", "20s", "--interval", "250ms")


def main() -> int:
    """Measures, then writes the reports and the README."""
    # docs/benchmarks.md is made of runs with this tag.
    ycsb = kvmark("ycsb", "--tag", "benchmarks", "--report", str(REPORT.relative_to(ROOT)))
    if ycsb or (failed := failover()):
        return ycsb or failed
    report = REPORT.read_text("utf-8")
    text = README.read_text("utf-8")
    text = filled(text, "table", f"{table(report)}\n\n{answer(report)}")
    picture = f"![Throughput by workload and number of records, measured and published]({PICTURE})"
    text = filled(text, "picture", picture)
    README.write_text(filled(text, "failover", failover_picture()), "utf-8")
    return 0


def failover() -> int:
    """Kills a Redis of its own for two seconds under a fixed rate, and reports on it."""
    up = kvmark("up", "redis", "--name", SERVER, "--appendonly", "yes")
    if up:
        return up
    try:
        words = ("--system", f"up:{SERVER}", "--report", str(FAILOVER.relative_to(ROOT)))
        fault = ("--fault", "8s kill primary-1 for 2s", "--verify")
        code = kvmark("run", "redis/set", *LOAD, *fault, *words)
    finally:
        kvmark("down", SERVER, "--remove")
    # Where this clone lies is nobody's business.
    FAILOVER.write_text(FAILOVER.read_text("utf-8").replace(f"{ROOT}/", ""), "utf-8")
    # A killed server makes operations fail, so that the verdict may well be a no.
    return 0 if code == 1 else code


def kvmark(*words: str) -> int:
    """The exit code of a command of this clone."""
    return subprocess.run([str(PROGRAM), *words], cwd=ROOT, check=False).returncode


def failover_picture() -> str:
    """The picture of the rate through the fault, and the report's sentence on it."""
    picture = f"![Operations a second while a Redis is killed and comes back]({FAILOVER_PICTURE})"
    place = FAILOVER.relative_to(ROOT)
    return f"{picture}\n\n[The whole report]({place}) counts what failed, and finds every write."


def table(report: str) -> str:
    """Five columns of the report's first table, of the README's number of records.

    Raises:
        SystemExit: the report has no such column.
    """
    lines = [line for line in report.splitlines() if line.startswith("| ")]
    head, rule, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    if missing := [name for name in COLUMNS if name not in head]:
        sys.exit(
            f"{REPORT} has no column {', '.join(missing)}: scripts/readme.py names its columns"
        )
    places = {head.index(name): said for name, said in COLUMNS.items()}
    size = head.index("records")
    rows = [row for row in body if len(row) == len(head) and row[size] == RECORDS]
    chosen = [list(places.values()), *([row[place] for place in places] for row in [rule, *rows])]
    return "\n".join(f"| {' | '.join(row)} |" for row in chosen)


def answer(report: str) -> str:
    """The report's answer, and where the rest of it is."""
    sentence = next(line for line in report.splitlines() if line.startswith("**")).strip("*")
    place = REPORT.relative_to(ROOT)
    return f"{sentence} [The whole report]({place}) has all sizes, reasons and provenance."


def filled(text: str, name: str, content: str) -> str:
    """The text with the content between the marks of that name.

    Raises:
        SystemExit: the marks aren't there.
    """
    marks = re.compile(rf"(<!-- kvmark:{name} -->\n).*?(<!-- /kvmark:{name} -->)", re.DOTALL)
    if not marks.search(text):
        sys.exit(f"README.md has no marks kvmark:{name}: put them where its {name} belongs")
    return marks.sub(lambda found: f"{found[1]}{content}\n{found[2]}", text)


if __name__ == "__main__":
    sys.exit(main())
