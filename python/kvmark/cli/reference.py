"""The program with all its commands: docs/reference/commands.md is generated from it."""

from kvmark.cli.commands import WholeCommands
from kvmark.cli.main import program

__all__ = ["app"]

app = program()
app.info.cls = WholeCommands
