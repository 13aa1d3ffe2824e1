"""The command of another tool: what its options announce, and the results that it leaves."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final

from kvmark.errors import ImportFileError
from kvmark.imports.reading import Collector
from kvmark.imports.recognition import read_file
from kvmark.records.audit import AnnouncedLoad


@dataclass(frozen=True, slots=True)
class _ToolOptions:
    """The options that announce a load, and their defaults."""

    clients: tuple[str, ...] = ()
    clients_default: int = 0
    threads: tuple[str, ...] = ()
    threads_default: int = 1
    records: tuple[str, ...] = ()
    rate_of_client: tuple[str, ...] = ()
    rate: tuple[str, ...] = ()
    results: str = ""
    """The option with which the tool writes results that can be imported."""


_TOOLS: Final = {
    "memtier_benchmark": _ToolOptions(
        ("-c", "--clients"), 50, ("-t", "--threads"), 4, ("--key-maximum",), ("--rate-limiting",),
        results="--json-out-file=FILE",
    ),
    "redis-benchmark": _ToolOptions(("-c",), 50, records=("-r",), results="--csv"),
    # Threads share the connections of a driver of CQL, so that no number of them is announced.
    "cassandra-stress": _ToolOptions(rate=("fixed", "throttle")),
    "latte": _ToolOptions(rate=("-r", "--rate"), results="--output=FILE"),
}  # fmt: skip


def announced_load(words: Sequence[str]) -> AnnouncedLoad:
    """The load that the options of a known tool announce."""
    for tool, rest in _tools(words):
        clients = _number(rest, tool.clients, tool.clients_default) or 0
        clients *= _number(rest, tool.threads, tool.threads_default) or 0
        rate = (_number(rest, tool.rate_of_client) or 0) * clients or _number(rest, tool.rate)
        return AnnouncedLoad(clients or None, _number(rest, tool.records), rate or None)
    return AnnouncedLoad()


def results_option(words: Sequence[str]) -> str:
    """The option with which a known tool writes its results; empty for others."""
    return next((tool.results for tool, _ in _tools(words)), "")


def read_results(words: Sequence[str], output: Path, since_ns: int) -> Collector | None:
    """The results in a file that the command names and has written, or in its output."""
    named = (Path(word.rpartition("=")[2]) for word in flat_words(words))
    written = (path for path in named if path.is_file() and path.stat().st_mtime_ns >= since_ns)
    for path in (*written, output):
        with suppress(ImportFileError):
            return read_file(path)
    return None


def flat_words(words: Sequence[str]) -> list[str]:
    """The words, and those of a command inside a word, as after `sh -c`."""
    flat: list[str] = []
    for word in words:
        with suppress(ValueError):
            flat += shlex.split(word) if any(map(str.isspace, word)) else [word]
    return flat


def _tools(words: Sequence[str]) -> Iterator[tuple[_ToolOptions, list[str]]]:
    """The known tools among the words, with the words after them."""
    flat = flat_words(words)
    for place, word in enumerate(flat):
        if tool := _TOOLS.get(Path(word).name):
            yield tool, flat[place + 1 :]


def _number(words: Sequence[str], names: Sequence[str], default: int | None = None) -> int | None:
    """The number of an option: `-c 50`, `-c50`, `--clients 50`, `--clients=50` or `fixed=50/s`."""
    found = default
    for word, after in zip_longest(words, words[1:], fillvalue=""):
        name, _, value = word.partition("=")
        text = after if word in names else value if name in names else ""
        if word[:2] in names and not word.startswith("--"):
            text = word[2:] or after
        text = text.removesuffix("/s")
        if text.isascii() and text.isdigit():
            found = int(text)
    return found
