"""`kvmark ab`: two sides measured in turn until their ratio is known well enough."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kvmark.cli import options
from kvmark.cli.command_line import command_line
from kvmark.cli.commands.compare_options import (
    Allow,
    FailIf,
    Form,
    IfUnknown,
    Junit,
    allowed,
    gate,
    share,
)
from kvmark.errors import AnswerIsNo, Interrupted, KvmarkError, SpecError

if TYPE_CHECKING:
    from kvmark.cli.commands.run import AskedRun
    from kvmark.experiment.designs.paired.ab import AbStudy, Blocks, Kept, Precision, Side
    from kvmark.records import Records
    from kvmark.run.generator import LocalGenerator
    from kvmark.run.setting import Setting
    from kvmark.spec.condition import Gate
    from kvmark.spec.metric import Metric as DecidedBy

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
    from kvmark.experiment.designs.paired.ab import AbStudy, Precision
    from kvmark.plan.operations import operation_names
    from kvmark.spec.metric import check_operations, parse_comparable

    decided_by, asked = parse_comparable(metric), gate(fail_if or (), if_unknown)
    form: Literal["text", "md", "json"] = "json" if json else format
    words = allowed(allow)
    if answer is not None:
        if shared or base or candidate:
            raise SpecError("--answer measures nothing: leave the words of the sides out")
        from kvmark.records import Records

        wanted = _Wanted(decided_by, words, asked, form, junit_file, quiet)
        _answer_kept(answer, wanted, Records.at(folder))
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
    from kvmark.records import Records

    wanted = _Wanted(decided_by, words, asked, form, junit_file, quiet)
    _measure_and_answer(study, sides, wanted, Records.at(folder))


def _side(name: str, shared: str, words: str) -> AskedRun:
    from kvmark.cli.commands.run import parse_run

    try:
        return parse_run(shlex.split(f"{shared} {words}"))
    except (SpecError, ValueError) as problem:
        raise SpecError(f"{name}: {problem}") from problem


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is decided by, and how the answer is given."""

    metric: DecidedBy
    allow: tuple[str, ...]
    gate: Gate
    form: Literal["text", "md", "json"]
    junit_file: Path | None
    quiet: bool


def _measure_and_answer(
    study: AbStudy, sides: Mapping[str, AskedRun], wanted: _Wanted, records: Records
) -> None:
    """Measures blocks until there are enough, and prints the comparison.

    Whatever ends it early, it answers with the blocks that are complete.

    Raises:
        KvmarkError: a run failed or was interrupted, or none can be used; what was measured is
            kept.
        AnswerIsNo: a condition is broken.
    """
    name = f"ab:{records.now():%Y%m%d-%H%M%S}-{records.token()}"
    from kvmark.experiment.designs.paired.ab import Blocks, Kept

    blocks, problem = Blocks(), None
    try:
        _measure(study, sides, wanted, records, name, blocks)
    except KvmarkError as ended:
        problem = ended
    except KeyboardInterrupt:
        problem = Interrupted("interrupted between two runs")
    _answer(Kept(wanted.metric, study.precision, blocks), name, records, wanted, problem)


def _answer_kept(name: str, wanted: _Wanted, records: Records) -> None:
    """Prints the comparison of that name from the runs that it left.

    Raises:
        RecordsError: there is no run of it.
        AnswerIsNo: none of its blocks can be used, or a condition is broken.
    """
    from kvmark.experiment.designs.paired.answered import kept

    found = kept(records, name, allow_invalid="invalid" in wanted.allow)
    _answer(found, name, records, wanted, None)


