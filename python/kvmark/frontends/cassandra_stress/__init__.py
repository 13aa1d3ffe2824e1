"""cassandra-stress: its command line, profiles, thread ramp, columns and results."""

from typing import Final

from kvmark.frontends import FrontEnd

FRONT_END: Final = FrontEnd(
    "cassandra_stress",
    "stress",
    "Takes the command line of cassandra-stress, and prints what it would print.",
    {"documents": "output", "without_secrets": "grammar", "printed_by_tool": "output"},
)
