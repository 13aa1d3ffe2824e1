"""`kvmark stress help`: the words, in the order of their tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvmark.errors import SpecError
from kvmark.frontends.cassandra_stress.words import COMMANDS, GROUPS, REFUSED_GROUPS, Word
from kvmark.spec.suggest import did_you_mean, shown

_COMMANDS: Final = {
    "write": "writes the predefined table",
    "read": "reads it and checks what it holds",
    "mixed": "both, in shares",
    "counter_write": "raises the predefined table of counters",
    "counter_read": "reads it",
    "user": "the tables and statements of a profile",
    "help": "this, or what is known of a command or an option",
    "version": "the version",
}
_OPTIONS: Final = {
    "-rate": "clients and rate",
    "-pop": "which partitions, and the order in them",
    "-col": "columns of the predefined tables",
    "-insert": "what one operation writes",
    "-schema": "keyspace and tables",
    "-mode": "how nodes are spoken to",
    "-node": "nodes to begin with",
    "-port": "where they listen",
    "-transport": "encryption",
    "-errors": "what follows from a failure",
    "-log": "what is printed, and where",
    "-graph": "a page with tables and figures",
    "-tokenrange": "ranges of token range queries",
}
_LAWS: Final = """\
Laws (DIST):
  EXP(min..max)  EXTREME(min..max,shape)  QEXTREME(min..max,shape,quantas)
  GAUSSIAN(min..max)  GAUSSIAN(min..max,range)  GAUSSIAN(min..max,mean,stdev)
  UNIFORM(min..max)  FIXED(value)  SEQ(min..max); ~ before a name turns it round
"""


def help_text(topic: Sequence[str] = ()) -> str:
    """What is known of a command or an option, or an overview.

    Raises:
        SpecError: there is no such topic.
    """
    if not topic:
        return _overview()
    name = topic[0].lower()
    table = COMMANDS.get(name) or GROUPS.get(name) or GROUPS.get(f"-{name}")
    if table is not None:
        return _described(name, table)
    refused = REFUSED_GROUPS.get(name)
    if refused is not None:
        return f"{name}\n  not carried out: {refused}\n"
    hint = did_you_mean(name, [*COMMANDS, *GROUPS])
    raise SpecError(f"stress help: nothing is known of {shown(topic[0])}{hint}")


def _overview() -> str:
    commands = [f"  {name:<14} {meaning}" for name, meaning in _COMMANDS.items()]
    options = [f"  {name:<14} {meaning}" for name, meaning in _OPTIONS.items()]
    lines = [
        "kvmark stress COMMAND [WORDS] [OPTION WORDS]…",
        "",
        "The command line of cassandra-stress: every word is honoured or refused by name.",
        "",
        "Commands:",
        *commands,
        "",
        "Options:",
        *options,
        "",
        _LAWS,
        "kvmark stress help NAME says the words of a command or an option.",
    ]
    return "\n".join(lines) + "\n"


def _described(name: str, table: Sequence[Word]) -> str:
    width = max(len(word.usage) for word in table)
    return (
        "\n".join([name, *(f"  {word.usage:<{width}}  {_meaning(word)}" for word in table)]) + "\n"
    )


def _meaning(word: Word) -> str:
    if word.refused:
        return f"not carried out: {word.refused}"
    return word.meaning if word.default is None else f"{word.meaning} [{word.default}]"
