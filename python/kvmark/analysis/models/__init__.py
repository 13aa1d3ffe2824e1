"""Laws and costs that are fitted to several runs.

The mathematics is in `kvmark.stats`.
"""
