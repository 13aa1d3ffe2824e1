"""Carries out an interleaved comparison, block by block, and answers.

Apart from the command, because it needs libraries that take a while to load. Those of the answer
are imported when nothing is measured any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from kvmark.cli.command_line import command_line
from kvmark.cli.live import LiveDisplay
from kvmark.cli.progress import show
from kvmark.cli.single import AskedRun
from kvmark.cli.system import password_lent
from kvmark.plan.compile import compile_run
from kvmark.records import Records
from kvmark.run import Setting, carry_out, make_setting
from kvmark.spec.condition import Gate
from kvmark.spec.metric import Metric
from kvmark.study.ab import SIDES, AbStudy, Precision, Side, Standing, interleaved
from kvmark.study.ab_judging import Judge

__all__ = ["Wanted", "measure_ab"]


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

    Raises:
        KvmarkError: a run failed, was interrupted or is INVALID; what was measured is kept.
        AnswerIsNo: a condition is broken.
    """
    name = f"ab:{records.now():%Y%m%d-%H%M%S}-{records.token()}"
    settings = {side: _setting(study, sides[side], f"{name}:{side}") for side in SIDES}
    ended: dict[Side, list[str]] = {side: [] for side in SIDES}
    invalid = "invalid" in wanted.allow
    # What a later comparison needs to give the same answer.
    asked = {"metric": wanted.metric.name, **asdict(study.precision)}
    standing: Standing | None = None
    with (
        Judge(records, wanted.metric, study.precision, allow_invalid=invalid) as judge,
        LiveDisplay(quiet=wanted.quiet) as display,
    ):
        number = 0

        def measure(block: int, side: Side) -> float:
            nonlocal number
            number += 1
            blocks = standing.needed if standing and standing.needed else _planned(study.precision)
            display.step(f"block {block + 1}, {side}", number, 2 * max(blocks, block + 1))
            spec = study.spec(block, side)
            place = {"name": name, "side": side, "block": block, "asked": asked}
            with password_lent(spec.system):
                carried = carry_out(
                    compile_run(spec), {**spec.as_json(), "ab": place}, records, settings[side],
                    show(display), spec.faults,
                ).or_raise()  # fmt: skip
            value = judge.value(carried.folder.id)
            ended[side].append(carried.folder.id)
            return value

        for latest in interleaved(study.seed, measure, judge.standing):
            standing = latest
    if standing is not None:
        _answer(study, ended, standing, name, records, wanted)


def _planned(precision: Precision) -> int:
    return min(precision.first_stage, precision.most_blocks)


def _setting(study: AbStudy, asked: AskedRun, tag: str) -> Setting:
    plan = compile_run(study.spec(0, "base" if tag.endswith(":base") else "candidate"))
    return make_setting(command_line(), plan, (tag, *asked.tags), asked.commit)


def _answer(
    study: AbStudy,
    ended: Mapping[Side, list[str]],
    standing: Standing,
    name: str,
    records: Records,
    wanted: Wanted,
) -> None:
    from kvmark.analysis.comparison import compare
    from kvmark.cli.comparing import answer_comparison

    comparison = compare(
        [records.open(run) for run in ended["base"]],
        [records.open(run) for run in ended["candidate"]],
        allow=wanted.allow,
        gate=wanted.gate,
    )
    tags = f"The runs have the tags {name}:base and {name}:candidate."
    said = (_blocks_sentence(standing, study.precision), tags)
    answer_comparison(comparison, wanted.form, wanted.junit_file, said=said)


def _blocks_sentence(standing: Standing, precision: Precision) -> str:
    if standing.wanted is not None and standing.wanted > standing.blocks:
        return (
            f"It ended after {standing.blocks} blocks, the most allowed; what was asked for needs"
            f" about {standing.wanted}, so give --max-blocks {standing.wanted} or ask for less."
        )
    aim = f"to find a difference of {100 * (precision.find or 0):.3g} %"
    if precision.within is not None:
        aim = f"an interval of ± {100 * precision.within:.3g} %"
    done = f"{standing.blocks} blocks, each side once in each, in random order"
    return f"{done}; asked for was {aim}."
