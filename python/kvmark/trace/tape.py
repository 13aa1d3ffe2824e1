"""A tape's form, as the crate `kvmark-trace` has it in its module `tape`."""

from __future__ import annotations

from typing import Final

import numpy as np

__all__ = ["HEAD", "HEAP_MAX", "KEY_KEPT", "MAGIC", "RECORD", "RECORDS_MAX", "VALUE_KEPT"]

MAGIC: Final = b"KVTAPE01"
"""What each block begins with."""
RECORDS_MAX: Final = 1024
"""Most records of a block."""
HEAP_MAX: Final = 64 << 20
"""Most bytes that a block keeps of keys and values."""
KEY_KEPT: Final = 1
VALUE_KEPT: Final = 2
"""Flags of a record whose key, and whose value behind it, are in the block's heap."""
HEAD: Final = np.dtype(
    [
        ("magic", "S8"), ("records", "<u4"), ("heap", "<u4"),
        ("first_at_ns", "<u8"), ("last_at_ns", "<u8"), ("before", "<u8"), ("spare", "V24"),
    ]
)  # fmt: skip
"""The head of a block."""
RECORD: Final = np.dtype(
    [
        ("at_ns", "<u8"), ("key", "<u8"), ("completed_ns", "<u8"), ("ttl_ms", "<u8"),
        ("client", "<u4"), ("value_size", "<u4"), ("key_size", "<u4"), ("count", "<u4"),
        ("heap", "<u4"), ("statement", "<u2"), ("items", "<u2"),
        ("kind", "u1"), ("outcome", "u1"), ("flags", "u1"), ("spare", "V5"),
    ]
)  # fmt: skip
"""One key of one operation."""
