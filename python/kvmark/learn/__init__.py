"""Learns a workload from a trace, and compares such a workload with its trace.

`learning` fits the parts, each with its losses: `keys` the popularity and reuse of keys, by the
engine's draws, sizes of values, and arrivals. `twin_check` compares a workload with its trace.
"""

from kvmark.learn.learning import Learned, LearnedPart, learn, workload_text
from kvmark.learn.twin_check import TwinCheck, TwinFigure, check_twin, drawn_figures, twin_sides
