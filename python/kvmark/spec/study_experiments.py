"""A study's file whose parts are experiments of any design, each as its command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from kvmark.errors import SpecError
from kvmark.spec.study import NAME
from kvmark.spec.suggest import did_you_mean, shown
from kvmark.spec.url import SystemName
from kvmark.spec.yaml_file import Document, Strict

__all__ = ["EXPERIMENTS", "ExperimentsFile", "experiments_of"]

EXPERIMENTS: Final = "experiments"
"""The key by which such a file is known."""
COMMANDS: Final = ("ab", "app", "capacity", "run", "stress", "study", "ycsb")
_SYSTEM: Final = "{system}"


class _ExperimentsSpec(Strict):
    """The file."""

    name: Annotated[str, Field(pattern=NAME)]
    question: Annotated[str, Field(min_length=1)]
    system: str | None = None
    """What `{system}` stands for in the words."""
    experiments: Annotated[Mapping[str, Annotated[str, Field(min_length=1)]], Field(min_length=1)]


@dataclass(frozen=True)
class ExperimentsFile:
    """Experiments by their titles, in the order of the file."""

    name: str
    question: str
    #: The words after `kvmark`, the command first; `{system}` isn't replaced yet.
    experiments: Mapping[str, tuple[str, ...]]
    system: str | None
    document: Document

    def words(self, title: str, system: SystemName | None) -> tuple[str, ...]:
        """The words of an experiment on a system, or on the one that the file names.

        Raises:
            SpecError: neither names one.
        """
        named = self.system if system is None else system.reveal()
        words = self.experiments[title]
        if named is None and any(_SYSTEM in word for word in words):
            raise self.problem(
                title, f"{_SYSTEM} stands for no system: add the key 'system', or give --system"
            )
        return tuple(_with_system(word, named or "") for word in words)

    def problem(self, title: str, sentence: str) -> SpecError:
        """A complaint about an experiment, with its place."""
        return self.document.problem(f"{title}: {sentence}", EXPERIMENTS, title)


def _with_system(word: str, named: str) -> str:
    """A word with the system; several words in one are taken apart once more by their command."""
    several = any(char.isspace() for char in word)
    return word.replace(_SYSTEM, shlex.quote(named) if several else named)


def experiments_of(document: Document) -> ExperimentsFile | None:
    """The experiments of a file; none where it is a study of cases.

    Raises:
        SpecError: something in it is wrong; says where.
    """
    if not isinstance(document.value, Mapping) or EXPERIMENTS not in document.value:
        return None
    spec = document.check(_ExperimentsSpec)
    found: dict[str, tuple[str, ...]] = {}
    file = ExperimentsFile(spec.name, spec.question, found, spec.system, document)
    for title, text in spec.experiments.items():
        try:
            words = tuple(shlex.split(text))
        except ValueError as problem:
            raise file.problem(title, f"the words can't be read: {problem}".lower()) from None
        words = words[1:] if words[:1] == ("kvmark",) else words
        if not words or words[0] not in COMMANDS:
            first = shown(words[0]) if words else "nothing"
            hint = did_you_mean(words[0], COMMANDS) if words else ""
            sentence = f"{first} is no experiment{hint or ': begin with ' + ', '.join(COMMANDS)}"
            raise file.problem(title, sentence)
        options = {word.partition("=")[0] for word in words}
        if words[0] == "run" and not {"--sweep", "--repetitions"} & options:
            raise file.problem(title, "a run is one with --repetitions or --sweep: add one of them")
        found[title] = words
    return file
