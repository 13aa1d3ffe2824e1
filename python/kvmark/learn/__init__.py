"""A trace becomes a workload that is like it, and such a workload is held against its trace.

`learning` fits the parts, each with what is lost: `keys` the popularity of keys and how soon they
return, by what the engine draws, `sizes` the lengths of values, `arrivals` the rate. `writing`
makes a workload's file of it. `sides` and `likeness` say by how much such a workload differs from
its trace.
"""

from kvmark.learn.learning import Learned, LearnedPart, Likened, learn, workload_text
from kvmark.learn.likeness import (
    AskedCheck,
    Likeness,
    TwinFigure,
    drawn_figures,
    likeness,
    twin_sides,
)
