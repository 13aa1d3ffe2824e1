"""Carries out one plan: in a process that generates load, or on the machines of a fleet.

What the records say of it is in `records`, and what they mean in `analysis`.
"""
