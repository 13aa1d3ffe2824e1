"""What is seen while a command goes on.

Answers are printed by `cli.output`.
"""
