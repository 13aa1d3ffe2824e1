"""Sizes of memory, as options of a testbed write them."""

import pytest

from kvmark.errors import UsageError
from kvmark.testbed.words import read_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("512K", 2**19), ("64M", 2**26), ("512m", 2**29), ("512MiB", 2**29), ("2GiB", 2**31)],
)
def test_a_size_is_written_as_java_and_memcached_do(text: str, size: int) -> None:
    assert read_size("memory", text) == size


def test_a_size_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="heap: 'much' is not a size; write it like 512M or 2G"):
        read_size("heap", "much")
