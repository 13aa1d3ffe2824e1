"""Records and mathematics make answers: summary, repetitions together, verdict."""

from kvmark.analysis.aggregate import CaseSummary, aggregate, merged_times
from kvmark.analysis.around_faults import Stretch, around_faults
from kvmark.analysis.case_verdict import CaseVerdict, case_verdict
from kvmark.analysis.course import failure_course, resource_course, time_spread
from kvmark.analysis.fault_effects import FaultEffect, fault_effects
from kvmark.analysis.faults import FaultSpan, fault_spans
from kvmark.analysis.imported import (
    ImportedCurve,
    ImportedRow,
    imported_curves,
    imported_rows,
    imported_steps,
    imported_throughput,
)
from kvmark.analysis.kept import known_judgement, known_line, known_verdict, save_verdict
from kvmark.analysis.published import YCSB_SOURCE, Published, published
from kvmark.analysis.reasons import LAG_FLOORS, RULES, Level, Reason, Rule, reasons_markdown
from kvmark.analysis.summary import (
    OperationSummary,
    PhaseSummary,
    Quantile,
    Summary,
    SweepSummary,
    Times,
    quantile_curve,
    summarize,
)
from kvmark.analysis.time_steps import KindSteps, TimeSteps, response_steps
from kvmark.analysis.timeline import Timeline, TimelineFault, timelines
from kvmark.analysis.verdict import Verdict, judge
from kvmark.analysis.ycsb_sequence import SequenceRow, ycsb_sequence
from kvmark.records import Case, Judgement

__all__ = [
    "LAG_FLOORS",
    "RULES",
    "YCSB_SOURCE",
    "Case",
    "CaseSummary",
    "CaseVerdict",
    "FaultEffect",
    "FaultSpan",
    "ImportedCurve",
    "ImportedRow",
    "Judgement",
    "KindSteps",
    "Level",
    "OperationSummary",
    "PhaseSummary",
    "Published",
    "Quantile",
    "Reason",
    "Rule",
    "SequenceRow",
    "Stretch",
    "Summary",
    "SweepSummary",
    "TimeSteps",
    "Timeline",
    "TimelineFault",
    "Times",
    "Verdict",
    "aggregate",
    "around_faults",
    "case_verdict",
    "failure_course",
    "fault_effects",
    "fault_spans",
    "imported_curves",
    "imported_rows",
    "imported_steps",
    "imported_throughput",
    "judge",
    "known_judgement",
    "known_line",
    "known_verdict",
    "merged_times",
    "published",
    "quantile_curve",
    "reasons_markdown",
    "resource_course",
    "response_steps",
    "save_verdict",
    "summarize",
    "time_spread",
    "timelines",
    "ycsb_sequence",
]
