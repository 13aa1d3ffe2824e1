"""`kvmark ab`: baseline and candidate in interleaved blocks, to a given precision."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from kvmark.cli import options
from kvmark.cli.commands import compare as comparing
from kvmark.cli.options import ExperimentOptions, argument, option, quantity
from kvmark.cli.run_options import parse_run
from kvmark.cli.session import execute_design, open_journal, report_maker
from kvmark.errors import AnswerIsNo, KvmarkError, RecordsError, SpecError, UsageError
from kvmark.spec.quantity import share

if TYPE_CHECKING:
    from kvmark.experiment.interleaved_ab import InterleavedAB, SideFailures, SideRequest
    from kvmark.experiment.journal import Journal

_WITHIN = 0.01
_NAMES = {"base": "baseline", "candidate": "candidate"}


@dataclass(frozen=True, kw_only=True)
class ABOptions(comparing.ComparisonOptions, ExperimentOptions):
    """Options of `kvmark ab`."""

    shared_words: str = argument("ARGUMENTS", "Arguments of kvmark run for both, quoted.", "")
    base: str = option(
        "ARGUMENTS", "Further arguments for the baseline, quoted: '--system …'.", default=""
    )
    candidate: str = option("ARGUMENTS", "Further arguments for the candidate, quoted.", default="")
    within: float | None = quantity(
        share, "PERCENT", "Stop when the ratio is known to ± PERCENT (default: 1%)."
    )
    find: float | None = quantity(
        share, "PERCENT", "Stop when a difference of PERCENT would have been found."
    )
    repetitions: int | None = option("N", "Fixed number of blocks.")
    metric: str = option(
        "NAME", "Metric that decides: throughput, p50, p99, READ.p99, ….", default="throughput"
    )
    max_blocks: int = option("N", "Largest number of blocks.", default=100)
    answer: str | None = option("NAME", "Print an interrupted comparison, and measure nothing.")
    seed: options.Seed = 1
    pin: options.Pin = None
    report: options.RunReport = None

    @cached_property
    def allowed(self) -> tuple[str, ...]:
        """The caveats of `--allow`."""
        return comparing.parse_allowed(self.allow)


def ab(options: ABOptions) -> None:
    """Compares baseline and candidate in interleaved blocks, to a given precision."""
    from kvmark.plan.names import operation_names
    from kvmark.spec.metric import check_operations, parse_comparable

    decided_by, gate = parse_comparable(options.metric), options.gate
    allowed = options.allowed
    if options.answer is not None:
        if options.shared_words or options.base or options.candidate:
            raise SpecError("--answer measures nothing: leave the arguments of the sides out")
        _print_stored(options.answer, options)
        return
    if not (options.shared_words or options.base):
        raise SpecError("ab needs arguments of kvmark run for both sides: 'ycsb/a --system URL'")
    words, pin = options.shared_words, options.pin
    words = f"{words} --pin {','.join(map(str, pin))}" if pin else words
    sides = {name: _side(name, words, getattr(options, name)) for name in _NAMES}
    # It takes a second to load, and usage errors of a side come first.
    from kvmark.analysis.summary.metrics import metrics_of_operations
    from kvmark.experiment.interleaved_ab import InterleavedAB, Precision, named_differences

    within, find, repetitions = options.within, options.find, options.repetitions
    if within is None and find is None and repetitions is None:
        within = _WITHIN
    design = InterleavedAB(
        sides=sides,  # type: ignore[arg-type]
        metric=decided_by,
        precision=Precision(within, find, options.max_blocks, exactly=repetitions),
        seed=options.seed,
        allow=allowed,
        named=named_differences(*(side.spec.system.text for side in sides.values())),
    )
    names = dict.fromkeys(name for plan in design.check() for name in operation_names(plan))
    metrics = [decided_by, *(one.metric for one in gate.conditions)]
    check_operations(metrics, names, "there is")
    claims = len({*metrics_of_operations(names), *metrics})
    design = replace(design, precision=replace(design.precision, claims=claims))
    journal = open_journal(design, options)
    with execute_design(design, options, journal) as problem:
        _print(design, journal, options, problem)


def _side(name: str, shared: str, words: str) -> SideRequest:
    from kvmark.experiment.interleaved_ab import SideRequest

    try:
        side = parse_run(shlex.split(f"{shared} {words}"))
    except (SpecError, ValueError) as problem:
        raise SpecError(f"{name}: {problem}") from problem
    return SideRequest(side.spec, side.tags, side.commit)


def _print_stored(name: str, options: ABOptions) -> None:
    """Prints the comparison of a name from its runs.

    Raises:
        RecordsError: it has no run.
        AnswerIsNo: none of its blocks can be used, or a condition is broken.
    """
    from kvmark.experiment.interleaved_ab import InterleavedAB, tag
    from kvmark.experiment.journal import named

    records = options.open_records()
    journal = named(records, name.removeprefix(tag("")))
    if journal is None or journal.definition.get("design") != InterleavedAB.kind:
        raise RecordsError(
            f"there is no run of a comparison '{name}' in {records.root}: give the tag of its runs"
            " as kvmark runs lists it, without :base or :candidate"
        )
    design = InterleavedAB.of_definition(journal.definition["asked"], options.allowed)
    design.gather(journal)
    _print(design, journal, options, None)


def _print(
    design: InterleavedAB, journal: Journal, options: ABOptions, problem: KvmarkError | None
) -> None:
    """Prints the answer of the complete blocks, then raises what ended the comparison early."""
    from kvmark.experiment.interleaved_ab import SIDES, tag

    blocks, name, records = design.blocks, tag(journal.id), journal.records
    failures = blocks.failures()
    first = tuple(_failure_sentences(failures))
    if not blocks.complete:
        unusable = [*blocks.left_out.values(), "none has both of its runs"][0]
        reason = " ".join([*first, f"no block of {name} can be used: {unusable}"])
        raise AnswerIsNo(reason) if problem is None or isinstance(problem, AnswerIsNo) else problem
    from kvmark.analysis.compare.comparison import compare
    from kvmark.cli.output import save_report
    from kvmark.report.model.page import Section
    from kvmark.report.views.comparison import answers, comparison_grid

    runs = {side: [records.open(run) for run in blocks.runs(side)] for side in SIDES}
    allow = (*options.allowed, *design.named)
    try:
        comparison = compare(*runs.values(), allow=allow, gate=options.gate, first=design.metric)
    except UsageError as refusal:
        # What ended the comparison explains the blocks.
        raise problem or refusal from refusal
    notes = (*_block_sentences(design), f"The runs have the tags {name}:base and {name}:candidate.")
    try:
        comparing.print_comparison(
            comparison,
            "json" if options.json else options.format,
            options.junit_file,
            first=first,
            notes=notes,
            failures=failures,
        )
        if first and "invalid" not in options.allowed:
            counts = first[0].rstrip(".")
            raise AnswerIsNo(f"{counts}: fix what made them so, or allow them with --allow invalid")
    except AnswerIsNo:
        if problem is None:
            raise
    finally:
        if options.report is not None:
            text = " ".join((*first, *answers(comparison), *notes))
            part = Section(
                "comparison", "Comparison", answer=text, grids=(comparison_grid(comparison),)
            )
            every_run = [*runs["base"], *runs["candidate"]]
            save_report(report_maker(every_run, part), options.report)
    if problem is not None:
        raise problem


def _failure_sentences(failures: Sequence[SideFailures]) -> Iterator[str]:
    """The number of INVALID runs of each side, and the first such run."""
    if not failures:
        return
    from kvmark.report.model.units import listed

    counts = [f"{one.invalid} of {one.runs} runs of the {_NAMES[one.side]}" for one in failures]
    yield f"INVALID: {listed(counts)}."
    for one in failures:
        if one.first is not None:
            reasons = listed([f"{code} ({count})" for code, count in one.reasons.items()])
            yield f"The {_NAMES[one.side]}'s reasons: {reasons}; first {one.first}"


def _block_sentences(design: InterleavedAB) -> Iterator[str]:
    """The number of blocks, the precision that was asked for, and the blocks left out."""
    blocks, precision = design.blocks, design.precision
    number, progress = len(blocks.complete), blocks.standing
    aim = f"to find a difference of {100 * (precision.find or 0):.3g} %"
    if precision.within is not None:
        aim = f"an interval of ± {100 * precision.within:.3g} %"
    if precision.exactly is not None:
        aim = f"{precision.exactly} blocks"
    measured = f"{number} {'block' if number == 1 else 'blocks'}"
    if progress is None or not progress.done:
        needs = f" and needs about {progress.needed}" if progress and progress.needed else ""
        yield f"It was cut short after {measured}; asked for was {aim}{needs}."
    elif progress.wanted is not None and progress.wanted > number:
        yield (
            f"It ended after {measured}, the most allowed; what was asked for needs about"
            f" {progress.wanted}, so give --max-blocks {progress.wanted} or ask for less."
        )
    else:
        yield f"{measured}, each side once in each, in random order; asked for was {aim}."
    for problem in blocks.left_out.values():
        yield f"A block was left out: {problem}."
