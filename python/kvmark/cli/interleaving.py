"""Carries out an interleaved comparison, block by block, and answers.

Apart from the command, because it needs libraries that take a while to load. Those of the answer
are imported when nothing is measured any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from kvmark.cli.command_line import command_line
from kvmark.cli.live import LiveDisplay
from kvmark.cli.progress import show
from kvmark.cli.single import AskedRun
from kvmark.cli.system import password_lent
from kvmark.errors import AnswerIsNo, Interrupted, KvmarkError
from kvmark.plan.compile import compile_run
from kvmark.records import Records
from kvmark.run import Setting, carry_out, make_setting
from kvmark.spec.condition import Gate
from kvmark.spec.metric import Metric
from kvmark.study.ab import (
    MOST_LEFT_OUT,
    SIDES,
    AbStudy,
    Blocks,
    Kept,
    Precision,
    Side,
    interleaved,
)
from kvmark.study.ab_judging import Judge

__all__ = ["Wanted", "answer_kept", "measure_ab"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is decided by, and how the answer is given."""

    metric: Metric
    allow: tuple[str, ...]
    gate: Gate
    form: Literal["text", "md", "json"]
    junit_file: Path | None
    quiet: bool


def measure_ab(
    study: AbStudy, sides: Mapping[str, AskedRun], wanted: Wanted, records: Records
) -> None:
    """Measures blocks until there are enough, and prints the comparison.

    Whatever ends it early, it answers with the blocks that are complete.

    Raises:
        KvmarkError: a run failed or was interrupted, or none can be used; what was measured is
            kept.
        AnswerIsNo: a condition is broken.
    """
    name = f"ab:{records.now():%Y%m%d-%H%M%S}-{records.token()}"
    blocks, problem = Blocks(), None
    try:
        _measure(study, sides, wanted, records, name, blocks)
    except KvmarkError as ended:
        problem = ended
    except KeyboardInterrupt:
        problem = Interrupted("interrupted between two runs")
    _answer(Kept(wanted.metric, study.precision, blocks), name, records, wanted, problem)


def answer_kept(name: str, wanted: Wanted, records: Records) -> None:
    """Prints the comparison of that name from the runs that it left.

    Raises:
        RecordsError: there is no run of it.
        AnswerIsNo: none of its blocks can be used, or a condition is broken.
    """
    from kvmark.study.ab_kept import kept

    found = kept(records, name, allow_invalid="invalid" in wanted.allow)
    _answer(found, name, records, wanted, None)


def _measure(
    study: AbStudy,
    sides: Mapping[str, AskedRun],
    wanted: Wanted,
    records: Records,
    name: str,
    blocks: Blocks,
) -> None:
    """Adds block after block until there are enough.

    Raises:
        AnswerIsNo: one block after the other can't be used.
        KvmarkError: a run failed or was interrupted.
    """
    settings = {side: _setting(study, sides[side], f"{name}:{side}") for side in SIDES}
    # What a later comparison needs to give the same answer.
    asked = {"metric": wanted.metric.name, **asdict(study.precision)}
    with (
        Judge(
            records, wanted.metric, study.precision, allow_invalid="invalid" in wanted.allow
        ) as judge,
        LiveDisplay(quiet=wanted.quiet) as display,
    ):
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
            with password_lent(spec.system):
                carried = carry_out(
                    compile_run(spec), {**spec.as_json(), "ab": place}, records, settings[side],
                    show(display), spec.faults,
                ).or_raise()  # fmt: skip
            found = judge.found(carried.folder.id)
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

        for standing in interleaved(study.seed, measure, judge.standing):
            blocks.standing = standing
    if blocks.standing is None or not blocks.standing.done:
        raise AnswerIsNo(
            f"{MOST_LEFT_OUT} blocks one after the other can't be used: {blocks.left_out[-1]}"
        )


def _planned(precision: Precision) -> int:
    return min(precision.first_stage, precision.most_blocks)


def _setting(study: AbStudy, asked: AskedRun, tag: str) -> Setting:
    plan = compile_run(study.spec(0, "base" if tag.endswith(":base") else "candidate"))
    return make_setting(command_line(), plan, (tag, *asked.tags), asked.commit)


def _answer(
    kept: Kept, name: str, records: Records, wanted: Wanted, problem: KvmarkError | None
) -> None:
    """Prints what the complete blocks say, then raises what ended the comparison early."""
    blocks = kept.blocks
    if not blocks.complete:
        unusable = blocks.left_out[-1] if blocks.left_out else "none has both of its runs"
        raise problem or AnswerIsNo(f"no block of {name} can be used: {unusable}")
    from kvmark.analysis.comparison import compare
    from kvmark.cli.comparing import answer_comparison

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
