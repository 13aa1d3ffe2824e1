"""Records and mathematics make answers: summary, repetitions together, verdict."""

from kvmark.analysis.case_table import (
    YCSB_SOURCE,
    Published,
    SequenceRow,
    published,
    ycsb_sequence,
)
from kvmark.analysis.imported import (
    Curve,
    ImportedRow,
    imported_curves,
    imported_rows,
    imported_steps,
    imported_throughput,
)
from kvmark.analysis.summary.aggregate import CaseSummary, aggregate, merged_times
from kvmark.analysis.summary.faults import FaultEffect, FaultSpan, fault_effects, fault_spans
from kvmark.analysis.summary.run import (
    OperationSummary,
    PhaseSummary,
    Quantile,
    Summary,
    SweepSummary,
    Times,
    quantile_curve,
    summarize,
)
from kvmark.analysis.summary.time_steps import KindSteps, TimeSteps, response_steps
from kvmark.analysis.summary.timeline import (
    Stretch,
    Timeline,
    TimelineFault,
    around_faults,
    failure_course,
    resource_course,
    time_spread,
    timelines,
)
from kvmark.analysis.verdict.case_verdict import CaseVerdict, case_verdict
from kvmark.analysis.verdict.judge import (
    Verdict,
    judge,
    known_judgement,
    known_line,
    known_verdict,
    save_verdict,
)
from kvmark.analysis.verdict.rules import LAG_FLOORS, RULES, Level, Reason, Rule, reasons_markdown
from kvmark.records import Case, Judgement

__all__ = [
    "LAG_FLOORS",
    "RULES",
    "YCSB_SOURCE",
    "Case",
    "CaseSummary",
    "CaseVerdict",
    "Curve",
    "FaultEffect",
    "FaultSpan",
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
