"""`kvmark ab`: two sides measured in turn until their ratio is known well enough."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kvmark.cli import options
from kvmark.cli.compare_options import Allow, FailIf, Form, IfUnknown, Junit, allowed, gate, share
from kvmark.errors import SpecError

if TYPE_CHECKING:
    from kvmark.cli.single import AskedRun

__all__ = ["ab"]

_WITHIN = 0.01

Shared = Annotated[
    str, typer.Argument(metavar="WORDS", help="Words of kvmark run that both sides share, quoted.")
]
Base = Annotated[
    str, typer.Option(metavar="WORDS", help="More words for the baseline, quoted: '--system …'.")
]
Candidate = Annotated[
    str, typer.Option(metavar="WORDS", help="More words for the candidate, likewise.")
]
Within = Annotated[
    float | None,
    share("PERCENT", "End when the ratio is known to ± so much; 1% when neither is said."),
]
Find = Annotated[
    float | None, share("PERCENT", "End when a difference so large would have been found.")
]
Metric = Annotated[
    str, typer.Option(metavar="NAME", help="What decides: throughput, p50, p99, READ.p99, ….")
]
MaxBlocks = Annotated[int, typer.Option(metavar="N", help="End after so many blocks in any case.")]
Answer = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Measure nothing: answer with the blocks of a comparison that was cut short.",
    ),
]


def ab(
    shared: Shared = "",
    base: Base = "",
    candidate: Candidate = "",
    within: Within = None,
    find: Find = None,
    metric: Metric = "throughput",
    max_blocks: MaxBlocks = 100,
    answer: Answer = None,
    seed: options.Seed = 1,
    allow: Allow = "",
    fail_if: FailIf = None,
    if_unknown: IfUnknown = "fail",
    format: Form = "text",
    junit_file: Junit = None,
    folder: options.Runs = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compares two sides A and B, measured in turn in blocks until the difference is known."""
    from kvmark.plan.operations import operation_names
    from kvmark.spec.metric import check_operations, parse_comparable
    from kvmark.study.ab import AbStudy, Precision

    decided_by, asked = parse_comparable(metric), gate(fail_if or (), if_unknown)
    form: Literal["text", "md", "json"] = "json" if json else format
    words = allowed(allow)
    if answer is not None:
        if shared or base or candidate:
            raise SpecError("--answer measures nothing: leave the words of the sides out")
        from kvmark.cli.interleaving import Wanted, answer_kept
        from kvmark.records import Records

        wanted = Wanted(decided_by, words, asked, form, junit_file, quiet)
        answer_kept(answer, wanted, Records.at(folder))
        return
    within = _WITHIN if within is None and find is None else within
    sides = {
        name: _side(name, shared, words)
        for name, words in (("base", base), ("candidate", candidate))
    }
    study = AbStudy(
        base=sides["base"].spec,
        candidate=sides["candidate"].spec,
        precision=Precision(within, find, max_blocks),
        seed=seed,
    )
    plans = study.check()
    names = dict.fromkeys(name for plan in plans for name in operation_names(plan))
    check_operations([decided_by, *(one.metric for one in asked.conditions)], names, "there is")
    # What follows takes a second to load, and a usage error is told before it.
    from kvmark.cli.interleaving import Wanted, measure_ab
    from kvmark.records import Records

    wanted = Wanted(decided_by, words, asked, form, junit_file, quiet)
    measure_ab(study, sides, wanted, Records.at(folder))


def _side(name: str, shared: str, words: str) -> AskedRun:
    from kvmark.cli.single import parse_run

    try:
        return parse_run(shlex.split(f"{shared} {words}"))
    except (SpecError, ValueError) as problem:
        raise SpecError(f"{name}: {problem}") from problem
