"""Whether a run or a case may be used: the rules, their evidence, and objectives.

The figures themselves are in `summary`.
"""
