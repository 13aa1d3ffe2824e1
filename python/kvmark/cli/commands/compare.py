"""`kvmark compare`: whether two sides of runs really differ, and by how much."""

from __future__ import annotations

from typing import Annotated

import typer

from kvmark.cli import options
from kvmark.cli.commands.compare_options import Allow, FailIf, Form, IfUnknown, Junit, allowed, gate
from kvmark.cli.completion import complete
from kvmark.errors import UsageError
from kvmark.outputs import check_output
from kvmark.records import Records

__all__ = ["compare"]

_MEANT = "a run, several with commas, tag:NAME, study:ID or commit:ID"

Baseline = Annotated[
    str,
    typer.Argument(
        metavar="BASE", autocompletion=complete.several_runs, help=f"The baseline: {_MEANT}."
    ),
]
Candidate = Annotated[
    str,
    typer.Argument(
        metavar="CANDIDATE", autocompletion=complete.several_runs, help="The candidate, likewise."
    ),
]
Confidence = Annotated[
    float, typer.Option(metavar="SHARE", help="Coverage of each interval, such as 0.99.")
]
More = Annotated[
    list[str] | None,
    typer.Argument(metavar="CONDITION", help="More conditions, behind that of --fail-if."),
]


def compare(
    base: Baseline,
    candidate: Candidate,
    more: More = None,
    allow: Allow = "",
    fail_if: FailIf = None,
    if_unknown: IfUnknown = "fail",
    confidence: Confidence = 0.95,
    format: Form = "text",
    junit_file: Junit = None,
    folder: options.KeptRuns = None,
    json: options.Json = False,
) -> None:
    """Compares two sides of runs: each figure's ratio, and whether chance explains it."""
    if more and not fail_if:
        raise UsageError(f"'{more[0]}' is one word too many: name conditions behind --fail-if")
    from kvmark.analysis.compare import comparison as comparing
    from kvmark.analysis.compare.selection import runs_of
    from kvmark.cli.commands.compare_output import answer_comparison
    from kvmark.cli.judged import judge_and_keep

    asked = gate((*(fail_if or ()), *(more or ())), if_unknown)
    if not 0.5 <= confidence < 1:
        raise UsageError(f"confidence: must be from 0.5 to below 1, not {confidence:g}")
    if junit_file is not None:
        check_output(junit_file, "junit: ")
    records = Records.at(folder)
    sides = [runs_of(records, [word]) for word in (base, candidate)]
    judged = judge_and_keep(records, [run.id for side in sides for run in side])
    comparison = comparing.compare(
        *sides, allow=allowed(allow), gate=asked, confidence=confidence, judged=judged
    )
    answer_comparison(comparison, "json" if json else format, junit_file)
