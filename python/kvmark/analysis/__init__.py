"""Records and mathematics make answers: summary, repetitions together, verdict."""

from kvmark.analysis.aggregate import CaseSummary, aggregate, merged_times
from kvmark.analysis.faults import FaultSpan, fault_spans
from kvmark.analysis.published import YCSB_SOURCE, Published, published
from kvmark.analysis.reasons import RULES, Level, Reason, Rule, reasons_markdown
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
from kvmark.analysis.verdict import (
    Judgement,
    Verdict,
    combine,
    judge,
    save_verdict,
    saved_judgement,
    worst,
)
from kvmark.analysis.ycsb_sequence import Case, SequenceRow, case_of, ycsb_sequence

__all__ = [
    "RULES",
    "YCSB_SOURCE",
    "Case",
    "CaseSummary",
    "FaultSpan",
    "Judgement",
    "Level",
    "OperationSummary",
    "PhaseSummary",
    "Published",
    "Quantile",
    "Reason",
    "Rule",
    "SequenceRow",
    "Summary",
    "SweepSummary",
    "Times",
    "Verdict",
    "aggregate",
    "case_of",
    "combine",
    "fault_spans",
    "judge",
    "merged_times",
    "published",
    "quantile_curve",
    "reasons_markdown",
    "save_verdict",
    "saved_judgement",
    "summarize",
    "worst",
    "ycsb_sequence",
]
