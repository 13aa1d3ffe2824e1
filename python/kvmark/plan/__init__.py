"""A user's request becomes a plan: everything is decided.

`model` mirrors the engine's types, `compile` makes a plan of a `RunSpec`.
"""
