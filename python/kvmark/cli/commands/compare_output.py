"""The answer of a comparison: printed, written for a build server, refused where it is worse."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from kvmark.analysis.compare.comparison import Comparison
from kvmark.cli.output import print_answer, print_json, terminal_width
from kvmark.errors import AnswerIsNo
from kvmark.outputs import write_output
from kvmark.report.format.junit import junit
from kvmark.report.views.comparison import comparison_markdown, comparison_text, held_sentence
from kvmark.report.views.plan_words import listed

if TYPE_CHECKING:
    from kvmark.experiment.designs.paired.ab import SideFailures

__all__ = ["answer_comparison"]

_MOST_TOLD = 3


def answer_comparison(
    comparison: Comparison,
    form: Literal["text", "md", "json"],
    junit_file: Path | None,
    *,
    first: tuple[str, ...] = (),
    said: tuple[str, ...] = (),
    failures: tuple[SideFailures, ...] = (),
) -> None:
    """Prints a comparison; ``said`` are sentences on how it was made.

    ``failures`` are both sides' INVALID runs, which ``first`` puts into sentences before all else.

    Raises:
        AnswerIsNo: a condition is broken.
        RunError: the file for the build server can't be written.
    """
    match form:
        case "json":
            print_json(
                "comparison",
                {"comparison": comparison, "failures": failures, "said": (*first, *said)},
            )
        case "md":
            typer.echo(comparison_markdown(comparison, said, first), nl=False)
        case "text":
            print_answer(comparison_text(comparison, terminal_width(), said, first))
    if junit_file is not None:
        write_output(junit_file, junit(comparison), page=True)
    broken = comparison.failed
    if broken:
        worse = [held for held in broken if held.answer == "worse"]
        what = "the candidate is worse than allowed"
        if not worse:
            what = "whether the candidate is worse than allowed can't be told"
        told = " ".join(held_sentence(held) for held in (worse or broken)[:_MOST_TOLD]).rstrip(".")
        raise AnswerIsNo(f"{what}: {told}")
    if comparison.unmeasured:
        raise AnswerIsNo(
            "whether the candidate is worse than allowed can't be told: it has no run of"
            f" {listed(comparison.unmeasured)}; measure it, or give --if-unknown pass"
        )
