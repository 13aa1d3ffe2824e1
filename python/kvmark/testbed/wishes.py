"""What may be wished of any testbed."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from kvmark.errors import UsageError
from kvmark.secret import Secret

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["check_password", "check_setting", "kept_wishes"]

_NOT_KEPT: Final = frozenset({"name", "password"})


def kept_wishes(wanted: DataclassInstance, **decided: Any) -> dict[str, Any]:
    """What a testbed is made with, to be compared when it is brought back; no secret in it.

    Args:
        wanted: what was wished.
        decided: what was left open in it, as it was decided, and a proxy's target as text.

    Returns:
        Values that JSON has, by the names of the wishes; settings by name.
    """
    values = {name: value for name, value in asdict(wanted).items() if name not in _NOT_KEPT}
    if "settings" in values:
        values["settings"] = dict(values["settings"])
    kept: dict[str, Any] = json.loads(json.dumps({**values, **decided}))
    return kept


def check_setting(name: str, value: str, names: re.Pattern[str]) -> None:
    """Refuses a setting whose name isn't one, or whose value isn't one line.

    Raises:
        UsageError: it is refused.
    """
    if not names.fullmatch(name):
        raise UsageError(f"set: '{name}' is not the name of a setting; write --set key=value")
    if not value.isprintable():
        raise UsageError(f"set: the value of {name} must be one line of printable characters")


def check_password(password: Secret, longest_bytes: int) -> None:
    """Refuses a password that a server can't keep.

    Raises:
        UsageError: it is refused.
    """
    text = password.reveal()
    found_bytes = len(text.encode())
    if not 0 < found_bytes <= longest_bytes:
        raise UsageError(f"the password must have 1 to {longest_bytes} bytes, not {found_bytes}")
    if not text.isprintable():
        raise UsageError("the password must be one line of printable characters")
