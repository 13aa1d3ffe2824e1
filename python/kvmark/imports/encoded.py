"""Encoded HdrHistograms of strangers: bounded before they are unpacked."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from typing import Final

import numpy as np

from kvmark.imports.source import Source
from kvmark.records.histograms import decode
from kvmark.stats import Counts

__all__ = ["decode_bounded"]

_COMPRESSED: Final = 0x1C849304
_PLAIN: Final = 0x1C849303
_BASE: Final = ~0xF0
_HEADER: Final = struct.Struct(">iiiiqqd")
_LARGEST_BYTES: Final = 16 << 20
_LONGEST: Final = 16 << 20
_MOST_BUCKETS: Final = 1 << 22


def decode_bounded(source: Source, line: int | None, encoded: str, ns: int) -> Counts:
    """The counts of an encoded histogram whose values are multiples of ``ns`` nanoseconds.

    Raises:
        ImportFileError: it isn't an HdrHistogram of version 2, or its values are beyond reason.
    """
    try:
        _check(encoded)
        counts = decode(encoded)
    except (ValueError, binascii.Error, zlib.error, struct.error) as problem:
        message = f"a histogram can't be decoded ({problem}): the file may be cut off or damaged"
        raise source.error(line, message) from problem
    if counts.n < 0 or np.any(counts.count <= 0) or np.any(counts.high > 2**62 // ns):
        raise source.error(line, "a histogram has counts or values that can't be: it is damaged")
    # A range ends where the next one begins, also when both are multiplied.
    return Counts(counts.low * ns, (counts.high + 1) * ns - 1, counts.count)


def _check(encoded: str) -> None:
    """Refuses what a decoder would trust: cookies, lengths, sizes.

    Raises:
        ValueError: one of them is wrong.
    """
    if len(encoded) > _LONGEST:
        raise ValueError("it is too long")
    packed = base64.b64decode(encoded, validate=True)
    if len(packed) < 8:
        raise ValueError("it is too short")
    cookie, length = struct.unpack(">ii", packed[:8])
    if cookie & _BASE != _COMPRESSED & _BASE or length != len(packed) - 8:
        raise ValueError("it isn't HdrHistogram's version 2")
    unpacker = zlib.decompressobj()
    payload = unpacker.decompress(packed[8:], _LARGEST_BYTES)
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("it isn't whole")
    if len(payload) < _HEADER.size:
        raise ValueError("it is too short")
    cookie, size, _, digits, lowest, highest, _ = _HEADER.unpack(payload[: _HEADER.size])
    if cookie & _BASE != _PLAIN & _BASE or size != len(payload) - _HEADER.size:
        raise ValueError("its parts don't fit together")
    if not (1 <= digits <= 5 and 1 <= lowest <= highest // 2 and highest < 2**63):
        raise ValueError("its settings can't be")
    # Each doubling of the range has half of 2 · 10^digits steps, rounded up to a power of two.
    steps = 1 << (2 * 10**digits).bit_length()
    if (highest // lowest).bit_length() * steps > _MOST_BUCKETS:
        raise ValueError("it has too many buckets")
