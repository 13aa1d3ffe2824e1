"""The program with all its commands: docs/reference/commands.md is generated from it."""

from kvmark.cli.program import program
from kvmark.cli.registry import WholeCommands

app = program()
app.info.cls = WholeCommands
