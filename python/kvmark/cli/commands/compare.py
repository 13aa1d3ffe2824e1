"""`kvmark compare`: whether two sides of runs really differ, and by how much."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from kvmark.cli import completion, options
from kvmark.errors import SpecError, UsageError
from kvmark.outputs import check_output
from kvmark.records import Records
from kvmark.spec import condition, quantity
from kvmark.spec.suggest import did_you_mean

_ALLOWED: Final = ("environment", "invalid", "plan", "system")
"""What may speak against a comparison and be allowed by name."""

Allow = Annotated[
    str,
    typer.Option(
        metavar="WORD,…",
        help=f"Compare although something speaks against it: {', '.join(_ALLOWED)}.",
    ),
]
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="Exit with 1 if a change is or may be beyond: 'p99>5%', 'throughput<-3%'; repeatable.",
    ),
]
IfUnknown = Annotated[
    condition.IfUnknown,
    typer.Option(help="Whether a build fails or passes where the runs can't tell."),
]
Form = Annotated[Literal["text", "md"], typer.Option("--format", help="How the answer is set.")]
Junit = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="Write the conditions as JUnit XML too."),
]

_MEANT = "a run, several with commas, tag:NAME, study:ID or commit:ID"
_Baseline = Annotated[
    str,
    typer.Argument(
        metavar="BASE", autocompletion=completion.several_runs, help=f"The baseline: {_MEANT}."
    ),
]
Candidate = Annotated[
    str,
    typer.Argument(
        metavar="CANDIDATE", autocompletion=completion.several_runs, help="The candidate, likewise."
    ),
]
_Confidence = Annotated[
    float, typer.Option(metavar="SHARE", help="Coverage of each interval, such as 0.99.")
]
More = Annotated[
    list[str] | None,
    typer.Argument(metavar="CONDITION", help="More conditions, behind that of --fail-if."),
]


def share(metavar: str, help: str) -> Any:
    """An option for a share: `2%` or `0.02`."""

    def parse(value: Any) -> Any:
        try:
            return quantity.share(value) if isinstance(value, str) else value
        except SpecError as problem:
            raise typer.BadParameter(str(problem)) from None

    return typer.Option(parser=parse, metavar=metavar, help=help, show_default=False)


def gate(texts: Iterable[str], if_unknown: condition.IfUnknown) -> condition.Gate:
    """The conditions of `--fail-if`.

    Raises:
        SpecError: one of them is none.
    """
    return condition.Gate(tuple(map(condition.parse_condition, texts)), if_unknown)


def allowed(text: str) -> tuple[str, ...]:
    """The words of `--allow`.

    Raises:
        UsageError: one of them can't be allowed.
    """
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    for word in words:
        if word not in _ALLOWED:
            raise UsageError(f"allow: '{word}' can't be allowed{did_you_mean(word, _ALLOWED)}")
    return words


def compare(
    base: _Baseline,
    candidate: Candidate,
    more: More = None,
    allow: Allow = "",
    fail_if: FailIf = None,
    if_unknown: IfUnknown = "fail",
    confidence: _Confidence = 0.95,
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
