"""The URL of a system: `rocksdb:PATH?option=value`, `redis://user:password@host:6379/0`, `null:`.

Options stay raw text here: the driver alone knows them and checks them when it opens. Only percent
escapes are resolved; `+` is a plus sign.

A password is no option: plans are kept. It travels in `SystemUrl.password`, and the option
`password_env` names the environment variable in which the driver will find it. The text that is
shown and kept has neither user nor password: what a user typed is a `SystemName` from the first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote

from kvmark.drivers import Location, Scheme, schemes
from kvmark.errors import SpecError
from kvmark.secret import Secret
from kvmark.spec.suggest import did_you_mean, is_text, shown, without_credentials

PASSWORD_VARIABLE: Final = "KVMARK_URL_PASSWORD"  # noqa: S105 - a name
"""Environment variable of kvmark's own process that carries a URL's password to the driver."""


# Not `token_aware`, `initial_token` or `authenticator`, which are none.
_SECRET: Final = re.compile(
    r"pass(word|wd|phrase)|pass$|masterauth|(^|[_-])(secret|credentials?)([_-]|$)"
    r"|(^|[_-])(auth|access|api|bearer|session)[_-](token|key)$|^(auth|token)$",
    re.IGNORECASE,
)
# Bindings of YCSB name theirs as they like: `s3.secretKey`, `azure.key`, `foo.apikey`.
_SECRET_OF_BINDING: Final = re.compile(r"(key|token|secret|pass|pwd|credentials?)$", re.IGNORECASE)
_SECRET_VALUE: Final = re.compile(r"://.*@|(pass\w*|pwd|secret|token)=", re.IGNORECASE)
_PORT: Final = re.compile(r"\d{1,5}(/.*)?")
# Options that name the place of a secret, and have none.
_WHERE: Final = re.compile(r".*[_-](env|file)", re.IGNORECASE)
_BEFORE_OPTIONS: Final = {Location.FOLDER: ("path", "folder"), Location.CLASS: ("class", "class")}
"""The option that a place is, and its noun."""


class SystemName(Secret):
    """A system as a user names it: a URL, or `up:NAME`. Printed it has no user and password."""

    __slots__ = ()

    def __str__(self) -> str:
        return without_credentials(self.reveal())


def system_name(value: Any) -> Any:
    """A user's text as the name of a system; what is none yet, or one already, as it is."""
    return SystemName(value) if isinstance(value, str) else value


@dataclass(frozen=True)
class SystemUrl:
    """A system to measure, as the user named it."""

    driver: str
    """The driver's name in the registry."""
    options: Mapping[str, str]
    """The driver's options as raw text; a folder is `path`, hosts are `address`."""
    text: str
    """The URL to show and to keep, without credentials."""
    password: Secret | None = None
    """What the variable `PASSWORD_VARIABLE` must hold while the driver opens."""

    def __str__(self) -> str:
        return self.text


def parse_system_url(text: str) -> SystemUrl:
    """Reads a system URL.

    Raises `SpecError` for an unknown scheme, a missing folder, and an option without a value or
    given twice.
    """
    if not is_text(text):
        raise SpecError(f"{shown(text)} is not UTF-8 text, as a system's URL must be")
    name, colon, rest = text.partition(":")
    if not colon and name in schemes():
        raise SpecError(f"{shown(text)} lacks its colon: write {schemes()[name].example}")
    if not colon:
        usual: dict[str, str] = {}
        for one in schemes().values():
            usual.setdefault(one.driver.name, one.example)
        forms = ", ".join(usual.values())
        raise SpecError(f"{shown(text)} is not the URL of a system; write one of {forms}")
    scheme = schemes().get(name)
    if scheme is None and _PORT.fullmatch(rest):
        servers = [one for one in schemes().values() if one.driver.place is Location.HOSTS]
        forms = " or ".join(f"{one.beginning}{text}" for one in servers if not one.implied)
        raise SpecError(f"{shown(text)} is an address without a kind of system: write {forms}")
    if scheme is None:
        hint = did_you_mean(name, schemes())
        raise SpecError(f"unknown kind of system {shown(name)}{hint}")
    place, who = scheme.driver.place, ""
    if place is Location.HOSTS:
        # A password can have any character: the last @ ends it. In an option it is written %40.
        slashes = "//" if rest.startswith("//") else ""
        who, _, rest = rest.removeprefix("//").rpartition("@")
        rest = slashes + rest
    path, _, query = rest.partition("?")
    options, password = _options(query, name), None
    if place in _BEFORE_OPTIONS:
        options = _with_place(options, path, scheme, name)
    elif place is Location.HOSTS:
        options, password = _with_hosts(options, who, path, scheme, name)
    elif path:
        raise SpecError(f"{name}: takes options only, like {scheme.example}, not {shown(path)}")
    shown_text = without_credentials(text) if place is Location.HOSTS else text
    return SystemUrl(scheme.driver.name, MappingProxyType(options), shown_text, password)


