"""Texts that nothing prints.

What a user gives for the server alone becomes a `Secret` where it is read. It can be handed on,
kept in other values and compared; whoever prints it, formats it or makes text of it gets stars.
"""

from __future__ import annotations

import hmac


class Secret:
    """A text for whoever it is meant for, and for nobody else."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, to be given to the one whom it is for."""
        return self._text

    def __str__(self) -> str:
        return "***"

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        # How long it takes says nothing of where two texts differ.
        if not isinstance(other, Secret) or type(other) is not type(self):
            return False
        return hmac.compare_digest(_bytes(self._text), _bytes(other.reveal()))

    def __hash__(self) -> int:
        return hash(self._text)


def _bytes(text: str) -> bytes:
    """A text as bytes, whatever a command line had in it."""
    return text.encode("utf-8", "surrogatepass")
