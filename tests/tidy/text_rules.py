"""Rules for any text: line length, leftovers, places of one machine, the vocabulary."""

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass

from findings import Finding, Source

LONGEST_LINE = 100
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
MACHINE = re.compile(r"(?<![\w.])/(root|work|home/\w+|Users/\w+|opt/wheels)(/|\b)")
REGISTRY = re.compile(r"(index|static)\.crates\.io|pypi\.org|pythonhosted\.org|maven\.org|goproxy")
# Words the vocabulary sets aside, with the word that is meant.
WORDS = {
    "qps": (re.compile(r"(?<![a-z])(qps|rps|tps)(?![a-z])", re.IGNORECASE), "rate"),
    "harness": (re.compile(r"\bharness", re.IGNORECASE), "engine"),
    "adapter": (re.compile(r"\badapter", re.IGNORECASE), "driver"),
    "campaign": (re.compile(r"\bcampaign", re.IGNORECASE), "study"),
    "trial": (re.compile(r"\btrials?\b", re.IGNORECASE), "repetition"),
}


def long_lines(source: Source) -> Iterator[Finding]:
    """Lines of code that don't fit side by side on a screen."""
    for number, line in enumerate(source.lines, 1):
        if len(line) > LONGEST_LINE:
            yield source.find(number, f"{len(line)} columns, at most {LONGEST_LINE}")


def leftovers(source: Source) -> Iterator[Finding]:
    """Notes to oneself: they belong into an issue."""
    for number, line in enumerate(source.lines, 1):
        if found := LEFTOVER.search(line):
            yield source.find(number, f"{found[0]} is left over")


def one_machine(source: Source) -> Iterator[Finding]:
    """Paths and package hosts that are true on one machine only."""
    for number, line in enumerate(source.lines, 1):
        if found := MACHINE.search(line) or REGISTRY.search(line):
            yield source.find(number, f"{found[0]} is a place of one machine")


@dataclass(frozen=True)
class Allowed:
    """A word that files may use, because it is another tool's."""

    pattern: str
    word: str

    def covers(self, path: str, word: str) -> bool:
        """Whether the word may stand in the file."""
        return word == self.word and fnmatch.fnmatch(path, self.pattern)


def exceptions(text: str) -> list[Allowed]:
    """The lines `pattern word  # reason` of the allow list."""
    entries = [line.partition("#")[0].split() for line in text.splitlines()]
    return [Allowed(*entry) for entry in entries if entry]


def other_words(source: Source, allowed: list[Allowed]) -> Iterator[Finding]:
    """Words that the vocabulary sets aside."""
    for word, (pattern, meant) in WORDS.items():
        if any(entry.covers(source.path, word) for entry in allowed):
            continue
        for number, line in enumerate(source.lines, 1):
            if pattern.search(line):
                yield source.find(number, f"the vocabulary has no `{word}`: say {meant}")


def unused_exceptions(found: list[Source], allowed: list[Allowed]) -> Iterator[Finding]:
    """Entries of the allow list that nothing needs any more."""
    for entry in allowed:
        pattern = WORDS[entry.word][0]
        users = (source for source in found if entry.covers(source.path, entry.word))
        if not any(pattern.search(source.text) for source in users):
            problem = f"nothing needs the exception `{entry.pattern} {entry.word}` any more"
            yield Finding("tests/tidy/words_allowed.txt", 1, problem)
