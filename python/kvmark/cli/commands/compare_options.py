"""Options that commands which compare have in common, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from kvmark.errors import SpecError, UsageError
from kvmark.spec import condition, quantity
from kvmark.spec.suggest import did_you_mean

__all__ = ["Allow", "FailIf", "Form", "IfUnknown", "Junit", "allowed", "gate", "share"]

ALLOWED: Final = ("environment", "invalid", "plan", "system")
"""What may speak against a comparison and be allowed by name."""

Allow = Annotated[
    str,
    typer.Option(
        metavar="WORD,…",
        help=f"Compare although something speaks against it: {', '.join(ALLOWED)}.",
    ),
]
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="Exit with 1 if a change is or may be beyond: 'p99>5%', 'throughput<-3%'; repeatable.",
    ),
]
IfUnknown = Annotated[
    condition.IfUnknown,
    typer.Option(help="Whether a build fails or passes where the runs can't tell."),
]
Form = Annotated[Literal["text", "md"], typer.Option("--format", help="How the answer is set.")]
Junit = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="Write the conditions as JUnit XML too."),
]


def share(metavar: str, help: str) -> Any:
    """An option for a share: `2%` or `0.02`."""

    def parse(value: Any) -> Any:
        try:
            return quantity.share(value) if isinstance(value, str) else value
        except SpecError as problem:
            raise typer.BadParameter(str(problem)) from None

    return typer.Option(parser=parse, metavar=metavar, help=help, show_default=False)


def gate(texts: Iterable[str], if_unknown: condition.IfUnknown) -> condition.Gate:
    """The conditions of `--fail-if`.

    Raises:
        SpecError: one of them is none.
    """
    return condition.Gate(tuple(map(condition.parse_condition, texts)), if_unknown)


def allowed(text: str) -> tuple[str, ...]:
    """The words of `--allow`.

    Raises:
        UsageError: one of them can't be allowed.
    """
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    for word in words:
        if word not in ALLOWED:
            raise UsageError(f"allow: '{word}' can't be allowed{did_you_mean(word, ALLOWED)}")
    return words
