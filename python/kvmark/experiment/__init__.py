"""Experiments: sequences of runs that answer a question.

The executor and its journal serve all experiments; a design decides which run is next. `run`
executes runs, `analysis` computes figures.
"""