def _measure(
    study: AbStudy,
    sides: Mapping[str, AskedRun],
    wanted: _Wanted,
    records: Records,
    name: str,
    blocks: Blocks,
) -> None:
    """Adds block after block until there are enough.

    Raises:
        AnswerIsNo: one block after the other can't be used.
        KvmarkError: a run failed or was interrupted.
    """
    from kvmark.cli.display.live import LiveDisplay
    from kvmark.cli.display.progress import show
    from kvmark.experiment.designs.paired.ab import MOST_LEFT_OUT, SIDES, interleaved
    from kvmark.experiment.designs.paired.judging import decided, found_in
    from kvmark.plan.compile import compile_run
    from kvmark.run.execution import carry_out
    from kvmark.run.generator import LocalGenerator

    # What a later comparison needs to give the same answer.
    asked = {"metric": wanted.metric.name, **asdict(study.precision)}
    allow_invalid = "invalid" in wanted.allow
    with LocalGenerator() as generator, LiveDisplay(quiet=wanted.quiet) as display:
        settings = {
            side: _setting(study, side, sides[side], f"{name}:{side}", (generator, records))
            for side in SIDES
        }
        display.say(f"If it is cut short, kvmark ab --answer {name} answers with what there is.")
        ended: dict[Side, str] = {}
        number = 0

        def measure(block: int, side: Side) -> float | None:
            nonlocal number
            number += 1
            needed = blocks.standing.needed if blocks.standing else None
            planned = needed or _planned(study.precision)
            display.step(f"block {block + 1}, {side}", number, 2 * max(planned, block + 1))
            spec = study.spec(block, side)
            place = {"name": name, "side": side, "block": block, "asked": asked}
            carried = carry_out(
                compile_run(spec), {**spec.as_json(), "ab": place}, settings[side],
                show(display), spec.faults, password=spec.system.password,
            ).or_raise()  # fmt: skip
            found = found_in(records, carried.folder.id, wanted.metric, allow_invalid=allow_invalid)
            if found.value is None:
                blocks.left_out.append(found.problem)
                display.say(f"Block {block + 1} is left out: {found.problem}.")
                ended.clear()
                return None
            ended[side] = carried.folder.id
            if len(ended) == len(SIDES):
                blocks.complete.append(dict(ended))
                ended.clear()
            return found.value

        standing_now = partial(decided, precision=study.precision)
        for standing in interleaved(study.seed, measure, standing_now):
            blocks.standing = standing
    if blocks.standing is None or not blocks.standing.done:
        raise AnswerIsNo(
            f"{MOST_LEFT_OUT} blocks one after the other can't be used: {blocks.left_out[-1]}"
        )


def _planned(precision: Precision) -> int:
    return min(precision.first_stage, precision.most_blocks)


def _setting(
    study: AbStudy, side: Side, asked: AskedRun, tag: str, made: tuple[LocalGenerator, Records]
) -> Setting:
    from kvmark.plan.compile import compile_run
    from kvmark.run.setting import make_setting

    plan = compile_run(study.spec(0, side))
    return make_setting(command_line(), plan, *made, (tag, *asked.tags), asked.commit)


def _answer(
    kept: Kept, name: str, records: Records, wanted: _Wanted, problem: KvmarkError | None
) -> None:
    """Prints what the complete blocks say, then raises what ended the comparison early."""
    blocks = kept.blocks
    if not blocks.complete:
        unusable = blocks.left_out[-1] if blocks.left_out else "none has both of its runs"
        raise problem or AnswerIsNo(f"no block of {name} can be used: {unusable}")
    from kvmark.analysis.compare.comparison import compare
    from kvmark.cli.commands.compare_output import answer_comparison

    comparison = compare(
        [records.open(run) for run in blocks.runs("base")],
        [records.open(run) for run in blocks.runs("candidate")],
        allow=wanted.allow,
        gate=wanted.gate,
    )
    tags = f"The runs have the tags {name}:base and {name}:candidate."
    said = (*_blocks_sentences(kept), tags)
    try:
        answer_comparison(comparison, wanted.form, wanted.junit_file, said=said)
    except AnswerIsNo:
        if problem is None:
            raise
    if problem is not None:
        raise problem


def _blocks_sentences(kept: Kept) -> Iterator[str]:
    """How many blocks there are, which were left out, and what they were to be enough for."""
    blocks, precision = kept.blocks, kept.precision
    number, standing = len(blocks.complete), blocks.standing
    aim = f"to find a difference of {100 * (precision.find or 0):.3g} %"
    if precision.within is not None:
        aim = f"an interval of ± {100 * precision.within:.3g} %"
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
    for problem in blocks.left_out:
        yield f"A block was left out: {problem}."
