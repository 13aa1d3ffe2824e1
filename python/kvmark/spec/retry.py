"""How clients try failed operations again, as applications do: `3,backoff=50ms..1s,jitter`.

3                    at most three attempts, the first one included, without a pause
backoff=50ms..1s     a pause of 50 ms, which doubles with each further attempt, up to 1 s
jitter               each pause is drawn between 0 and that ("full jitter")
timeout=100ms        the limit on the service time of each attempt
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kvmark.errors import SpecError
from kvmark.spec import quantity
from kvmark.spec.suggest import did_you_mean, shown

_MOST_ATTEMPTS: Final = 100
_SETTINGS: Final = ("backoff", "jitter", "timeout")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a failed operation is tried again."""

    text: str
    attempts: int
    """Most attempts, the first one included."""
    backoff_ns: int = 0
    """Pause after the first attempt."""
    backoff_limit_ns: int = 0
    """Longest pause."""
    jitter: bool = False
    """Whether a pause is drawn between 0 and its length."""
    timeout_ns: int | None = None
    """Limit on the service time of an attempt; None for that of the run."""

    @property
    def longest_ns(self) -> int | None:
        """The longest time from the first issue to the last timeout; None without a timeout."""
        if self.timeout_ns is None:
            return None
        pauses = (self.backoff_ns << made for made in range(self.attempts - 1))
        return self.attempts * self.timeout_ns + sum(min(p, self.backoff_limit_ns) for p in pauses)


def parse_retry(text: str) -> RetryPolicy:
    """Reads a policy.

    Raises:
        SpecError: it isn't one.
    """
    first, *settings = (part.strip() for part in text.split(","))
    attempts = quantity.count(first)
    if not 2 <= attempts <= _MOST_ATTEMPTS:
        raise SpecError(
            f"retry: must be from 2 to {_MOST_ATTEMPTS} attempts with the first one, not {attempts}"
        )
    given: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if name not in _SETTINGS or bool(equals) == (name == "jitter") or name in given:
            hint = did_you_mean(name, _SETTINGS)
            raise SpecError(
                f"retry: {shown(setting)} is no setting{hint}; write it like"
                " 3,backoff=50ms..1s,jitter,timeout=100ms"
            )
        given[name] = value
    shortest, dots, longest = given.get("backoff", "0s").partition("..")
    backoff_ns = quantity.duration_ns(shortest)
    limit_ns = quantity.duration_ns(longest) if dots else backoff_ns
    if backoff_ns > limit_ns:
        raise SpecError(f"retry: the backoff {shortest} is longer than its limit {longest}")
    timeout_ns = quantity.duration_ns(given["timeout"]) if "timeout" in given else None
    if timeout_ns == 0:
        raise SpecError("retry: the timeout must be longer than nothing")
    return RetryPolicy(
        text=",".join((first, *settings)), attempts=attempts, backoff_ns=backoff_ns,
        backoff_limit_ns=limit_ns, jitter="jitter" in given, timeout_ns=timeout_ns,
    )  # fmt: skip


def retry_text(text: str) -> str:
    """A policy's text once it is parsed."""
    return parse_retry(text).text
