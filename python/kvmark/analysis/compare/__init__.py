"""Runs beside runs: what may be compared, by which metric, and whether it differs.

One run alone is in `summary`.
"""
