"""From what the user asked for to what is done: a plan with nothing left to decide.

`model` mirrors the engine's types, `compile` makes a plan of a `RunSpec`.
"""
