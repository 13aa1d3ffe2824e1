"""One seed from the user becomes one for each source of chance."""

from __future__ import annotations

import hashlib

from kvmark.plan.model import Seeds

__all__ = ["derive_seed", "derive_seeds"]


def derive_seed(seed: int, source: str) -> int:
    """The first eight bytes, highest first, of SHA-256 over the text `seed:source`.

    So runs with neighbouring seeds share nothing, and each source can be varied alone.
    """
    digest = hashlib.sha256(f"{seed}:{source}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def derive_seeds(seed: int) -> Seeds:
    """The seeds of arrival times, keys, values and operation kinds."""
    return Seeds(
        schedule=derive_seed(seed, "schedule"),
        keys=derive_seed(seed, "keys"),
        values=derive_seed(seed, "values"),
        mix=derive_seed(seed, "mix"),
    )
