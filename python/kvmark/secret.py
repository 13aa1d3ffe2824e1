"""Texts that are never printed.

Credentials become a `Secret` where they are read. A `Secret` can be passed on, stored in other
values and compared; printing or formatting it gives stars.
"""

from __future__ import annotations

import hmac


class Secret:
    """A text that is hidden in output."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for its recipient."""
        return self._text

    def __str__(self) -> str:
        return "***"

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        # In constant time, so that the duration doesn't show where two texts differ.
        if not isinstance(other, Secret) or type(other) is not type(self):
            return False
        return hmac.compare_digest(_bytes(self._text), _bytes(other.reveal()))

    def __hash__(self) -> int:
        return hash(self._text)


def _bytes(text: str) -> bytes:
    """A text as bytes, also with surrogates of a command line."""
    return text.encode("utf-8", "surrogatepass")