def check_options(options: Mapping[str, Any], name: str) -> None:
    """Refuses an option that holds a secret: options are kept."""
    has_own_names = name in schemes() and schemes()[name].driver.place is Location.CLASS
    for key, value in options.items():
        is_secret = _SECRET.search(key) or (
            has_own_names and (_SECRET_OF_BINDING.search(key) or _SECRET_VALUE.search(str(value)))
        )
        if is_secret and not _WHERE.fullmatch(key):
            option = key if has_own_names else "password"
            place = f"name its place with {option}_env or {option}_file"
            if key == "jvm":
                place = "give it in the environment variable JAVA_TOOL_OPTIONS"
            raise SpecError(f"{name}: a password is no option; {place}")


def _with_place(options: dict[str, str], path: str, scheme: Scheme, name: str) -> dict[str, str]:
    option, noun = _BEFORE_OPTIONS[scheme.driver.place]
    if not path:
        raise SpecError(f"{name}: needs a {noun}; write {scheme.example}")
    if "\0" in path:
        raise SpecError(f"{name}: a {noun}'s name cannot hold a NUL character")
    if option in options:
        raise SpecError(f"{name}: the {noun} stands after the colon, not in the option '{option}'")
    return {option: path, **options}


def _with_hosts(
    options: dict[str, str], who: str, path: str, scheme: Scheme, name: str
) -> tuple[dict[str, str], Secret | None]:
    """The options with those that stand before the question mark, and the password apart."""
    place = path.removeprefix("//")
    if not place or place == path:
        raise SpecError(f"{name}: needs a host; write {scheme.example}")
    user, colon, password = who.partition(":")
    hosts, slash, inner = place.partition("/")
    # Without a host the path is that of a Unix socket.
    found = {"address": hosts} if hosts else {"address": f"{slash}{unquote(inner)}"}
    if hosts and inner and scheme.driver.path:
        found[scheme.driver.path] = unquote(inner)
    if user:
        found["username"] = unquote(user)
    if colon and password:
        found["password_env"] = PASSWORD_VARIABLE
    found |= scheme.implied
    if "address" in options:
        raise SpecError(f"{name}: the host stands after the colon, not in the option 'address'")
    if "password_env" in found and "password_file" in options:
        raise SpecError(f"{name}: the password is given twice; leave it out of the URL")
    twice = next((key for key in found if key in options), None)
    if twice is not None:
        raise SpecError(f"{name}: {twice} is given twice; leave the option out")
    return {**found, **options}, Secret(unquote(password)) if colon and password else None


def _options(query: str, scheme: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in query.split("&") if query else ():
        key, equals, value = part.partition("=")
        if not key or not equals:
            raise SpecError(f"{scheme}: option {shown(part)} needs a value; write option=value")
        if key in options:
            raise SpecError(f"{scheme}: option {shown(key)} is given twice")
        options[key] = unquote(value)
    check_options(options, scheme)
    return options
