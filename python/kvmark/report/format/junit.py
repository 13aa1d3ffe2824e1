"""A comparison as JUnit's XML, which build servers show: one test per case and condition."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from kvmark.analysis.compare.comparison import CaseComparison, Comparison
from kvmark.analysis.compare.thresholds import Held
from kvmark.report.views.comparison import held_sentence, percent, percent_range

__all__ = ["junit"]


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
