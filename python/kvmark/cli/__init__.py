"""The words a user types. Answers go to standard output, everything else to standard error."""

from kvmark.cli.main import main

__all__ = ["main"]
