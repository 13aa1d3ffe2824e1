"""How wishes of a testbed are written: as options of `kvmark up`, as words of a study's `testbed`.

A system's `Wanted` says it: a field annotated with a `Word` is one. What all servers may have in
common, `password`, `tls`, `network` and `cores`, is understood where there is a field of that name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    get_args,
    get_origin,
    get_type_hints,
)

from kvmark.errors import SpecError, UsageError
from kvmark.secret import Secret
from kvmark.spec.quantity import size_bytes

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

YES_OR_NO: Final = Literal["yes", "no"]
"""How some servers write what is true; in a study it may be true or false."""
_SIZES: Final = {unit + end: 1024**n for n, unit in enumerate("kmg", 1) for end in ("", "b", "ib")}

_NOT_KEPT: Final = frozenset({"name", "password"})


@dataclass(frozen=True, slots=True)
class Word:
    """What is said of one field."""

    help: str
    """What it is; follows the system's name and a colon."""
    metavar: str | None = None
    name: str | None = None
    """As it is written, where the field has another name."""
    typed: Any = None
    """The type of what is written, where the field has another."""
    read: Callable[[str], Any] | None = None
    """Makes the field's value of the text; raises `UsageError`."""
    least: int | None = None
    in_studies: bool = True


@dataclass(frozen=True, slots=True)
class Wish:
    """A field of a system's `Wanted` and its word."""

    field: str
    word: Word
    written: str
    type: Any
    """Of what is written."""
    default: Any
    """As it would be written; None for none."""
    is_required: bool

    def read(self, value: Any) -> Any:
        """The field's value."""
        return self.word.read(value) if self.word.read and isinstance(value, str) else value


def wishes_of(wanted: type[Any]) -> Mapping[str, Wish]:
    """The fields that have a word, by their names."""
    hints = get_type_hints(wanted, include_extras=True)
    found = {}
    for field in fields(wanted):
        if get_origin(hints[field.name]) is not Annotated:
            continue
        kept, word = get_args(hints[field.name])
        default = None if field.default is MISSING else field.default
        if word.typed is YES_OR_NO:
            default = "yes" if default else "no"
        found[field.name] = Wish(
            field=field.name,
            word=word,
            written=word.name or field.name,
            type=word.typed or _but_none(kept),
            default=None if default == () else default,
            is_required=field.default is MISSING,
        )
    return found


def _but_none(kept: Any) -> Any:
    """The type without None."""
    others = [one for one in get_args(kept) if one is not NoneType]
    return others[0] if NoneType in get_args(kept) else kept


def read_size(name: str, text: str) -> int:
    """A size in bytes as Java and memcached write it: `512K`, `64M`, `2G`, of 1024 each.

    Args:
        name: the option it is the value of, for the error.
        text: the size.

    Raises:
        SpecError: it can't be read.
    """
    try:
        return size_bytes(text, _SIZES, "512M or 2G")
    except SpecError as problem:
        raise SpecError(f"{name}: {problem}") from None


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
