"""A trace becomes a workload that is like it, and such a workload is held against its trace.

`learning` fits the parts, each with what is lost: `keys` the popularity of keys and how soon they
return, by what the engine draws, `sizes` the lengths of values, `arrivals` the rate. `writing`
makes a workload's file of it. `sides` and `likeness` say by how much such a workload differs from
its trace.
"""

from kvmark.learn.learning import Learned, LearnedPart, Likened, learn
from kvmark.learn.likeness import Likeness, TwinFigure, drawn_figures, likeness
from kvmark.learn.sides import AskedCheck, twin_sides
from kvmark.learn.writing import workload_text

__all__ = [
    "AskedCheck",
    "Learned",
    "LearnedPart",
    "Likened",
    "Likeness",
    "TwinFigure",
    "drawn_figures",
    "learn",
    "likeness",
    "twin_sides",
    "workload_text",
]
