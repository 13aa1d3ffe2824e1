"""What may be wished of any testbed."""

from __future__ import annotations

import re

from kvmark.errors import UsageError

__all__ = ["check_password", "check_setting"]


def check_setting(name: str, value: str, names: re.Pattern[str]) -> None:
    """Refuses a setting whose name isn't one, or whose value isn't one line.

    Raises:
        UsageError: it is refused.
    """
    if not names.fullmatch(name):
        raise UsageError(f"set: '{name}' is not the name of a setting; write --set key=value")
    if not value.isprintable():
        raise UsageError(f"set: the value of {name} must be one line of printable characters")


def check_password(password: str, longest_bytes: int) -> None:
    """Refuses a password that a server can't keep.

    Raises:
        UsageError: it is refused.
    """
    found_bytes = len(password.encode())
    if not 0 < found_bytes <= longest_bytes:
        raise UsageError(f"the password must have 1 to {longest_bytes} bytes, not {found_bytes}")
    if not password.isprintable():
        raise UsageError("the password must be one line of printable characters")
