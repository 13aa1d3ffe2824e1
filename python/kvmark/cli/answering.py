"""The answer to what was measured: printed, written as a report, and refused where it is INVALID.

Nothing here is imported while an engine runs: the memory of its libraries would count as the
generator's.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from kvmark.analysis import Judgement, summarize
from kvmark.cli.output import print_answer, print_json, terminal_width, write_report
from kvmark.cli.sequence_said import said
from kvmark.errors import AnswerIsNo
from kvmark.records import Records
from kvmark.report.gather import run_answer, sequence_answer
from kvmark.report.terminal import run_text, sequence_text
from kvmark.run import Carried
from kvmark.study.measured import measured
from kvmark.study.ycsb_rounds import Course

__all__ = ["answer_one", "answer_sequence"]


def answer_one(carried: Carried, records: Records, report: Path | None, *, json: bool) -> None:
    """Closes one run and prints its answer.

    Raises:
        KvmarkError: the run failed or was interrupted, or is INVALID.
        RunError: the report can't be written.
    """
    (one,) = measured([carried], records)
    run, verdict = one.run, one.verdict
    answer = run_answer(run, verdict)
    if report is not None:
        write_report(lambda page: page.run_page(answer), report)
    if json:
        print_json({"run": run.id, "summary": summarize(run), "verdict": verdict})
    else:
        print_answer(run_text(answer, terminal_width()))
        _tell(report)
    carried.or_raise()
    if verdict.judgement is Judgement.INVALID:
        raise AnswerIsNo(f"run {run.id} is INVALID, for the reasons above")


def answer_sequence(
    ended: list[Carried], course: Course, records: Records, report: Path | None, *, json: bool
) -> None:
    """Closes the runs of a sequence and prints its table.

    Raises:
        AnswerIsNo: a case is INVALID.
        RunError: the report can't be written.
    """
    runs = [one.run for one in measured(ended, records)]
    told = said(course, [run.manifest for run in runs])
    answer = replace(sequence_answer(runs), said=told)
    if report is not None:
        write_report(lambda page: page.sequence_page(answer), report)
    if json:
        source, ids = answer.published_source, [run.id for run in runs]
        common = {"published_source": source, "runs": ids, "report": report}
        print_json({"rows": answer.rows, **common, "repetitions": course, "said": told})
    else:
        print_answer(sequence_text(answer, terminal_width()))
        _tell(report)
    rows = answer.rows
    invalid = sum(row.figures.verdict.judgement is Judgement.INVALID for row in rows)
    if invalid:
        raise AnswerIsNo(f"{invalid} of {len(rows)} cases are INVALID, for the reasons above")


def _tell(report: Path | None) -> None:
    if report is not None:
        typer.echo(f"\nThe report is in {report.resolve()}", err=True)
