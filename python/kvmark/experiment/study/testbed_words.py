"""The key `testbed` of a study: options of `kvmark up` for the servers that the study starts.

They are written without dashes, with the defaults of that command. Levels of factors may set them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, create_model, model_validator

from kvmark.spec.yaml_file import Count, Strict, at_key
from kvmark.testbed.system import SYSTEMS, YES_OR_NO, System, option_specs

# Settings of servers whose value is a password.
_SECRET: Final = re.compile(r"(pass|password|auth|^user)$")


def _text(value: object) -> object:
    """A setting's value as the text after `--set key=`."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


_Text = Annotated[str, BeforeValidator(_text)]
_TYPES: Final[Mapping[Any, Any]] = {int: Count, str: _Text, YES_OR_NO: bool}


def _words_of(system: System) -> dict[str, Any]:
    """The options of a kind of system, with their types."""
    wishes = (wish for wish in option_specs(system.options).values() if wish.in_studies)
    return {wish.name: _TYPES.get(wish.type, wish.type) for wish in wishes}


_OF_SYSTEMS: Final = {name: _words_of(each) for name, each in SYSTEMS.items() if each.driver}


class _TestbedWords(Strict):
    """Servers that the study starts and stops, with options of `kvmark up`."""

    system: str
    tls: bool = False
    network: bool = False
    cores: tuple[int, ...] = ()
    set: Mapping[str, _Text] = {}

    @model_validator(mode="after")
    def _fits_its_system(self) -> Self:
        for name in self.said():
            if name not in _OF_SYSTEMS[self.system]:
                raise at_key(name, f"{name} is no option of {self.system}; leave it out")
        return self

    @model_validator(mode="after")
    def _holds_no_secret(self) -> Self:
        secret = next((name for name in self.set if _SECRET.search(name)), None)
        if secret is not None:
            raise at_key(
                ("set", secret),
                f"{secret} is a secret, and a study is kept: start the servers with kvmark up"
                " --password-file and name them with system: up:NAME",
            )
        return self

    def said(self) -> dict[str, Any]:
        """The given options of the kind of system."""
        names = sorted({name for words in _OF_SYSTEMS.values() for name in words})
        return {name: value for name in names if (value := getattr(self, name)) is not None}


if TYPE_CHECKING:
    TestbedWords = _TestbedWords
else:
    TestbedWords = create_model(
        "TestbedWords",
        __base__=_TestbedWords,
        system=(Literal[tuple(_OF_SYSTEMS)], ...),
        **{
            name: (kind | None, None)
            for words in _OF_SYSTEMS.values()
            for name, kind in words.items()
        },
    )
