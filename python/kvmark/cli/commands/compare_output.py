"""The answer of a comparison: printed, written as JUnit, refused where it is worse."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from kvmark.analysis.compare.comparison import CaseComparison, Comparison
from kvmark.analysis.compare.thresholds import Held
from kvmark.cli.output import print_answer, print_json, terminal_width
from kvmark.errors import AnswerIsNo
from kvmark.outputs import write_output
from kvmark.report.views.comparison import (
    comparison_markdown,
    comparison_text,
    held_sentence,
    percent,
    percent_range,
)
from kvmark.report.views.plan_words import listed

if TYPE_CHECKING:
    from kvmark.experiment.interleaved_ab import SideFailures

_MOST_TOLD = 3


def junit(comparison: Comparison) -> str:
    """The document. Without conditions each metric is a test that passes and says what it found."""
    tests = [test for case in comparison.cases for test in _tests(case)]
    tests += [_unmeasured(title) for title in comparison.unmeasured]
    counts = {
        "tests": str(len(tests)),
        "failures": str(len(comparison.failed) + len(comparison.unmeasured)),
        "errors": "0",
        "skipped": str(sum(test.find("skipped") is not None for test in tests)),
    }
    suites = ET.Element("testsuites", {"name": "kvmark compare", **counts})
    suite = ET.SubElement(suites, "testsuite", {"name": "kvmark compare", **counts})
    suite.extend(tests)
    ET.indent(suites)
    text: str = ET.tostring(suites, encoding="unicode", xml_declaration=True)
    return text + "\n"


def _tests(case: CaseComparison) -> list[ET.Element]:
    if case.held:
        return [_condition(case, held) for held in case.held]
    return [
        _test(case.title, row.metric.name, f"{percent(row.effect.change)} ({found})")
        for row in case.rows
        if row.effect is not None
        for found in [percent_range(row.effect.ratio)]
    ]


def _condition(case: CaseComparison, held: Held) -> ET.Element:
    sentence = held_sentence(held)
    test = _test(case.title, held.condition.text, sentence)
    if held.failed:
        kind = "regression" if held.answer == "worse" else "unknown"
        failure = ET.SubElement(test, "failure", {"type": kind, "message": sentence})
        failure.text = f"Baseline: {case.baseline}. Candidate: {case.candidate}."
    elif held.answer == "can't tell":
        ET.SubElement(test, "skipped", {"message": sentence})
    return test


def _unmeasured(title: str) -> ET.Element:
    sentence = "The candidate has no run of this case."
    test = _test(title, "measured", sentence)
    ET.SubElement(test, "failure", {"type": "unknown", "message": sentence})
    return test


def _test(title: str, name: str, said: str) -> ET.Element:
    test = ET.Element("testcase", {"classname": f"kvmark.{title}", "name": name, "time": "0"})
    ET.SubElement(test, "system-out").text = said
    return test


def answer_comparison(
    comparison: Comparison,
    form: Literal["text", "md", "json"],
    junit_file: Path | None,
    *,
    first: tuple[str, ...] = (),
    said: tuple[str, ...] = (),
    failures: tuple[SideFailures, ...] = (),
) -> None:
    """Prints a comparison; ``said`` are sentences on how it was made.

    ``failures`` are both sides' INVALID runs, which ``first`` puts into sentences before all else.

    Raises:
        AnswerIsNo: a condition is broken.
        RunError: the file for the build server can't be written.
    """
    match form:
        case "json":
            print_json(
                "comparison",
                {"comparison": comparison, "failures": failures, "said": (*first, *said)},
            )
        case "md":
            typer.echo(comparison_markdown(comparison, said, first), nl=False)
        case "text":
            print_answer(comparison_text(comparison, terminal_width(), said, first))
    if junit_file is not None:
        write_output(junit_file, junit(comparison), page=True)
    broken = comparison.failed
    if broken:
        worse = [held for held in broken if held.answer == "worse"]
        what = "the candidate is worse than allowed"
        if not worse:
            what = "whether the candidate is worse than allowed can't be told"
        told = " ".join(held_sentence(held) for held in (worse or broken)[:_MOST_TOLD]).rstrip(".")
        raise AnswerIsNo(f"{what}: {told}")
    if comparison.unmeasured:
        raise AnswerIsNo(
            "whether the candidate is worse than allowed can't be told: it has no run of"
            f" {listed(comparison.unmeasured)}; measure it, or give --if-unknown pass"
        )
