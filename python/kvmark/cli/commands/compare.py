"""`kvmark compare`: differences between baseline and candidate runs, and conditions on them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import typer

from kvmark.cli import completion, options
from kvmark.cli.options import argument, choice, option
from kvmark.cli.output import print_answer, print_json, terminal_width
from kvmark.errors import AnswerIsNo, UsageError
from kvmark.outputs import check_output, write_output
from kvmark.records import Records
from kvmark.spec.metric import Gate, IfUnknown, parse_condition
from kvmark.spec.suggest import did_you_mean

if TYPE_CHECKING:
    from kvmark.analysis.compare.comparison import CaseComparison, Comparison
    from kvmark.experiment.interleaved_ab import SideFailures

Form: TypeAlias = Literal["text", "md", "json"]

_CAVEATS: Final = ("environment", "invalid", "plan", "system")
"""Objections to a comparison that `--allow` can name."""
_MOST_PRINTED: Final = 3
_RUNS: Final = "a run, several with commas, tag:NAME, study:ID, commit:ID or IMPORT#CASE"

Allow = Annotated[str, option("CAVEAT,…", f"Compare in spite of a caveat: {', '.join(_CAVEATS)}.")]


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """Options of commands that compare."""

    allow: Allow = ""
    fail_if: tuple[str, ...] = option(
        "CONDITION",
        "Exit 1 if a change exceeds, or may exceed, the limit: 'p99>5%', 'throughput<-3%';"
        " repeatable.",
        default=(),
    )
    if_unknown: IfUnknown = choice("fail", "Result of a condition that the runs can't decide.")
    format: Literal["text", "md"] = choice("text", "Output format.")
    junit_file: Path | None = option("FILE", "Write the conditions as JUnit XML too.", "--junit")

    @cached_property
    def gate(self) -> Gate:
        """The conditions of `--fail-if`.

        Raises:
            UsageError: a condition can't be read, or the JUnit file can't be written.
        """
        gate = Gate(tuple(map(parse_condition, self.fail_if)), self.if_unknown)
        if self.junit_file is not None:
            check_output(self.junit_file, "junit: ")
        return gate


def parse_allowed(text: str) -> tuple[str, ...]:
    """The caveats of `--allow`.

    Raises:
        UsageError: a caveat can't be allowed.
    """
    caveats = tuple(word.strip() for word in text.split(",") if word.strip())
    for caveat in caveats:
        if caveat not in _CAVEATS:
            raise UsageError(f"allow: '{caveat}' can't be allowed{did_you_mean(caveat, _CAVEATS)}")
    return caveats


def compare(
    base: str = argument("BASE", f"Baseline: {_RUNS}.", autocompletion=completion.several_runs),
    candidate: str = argument(
        "CANDIDATE", "Candidate, likewise.", autocompletion=completion.several_runs
    ),
    more: list[str] | None = argument("CONDITION", "Further conditions of --fail-if.", None),
    confidence: float = option(
        "SHARE", "Coverage of the confidence intervals, such as 0.99.", default=0.95
    ),
    folder: options.KeptRuns = None,
    json: options.Json = False,
    *,
    given: ComparisonOptions,
) -> None:
    """Compares baseline and candidate runs: ratios with their significance."""
    if more and not given.fail_if:
        raise UsageError(f"'{more[0]}' is one word too many: name conditions behind --fail-if")
    from kvmark.analysis.compare import comparison as comparing
    from kvmark.analysis.compare.selection import runs_of
    from kvmark.cli.judged import judge_and_keep

    gate = replace(given, fail_if=(*given.fail_if, *(more or ()))).gate
    if not 0.5 <= confidence < 1:
        raise UsageError(f"confidence: must be from 0.5 to below 1, not {confidence:g}")
    records = Records.at(folder)
    sides = [runs_of(records, [word]) for word in (base, candidate)]
    judged = judge_and_keep(records, [run.path.name for side in sides for run in side])
    comparison = comparing.compare(
        *sides, allow=parse_allowed(given.allow), gate=gate, confidence=confidence, judged=judged
    )
    print_comparison(comparison, "json" if json else given.format, given.junit_file)


def print_comparison(
    comparison: Comparison,
    form: Form,
    junit_file: Path | None,
    *,
    first: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    failures: tuple[SideFailures, ...] = (),
) -> None:
    """Prints a comparison, with sentences before and after it.

    `failures` are both sides' INVALID runs, which `first` reports.

    Raises:
        AnswerIsNo: a condition is broken.
        RunError: the JUnit file can't be written.
    """
    from kvmark.report.model.units import listed
    from kvmark.report.views import comparison as views

    match form:
        case "json":
            document = {"comparison": comparison, "failures": failures, "said": (*first, *notes)}
            print_json("comparison", document)
        case "md":
            typer.echo(views.comparison_markdown(comparison, notes, first), nl=False)
        case "text":
            print_answer(views.comparison_text(comparison, terminal_width(), notes, first))
    if junit_file is not None:
        write_output(junit_file, junit(comparison), page=True)
    broken = comparison.failed
    if broken:
        worse = [one for one in broken if one.answer == "worse"]
        problem = "the candidate is worse than allowed"
        if not worse:
            problem = "whether the candidate is worse than allowed can't be told"
        shown = (worse or broken)[:_MOST_PRINTED]
        raise AnswerIsNo(f"{problem}: {' '.join(map(views.condition_sentence, shown)).rstrip('.')}")
    if comparison.unmeasured:
        raise AnswerIsNo(
            "whether the candidate is worse than allowed can't be told: it has no run of"
            f" {listed(comparison.unmeasured)}; measure it, or give --if-unknown pass"
        )


def junit(comparison: Comparison) -> str:
    """A comparison as JUnit XML. Without conditions each metric is a test that passes."""
    tests = [test for case in comparison.cases for test in _tests(case)]
    for title in comparison.unmeasured:
        sentence = "The candidate has no run of this case."
        test = _test(title, "measured", sentence)
        ET.SubElement(test, "failure", {"type": "unknown", "message": sentence})
        tests.append(test)
    failed, skipped = (
        sum(test.find(result) is not None for test in tests) for result in ("failure", "skipped")
    )
    counts = {"tests": f"{len(tests)}", "failures": f"{failed}", "errors": "0"}
    attributes = {"name": "kvmark compare", **counts, "skipped": f"{skipped}"}
    suites = ET.Element("testsuites", attributes)
    ET.SubElement(suites, "testsuite", attributes).extend(tests)
    ET.indent(suites)
    text: str = ET.tostring(suites, encoding="unicode", xml_declaration=True)
    return text + "\n"


def _tests(case: CaseComparison) -> Iterator[ET.Element]:
    from kvmark.report.views.comparison import condition_sentence, percent, percent_range

    for held in case.held:
        sentence = condition_sentence(held)
        test = _test(case.title, held.condition.text, sentence)
        if held.failed:
            kind = "regression" if held.answer == "worse" else "unknown"
            failure = ET.SubElement(test, "failure", {"type": kind, "message": sentence})
            failure.text = f"Baseline: {case.baseline}. Candidate: {case.candidate}."
        elif held.answer == "can't tell":
            ET.SubElement(test, "skipped", {"message": sentence})
        yield test
    for row in () if case.held else case.rows:
        if row.effect is not None:
            change = f"{percent(row.effect.change)} ({percent_range(row.effect.ratio)})"
            yield _test(case.title, row.metric.name, change)


def _test(title: str, name: str, sentence: str) -> ET.Element:
    """A test case that passed."""
    test = ET.Element("testcase", {"classname": f"kvmark.{title}", "name": name, "time": "0"})
    ET.SubElement(test, "system-out").text = sentence
    return test
