"""One file a command, and beside some of them what they need alone.

The list of all is `cli.registry`; what commands share lies beside it.
"""
