"""The headings below which `--help` lists the options of a command that has many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_MANY: Final = 16
"""A command with fewer options has one heading."""

HEADINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "Everyday options": (
        "system", "clients", "rate", "duration", "records", "slo", "verify", "fault",
        "repetitions", "report",
    ),
    "What to run": (
        "P", "p", "db", "workloads", "group", "pipeline-depth", "base", "candidate", "through",
        "only", "cases", "text", "sweep", "skip", "scale", "speed", "scale-keys", "statement",
        "seed",
    ),
    "How long": (
        "operations", "warmup", "warmup-until", "budget", "until-stderr", "drain-limit", "timeout",
        "stall-limit", "max-blocks",
    ),
    "Load": ("target", "ramp", "arrival", "workers", "pin", "first"),
    "Dataset": ("load", "on-existing", "settle", "keep"),
    "Faults and checks": ("faults", "allow", "fail-if", "if-unknown"),
    "Statistics": ("precision", "within", "find", "confirm", "metric", "interval"),
    "Output": (
        "tag", "commit", "runs", "record", "resume", "prometheus", "answer", "format", "junit",
        "json", "quiet", "help",
    ),
    "Several machines": ("fleet", "machines", "insecure-fleet"),
}  # fmt: skip
"""The options of each heading, by their long names."""


def panels(options: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Headings and their options, in the order of the help."""
    if len(options) < _MANY:
        yield "Options", list(options)
        return
    named = {name.lstrip("-"): option for option in options for name in option.opts}
    placed = {id(named[name]) for names in HEADINGS.values() for name in names if name in named}
    for heading, names in HEADINGS.items():
        others = [option for option in options if id(option) not in placed]
        if heading == "Output" and others:
            yield "Options of this command", others
        if found := [named[name] for name in names if name in named]:
            yield heading, found
