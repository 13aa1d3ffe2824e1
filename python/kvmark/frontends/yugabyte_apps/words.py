"""Words of a `kvmark app` as values: the application, and what each flag was given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kvmark.errors import SpecError
from kvmark.frontends.yugabyte_apps.flags import APPS, FLAGS, App, Flag
from kvmark.secret import Secret
from kvmark.spec.quantity import duration_ns, stall_limit_ns
from kvmark.spec.suggest import did_you_mean, shown, without_credentials
from kvmark.spec.url import SystemName

Value = str | int | float | bool | Secret
_REPEATED: Final = ("observe", "tag")
_TIMES: Final = {"duration": duration_ns, "limit": stall_limit_ns}


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for. A flag that wasn't given has no entry."""

    app: App | None
    """None where only help was asked for."""
    given: Mapping[str, Value]
    several: Mapping[str, tuple[str, ...]]
    """Flags that can be given more than once."""

    def has(self, name: str) -> bool:
        """Whether a flag was given."""
        return name in self.given

    def whole(self, name: str) -> int | None:
        """A flag's whole number."""
        value = self.given.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def number(self, name: str) -> float | None:
        """A flag's number."""
        value = self.given.get(name)
        return float(value) if isinstance(value, int | float) else None

    def text(self, name: str) -> str | None:
        """A flag's text."""
        value = self.given.get(name)
        return value if isinstance(value, str) else None

    def secret(self, name: str) -> Secret | None:
        """A flag's text that nothing prints."""
        value = self.given.get(name)
        return value if isinstance(value, Secret) else None

    def system(self, name: str) -> SystemName | None:
        """A flag's system."""
        value = self.given.get(name)
        return value if isinstance(value, SystemName) else None

    def plain(self) -> dict[str, str | int | float | bool]:
        """What was given, as it may be kept."""
        return {
            name: str(value) if isinstance(value, Secret) else value
            for name, value in self.given.items()
        }

    @property
    def idle(self) -> tuple[str, ...]:
        """What was given that changes nothing, each with the reason."""
        reasons = ((name, FLAGS[name].idle) for name in self.given)
        unused = [f"--{name} changes nothing: {why}" for name, why in reasons if why]
        return (*unused, *self._useless())

    def _useless(self) -> tuple[str, ...]:
        if self.app is None:
            return ()
        name = self.app.name
        return tuple(
            f"--{flag} changes nothing: {name} has no use for it"
            for flag in self.given
            if name not in FLAGS[flag].apps
        )


def parse_words(words: Sequence[str]) -> Asked:
    """Reads the words behind `kvmark app`.

    Raises:
        SpecError: a word isn't a flag, a flag lacks its value, or values contradict each other.
    """
    names: list[str] = []
    given: dict[str, Value] = {}
    several: dict[str, tuple[str, ...]] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            names.append(word)
            continue
        flag, value = _flag(word, rest)
        if flag.name in _REPEATED:
            several[flag.name] = (*several.get(flag.name, ()), str(value))
        elif flag.name in given:
            raise SpecError(f"--{flag.name} is given twice; leave one of them out")
        given[flag.name] = value
    app = _app(names, given)
    asked = Asked(app, MappingProxyType(given), MappingProxyType(several))
    if app is None and not asked.has("help"):
        known = ", ".join(APPS)
        raise SpecError(f"app needs the name of an application: give one of {known}")
    return asked


def without_secrets(words: Sequence[str]) -> tuple[str, ...]:
    """The arguments with stars for each secret, and without the credentials of systems."""
    found: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        flag = FLAGS.get(name) if word.startswith("-") else None
        if flag is None or flag.takes == "nothing":
            found.append(without_credentials(word))
        elif equals:
            found.append(word.removesuffix(value) + _kept(flag, value))
        else:
            found += [word, *(_kept(flag, one) for one in rest[:1])]
            rest = rest[1:]
    return tuple(found)


def _kept(flag: Flag, text: str) -> str:
    return str(Secret(text)) if flag.takes == "secret" else without_credentials(text)


def _flag(word: str, rest: list[str]) -> tuple[Flag, Value]:
    name, equals, value = word.lstrip("-").partition("=")
    name = "quiet" if word == "-q" else "help" if word == "-h" else name
    flag = FLAGS.get(name)
    if flag is None:
        raise SpecError(f"there is no flag {shown('--' + name)}{_advice(name)}")
    if flag.takes == "nothing":
        if equals:
            raise SpecError(f"--{name} takes no value; leave out {shown('=' + value)}")
        return flag, True
    if not equals:
        if not rest:
            raise SpecError(f"--{name} needs a value; write --{name} VALUE")
        value = rest.pop(0)
    return flag, _value(flag, value)


def _advice(name: str) -> str:
    hint = did_you_mean(name, FLAGS)
    return hint or "; see kvmark app --help"


def _value(flag: Flag, text: str) -> Value:
    try:
        match flag.takes:
            case "whole":
                number: int | float = int(text)
            case "number":
                number = float(text)
                if not math.isfinite(number):
                    raise ValueError
            case "duration" | "limit":
                number = _TIMES[flag.takes](text)
            case _ if not text:
                raise ValueError
            case "secret":
                return Secret(text)
            case "system":
                return SystemName(text)
            case _:
                return text
    except SpecError as problem:
        raise SpecError(f"--{flag.name}: {problem.message}") from None
    except ValueError:
        kind = {"whole": "a whole number", "number": "a number"}.get(flag.takes, "a text")
        raise SpecError(f"--{flag.name}: {shown(text)} is not {kind}") from None
    if number < flag.least:
        raise SpecError(f"--{flag.name}: must be at least {flag.least}, not {text}")
    if number > flag.most:
        raise SpecError(f"--{flag.name}: must be at most {flag.most}, not {text}")
    return number


def _app(names: Sequence[str], given: Mapping[str, Value]) -> App | None:
    workload = given.get("workload")
    if isinstance(workload, str):
        names = [*names, workload] if workload not in names else names
    if len(names) > 1:
        raise SpecError(f"{shown(names[1])} is one word too many; name one application")
    if not names:
        return None
    app = APPS.get(names[0])
    if app is None:
        raise SpecError(f"there is no application {shown(names[0])}{did_you_mean(names[0], APPS)}")
    return app
