"""cassandra-stress's command line and its user profiles, as values.

Every word is honoured or refused by name: nothing is passed over. `words` holds the words
themselves, from which the line is read and the help is written.
"""

from kvmark.spec.stress.command import StressSpec, read_stress
from kvmark.spec.stress.help import help_text

__all__ = ["StressSpec", "help_text", "read_stress"]
