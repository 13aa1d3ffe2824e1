"""Experiments: which runs are made one after the other, and what they come to.

The executor, its journal and its servers are the same for all; a design says what comes next. No
run is carried out here (that is `run`), and no figure is made (that is `analysis`).
"""
