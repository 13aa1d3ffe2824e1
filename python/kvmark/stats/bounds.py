"""Whether a figure keeps within a bound: its whole interval says so, never its value alone."""

from __future__ import annotations

__all__ = ["keeps_within"]


def keeps_within(
    low: float | None, high: float | None, limit: float, *, most: bool = True
) -> bool | None:
    """Whether the whole interval lies on the good side of a limit, or the whole on the bad side.

    None where the interval holds the limit, or there is none. With ``most`` a figure must not be
    above the limit, else not below.
    """
    if low is None or high is None:
        return None
    if not most:
        low, high, limit = -high, -low, -limit
    if high <= limit:
        return True
    return False if low > limit else None
