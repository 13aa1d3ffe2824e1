"""Measures the quickstart's sequence and puts its table and picture into the README.

The whole report stands in docs/results, so that every figure in the README comes from a run that
`make readme` repeats.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
REPORT = ROOT / "docs" / "results" / "ycsb-rocksdb.md"
PICTURE = "docs/results/ycsb-rocksdb/throughput.svg"
RECORDS = "10,000"
"""The size whose rows the README shows; the report has them all."""


def main() -> int:
    """Runs the sequence, then writes the report and the README."""
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    command = [str(ROOT / ".venv/bin/kvmark"), "ycsb", "--report", str(REPORT.relative_to(ROOT))]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if status != 0:
        return status
    report = REPORT.read_text("utf-8")
    text = README.read_text("utf-8")
    text = filled(text, "table", f"{table(report)}\n\n{answer(report)}")
    picture = f"![Throughput by workload and number of records, measured and published]({PICTURE})"
    README.write_text(filled(text, "picture", picture), "utf-8")
    return 0


def table(report: str) -> str:
    """The rows of the report's first table that have the README's number of records."""
    rows = [line for line in report.splitlines() if line.startswith("| ")]
    head, body = rows[:2], rows[2:]
    return "\n".join([*head, *(row for row in body if f"| {RECORDS} |" in row)])


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
