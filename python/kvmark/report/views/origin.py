"""On what, when and at which commit runs were measured: as facts and as a sentence."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvmark.records import Run
from kvmark.records.case import RunEnvironment
from kvmark.report.format import units
from kvmark.report.format.grid import escape_markdown
from kvmark.report.model.answers import Fact
from kvmark.report.views.plan_words import listed

__all__ = ["NO_COMMIT", "machine_words", "origin_facts", "origin_sentence"]

NO_COMMIT = "not recorded"
"""What stands for the commit of runs that were made without --commit."""
_SHORT_COMMIT = 12
_DAY = len("2026-11-21")


def origin_facts(runs: Sequence[Run]) -> tuple[Fact, ...]:
    """When, at which commit, on which machine; nothing of runs that others measured."""
    own = [run for run in runs if run.manifest.imported is None]
    if not own:
        return ()
    days = sorted({run.manifest.created[:_DAY] for run in own})
    return (
        Fact("Measured", days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"),
        Fact("Commit", ", ".join(_commits(own)) or NO_COMMIT),
        Fact("Machine", "; ".join(dict.fromkeys(map(_machine, own)))),
        Fact("System", ", ".join(_systems(own))),
        *_servers(own),
    )


def _servers(runs: Sequence[Run]) -> Iterator[Fact]:
    """The servers that kvmark started; where they differ between runs, each place that differs."""
    known = [RunEnvironment.of(run.manifest) for run in runs]
    words = list(dict.fromkeys(one.server_words for one in known if one.servers))
    if len(words) == 1:
        yield Fact("Servers", words[0])
    elif words:
        places = dict.fromkeys(place for one in known for place in one.servers)
        levels = {place: list(dict.fromkeys(one.servers.get(place, "unknown") for one in known))
                  for place in places}  # fmt: skip
        told = [f"{place.removeprefix('servers.')} {', or '.join(texts)}"
                for place, texts in levels.items() if len(texts) > 1]  # fmt: skip
        yield Fact("Servers", f"not the same for all runs: {'; '.join(told)}")


def origin_sentence(runs: Sequence[Run]) -> str:
    """Which runs a block is made of, where they ran and how they are made again, as Markdown."""
    first, last = runs[0], runs[-1]
    which = f"run {first.id}" if len(runs) == 1 else f"{len(runs)} runs, {first.id} to {last.id}"
    versions = dict.fromkeys(run.manifest.versions.get("kvmark", "unknown") for run in runs)
    commits = [f"commit {', '.join(_commits(runs))}"] if any(_commits(runs)) else []
    told = [
        f"From {which}", listed(_systems(runs)), *commits, f"kvmark {', '.join(versions)}",
        _machine(last),
    ]  # fmt: skip
    commands = dict.fromkeys(shlex.join(run.manifest.command) for run in runs)
    again = "" if len(commands) > 1 else f" Made by `{next(iter(commands))}`."
    return f"{escape_markdown('; '.join(told))}.{again}"


def _systems(runs: Sequence[Run]) -> list[str]:
    systems = (run.manifest.engine.system for run in runs)
    return list(dict.fromkeys(f"{one.system} {one.version}".strip() for one in systems))


def _commits(runs: Sequence[Run]) -> list[str]:
    commits = dict.fromkeys(run.manifest.commit for run in runs)
    return [one[:_SHORT_COMMIT] for one in commits if one]


def _machine(run: Run) -> str:
    return ", ".join(machine_words(run.manifest.host))


def machine_words(host: Mapping[str, Any]) -> Iterator[str]:
    """A machine's cores, memory and kernel."""
    yield f"{host.get('cores', '?')} cores of {host.get('processor', 'an unknown processor')}"
    memory, kernel = host.get("memory_bytes"), host.get("kernel")
    if isinstance(memory, int):
        yield units.size(memory)
    if kernel:
        yield f"kernel {kernel}"
