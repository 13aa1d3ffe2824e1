"""The answer to a sample application's run: its table, its verdict, and whether values were right.

Nothing here is imported while an engine runs.
"""

from __future__ import annotations

from pathlib import Path

import typer

from kvmark.analysis import Judgement
from kvmark.analysis.app_table import app_table
from kvmark.cli.output import print_answer, print_json, terminal_width, write_report
from kvmark.errors import AnswerIsNo, Interrupted
from kvmark.records import Records
from kvmark.report import doubts
from kvmark.report.app_table import app_part, app_text
from kvmark.report.gather import run_answer
from kvmark.report.page import with_part
from kvmark.report.terminal import doubt_lines
from kvmark.run import Carried
from kvmark.study.measured import measured

__all__ = ["answer_app"]


def answer_app(
    carried: Carried, records: Records, report: Path | None, *, strict: bool, json: bool
) -> None:
    """Closes one run and prints its table.

    Raises:
        KvmarkError: the run failed or was interrupted.
        AnswerIsNo: a value wasn't what it must be, or it isn't VALID and that was asked for.
        RunError: the report can't be written.
    """
    (one,) = measured([carried], records)
    run, verdict = one.run, one.verdict
    if not run.counted:
        carried.or_raise()
        raise AnswerIsNo(f"run {run.id} ended before anything was measured")
    table = app_table(run)
    answer = run_answer(run, verdict)
    if report is not None:
        write_report(lambda page: with_part(page.run_page(answer), app_part(table)), report)
    if json:
        print_json({"run": run.id, "table": table, "verdict": verdict})
    else:
        print_answer(app_text(table, verdict, terminal_width()))
        for line in doubt_lines(doubts.of_runs([answer]), terminal_width()):
            print_answer(line)
        typer.echo(f"\nRun {run.id}", err=True)
    if not isinstance(carried.failure, Interrupted):
        carried.or_raise()
    if table.mismatches:
        raise AnswerIsNo(
            f"{table.mismatches:,} reads of run {run.id} returned something else than what must"
            " be there"
        )
    if strict and verdict.judgement is not Judgement.VALID:
        raise AnswerIsNo(f"run {run.id} is {verdict.judgement.name}, for the reasons above")
    carried.or_raise()
