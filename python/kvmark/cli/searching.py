"""Carries out a capacity search, shows how it goes, and answers.

Apart from the command, because it needs libraries that take a while to load; what answers is
imported when nothing is measured any more.
"""

from __future__ import annotations

from typing import Literal

from kvmark.cli.command_line import command_line
from kvmark.cli.fleet import AskedFleet, on_fleet
from kvmark.cli.live import LiveDisplay
from kvmark.cli.progress import show
from kvmark.cli.system import password_lent
from kvmark.errors import AnswerIsNo
from kvmark.plan.model import Plan
from kvmark.records import Records
from kvmark.run import make_setting
from kvmark.spec.objective import Objective
from kvmark.spec.run import RunSpec
from kvmark.study.capacity import Asked, Capacity
from kvmark.study.trying import Trying, capacity_of

__all__ = ["search_capacity"]


def search_capacity(
    plan: Plan,
    spec: RunSpec,
    arrival: Literal["constant", "poisson"],
    objectives: tuple[Objective, ...],
    asked: Asked,
    first: float | None,
    tags: tuple[str, ...],
    *,
    records: Records,
    fleet: AskedFleet | None,
    json: bool,
    quiet: bool,
) -> None:
    """Searches and prints the answer.

    Raises:
        AnswerIsNo: there is no capacity, or it could not be bounded.
        KvmarkError: a run failed or was interrupted; those before it are kept.
    """
    name = f"capacity:{records.now():%Y%m%d-%H%M%S}-{records.token()}"
    common = make_setting(command_line(), plan, (name, *tags))
    with (
        on_fleet(common, fleet, plan) as setting,
        LiveDisplay(quiet=quiet) as display,
        password_lent(spec.system),
    ):

        def step(title: str, number: int) -> None:
            display.step(title, number, max(number, asked.steps + (first is None)))

        trying = Trying(name, spec, arrival, objectives, records, setting, step, show(display))
        found = capacity_of(trying, asked, first)
    _answer(found, spec, objectives, name, json=json)


def _answer(
    found: Capacity, spec: RunSpec, objectives: tuple[Objective, ...], tag: str, *, json: bool
) -> None:
    from kvmark.cli.output import print_answer, print_json, terminal_width
    from kvmark.report.capacity import (
        CapacityAnswer,
        CapacityLine,
        capacity_sentence,
        capacity_text,
    )
    from kvmark.study.estimated import estimated

    estimate = estimated(found, objectives)
    answer = CapacityAnswer(
        workload=spec.workload.name,
        system=spec.system.text,
        objectives=objectives,
        found=found.found,
        low=found.low,
        high=found.high,
        reason=found.reason,
        estimate=estimate,
        tag=tag,
        lines=tuple(
            CapacityLine(
                one.rate,
                one.stage,
                one.run,
                one.outcome,
                one.reasons,
                one.figures,
                one.throughput,
                one.notes,
            )
            for one in found.runs
        ),
    )
    if json:
        texts = [objective.text for objective in objectives]
        document = {"workload": answer.workload, "system": answer.system, "objectives": texts}
        document["tag"] = tag
        sentence = capacity_sentence(answer)
        print_json({**document, "capacity": estimate, "search": found, "sentence": sentence})
    else:
        print_answer(capacity_text(answer, terminal_width()))
    if found.found != "found":
        raise AnswerIsNo(f"capacity: {found.reason}")
