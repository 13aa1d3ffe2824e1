"""`kvmark ab`: two sides measured in turn until their ratio is known well enough."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kvmark.cli import options
from kvmark.cli.commands.compare import (
    Allow,
    FailIf,
    Form,
    IfUnknown,
    Junit,
    allowed,
    gate,
    share,
)
from kvmark.cli.experiment import (
    ExperimentOptions,
    execute_design,
    experiment_options,
    open_journal,
    report_maker,
)
from kvmark.errors import AnswerIsNo, KvmarkError, RecordsError, SpecError, UsageError
from kvmark.outputs import check_output

if TYPE_CHECKING:
    from kvmark.experiment.interleaved_ab import InterleavedAB, SideFailures, SideRequest
    from kvmark.experiment.journal import Journal
    from kvmark.records import Records
    from kvmark.spec.condition import Gate

_WITHIN = 0.01

SharedWords = Annotated[
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
Repetitions = Annotated[
    int | None,
    typer.Option(metavar="N", help="Measure so many blocks, whatever their scatter."),
]
MaxBlocks = Annotated[int, typer.Option(metavar="N", help="End after so many blocks in any case.")]
Answer = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Measure nothing: answer with the blocks of a comparison that was cut short.",
    ),
]


@experiment_options
def ab(
    shared_words: SharedWords = "",
    base: Base = "",
    candidate: Candidate = "",
    within: Within = None,
    find: Find = None,
    repetitions: Repetitions = None,
    metric: Metric = "throughput",
    max_blocks: MaxBlocks = 100,
    answer: Answer = None,
    seed: options.Seed = 1,
    pin: options.Pin = None,
    allow: Allow = "",
    fail_if: FailIf = None,
    if_unknown: IfUnknown = "fail",
    format: Form = "text",
    junit_file: Junit = None,
    report: options.RunReport = None,
    *,
    shared: ExperimentOptions,
) -> None:
    """Compares two sides A and B, measured in turn in blocks until the difference is known."""
    from kvmark.plan.names import operation_names
    from kvmark.spec.metric import check_operations, parse_comparable

    decided_by, asked = parse_comparable(metric), gate(fail_if or (), if_unknown)
    form: Literal["text", "md", "json"] = "json" if shared.json else format
    if junit_file is not None:
        check_output(junit_file, "junit: ")
    wanted = _Wanted(allowed(allow), asked, form, junit_file, report)
    if answer is not None:
        if shared_words or base or candidate:
            raise SpecError("--answer measures nothing: leave the words of the sides out")
        _answer_kept(answer, wanted, shared.records)
        return
    pinned = f"--pin {','.join(map(str, pin))}" if pin else ""
    words = f"{shared_words} {pinned}"
    sides = {"base": _side("base", words, base), "candidate": _side("candidate", words, candidate)}
    # What follows takes a second to load, and a usage error of a side is told before it.
    from kvmark.analysis.compare.metrics import metrics_of_operations
    from kvmark.experiment.interleaved_ab import InterleavedAB, Precision

    if within is None and find is None and repetitions is None:
        within = _WITHIN
    paired = InterleavedAB(
        sides=sides,  # type: ignore[arg-type]
        metric=decided_by,
        precision=Precision(within, find, max_blocks, exactly=repetitions),
        seed=seed,
        allow=wanted.allow,
    )
    names = dict.fromkeys(name for plan in paired.check() for name in operation_names(plan))
    named = [decided_by, *(one.metric for one in asked.conditions)]
    check_operations(named, names, "there is")
    claims = len({*metrics_of_operations(names), *named})
    paired = replace(paired, precision=replace(paired.precision, claims=claims))
    journal = open_journal(paired, shared)
    with execute_design(paired, shared, journal) as problem:
        _answer(paired, journal, wanted, problem)


def _side(name: str, shared: str, words: str) -> SideRequest:
    from kvmark.cli.commands.run import parse_run
    from kvmark.experiment.interleaved_ab import SideRequest

    try:
        asked = parse_run(shlex.split(f"{shared} {words}"))
    except (SpecError, ValueError) as problem:
        raise SpecError(f"{name}: {problem}") from problem
    return SideRequest(asked.spec, asked.tags, asked.commit)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """How the answer is given."""

    allow: tuple[str, ...]
    gate: Gate
    form: Literal["text", "md", "json"]
    junit_file: Path | None
    report: Path | None


def _answer_kept(name: str, wanted: _Wanted, records: Records) -> None:
    """Prints the comparison of that name from the runs that it left.

    Raises:
        RecordsError: there is no run of it.
        AnswerIsNo: none of its blocks can be used, or a condition is broken.
    """
    from kvmark.experiment.interleaved_ab import InterleavedAB, tag
    from kvmark.experiment.journal import named

    journal = named(records, name.removeprefix(tag("")))
    if journal is None or journal.definition.get("design") != InterleavedAB.kind:
        raise RecordsError(
            f"there is no run of a comparison '{name}' in {records.root}: give the tag of its runs"
            " as kvmark runs lists it, without :base or :candidate"
        )
    asked = journal.definition["asked"]
    paired = InterleavedAB.of_definition(asked, wanted.allow)
    paired.gather(journal)
    _answer(paired, journal, wanted, None)


def _answer(
    paired: InterleavedAB, journal: Journal, wanted: _Wanted, problem: KvmarkError | None
) -> None:
    """Prints what the complete blocks say, then raises what ended the comparison early."""
    from kvmark.experiment.interleaved_ab import SIDES, tag

    blocks, name, records = paired.blocks, tag(journal.id), journal.records
    failures = paired.blocks.failures()
    first = tuple(_failure_sentences(failures))
    if not blocks.complete:
        unusable = [*blocks.left_out.values(), "none has both of its runs"][0]
        told = " ".join([*first, f"no block of {name} can be used: {unusable}"])
        raise AnswerIsNo(told) if problem is None or isinstance(problem, AnswerIsNo) else problem
    from kvmark.analysis.compare.comparison import compare
    from kvmark.cli.commands.compare_output import answer_comparison
    from kvmark.cli.output import tell_report, write_report
    from kvmark.report.model.page import Section
    from kvmark.report.views.comparison import answers, grids

    runs = {side: [records.open(run) for run in blocks.runs(side)] for side in SIDES}
    # Each side was named with its servers: what differs between them is what is compared.
    allow = (*wanted.allow, "environment")
    try:
        comparison = compare(runs["base"], runs["candidate"], allow=allow, gate=wanted.gate)
    except UsageError as refusal:
        # What ended the comparison explains what it left.
        raise problem or refusal from refusal
    said = (
        *_blocks_sentences(paired),
        f"The runs have the tags {name}:base and {name}:candidate.",
    )
    try:
        answer_comparison(
            comparison, wanted.form, wanted.junit_file, first=first, said=said, failures=failures
        )
        if first and "invalid" not in wanted.allow:
            counts = first[0].rstrip(".")
            raise AnswerIsNo(f"{counts}: fix what made them so, or allow them with --allow invalid")
    except AnswerIsNo:
        if problem is None:
            raise
    finally:
        if wanted.report is not None:
            told = " ".join((*first, *answers(comparison), *said))
            part = Section("comparison", "Comparison", answer=told, grids=tuple(grids(comparison)))
            write_report(report_maker([*runs["base"], *runs["candidate"]], part), wanted.report)
            tell_report(wanted.report)
    if problem is not None:
        raise problem


def _failure_sentences(failures: Sequence[SideFailures]) -> Iterator[str]:
    """How many runs of each side are INVALID, and what the first of them says."""
    if not failures:
        return
    from kvmark.report.views.plan_words import listed

    names = {"base": "baseline", "candidate": "candidate"}
    told = [f"{one.invalid} of {one.runs} runs of the {names[one.side]}" for one in failures]
    yield f"INVALID: {listed(told)}."
    for one in failures:
        if one.first is not None:
            reasons = listed([f"{code} ({count})" for code, count in one.reasons.items()])
            yield f"The {names[one.side]}'s reasons: {reasons}; first {one.first}"


def _blocks_sentences(paired: InterleavedAB) -> Iterator[str]:
    """How many blocks there are, which were left out, and what they were to be enough for."""
    blocks, precision = paired.blocks, paired.precision
    number, standing = len(blocks.complete), blocks.standing
    aim = f"to find a difference of {100 * (precision.find or 0):.3g} %"
    if precision.within is not None:
        aim = f"an interval of ± {100 * precision.within:.3g} %"
    if precision.exactly is not None:
        aim = f"{precision.exactly} blocks"
    many = f"{number} {'block' if number == 1 else 'blocks'}"
    if standing is None or not standing.done:
        needs = f" and needs about {standing.needed}" if standing and standing.needed else ""
        yield f"It was cut short after {many}; asked for was {aim}{needs}."
    elif standing.wanted is not None and standing.wanted > number:
        yield (
            f"It ended after {many}, the most allowed; what was asked for needs about"
            f" {standing.wanted}, so give --max-blocks {standing.wanted} or ask for less."
        )
    else:
        yield f"{many}, each side once in each, in random order; asked for was {aim}."
    for problem in blocks.left_out.values():
        yield f"A block was left out: {problem}."
