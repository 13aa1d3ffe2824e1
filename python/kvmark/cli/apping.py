"""Carries out a run of a sample application and answers with its table.

Apart from the command, because it needs libraries that take a while to load; what closes and
answers is imported when nothing is measured any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvmark.cli.command_line import command_line
from kvmark.cli.live import LiveDisplay
from kvmark.cli.progress import show
from kvmark.cli.system import password_lent
from kvmark.plan.model import Plan
from kvmark.records import Records
from kvmark.run import carry_out, make_setting
from kvmark.spec.run import RunSpec
from kvmark.testbed.node_exporter import NodeExporter

__all__ = ["measure_app"]


def measure_app(
    plan: Plan,
    spec: RunSpec,
    kept: Mapping[str, Any],
    records: Records,
    *,
    observe: Sequence[str],
    tags: tuple[str, ...],
    report: Path | None,
    strict: bool,
    json: bool,
    quiet: bool,
) -> None:
    """Carries out one run and prints its table.

    Raises:
        KvmarkError: the run failed or was interrupted, values weren't what they must be, or it
            isn't VALID and that was asked for; it is printed all the same.
    """
    exporters = [NodeExporter(url) for url in observe]
    setting = make_setting(command_line(), plan, tags)
    with LiveDisplay(quiet=quiet) as display, password_lent(spec.system):
        display.step(spec.workload.name, 1, 1)
        told = {**spec.as_json(), "app": dict(kept)}
        carried = carry_out(plan, told, records, setting, show(display), exporters=exporters)
    from kvmark.cli.app_answering import answer_app

    answer_app(carried, records, report, strict=strict, json=json)
