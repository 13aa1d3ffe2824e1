"""The script that draws a page's figures: Vega, Vega-Lite and Vega-Embed as one."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib.metadata import version
from typing import Final

import vl_convert

from kvmark.cache import cache_folder
from kvmark.records.files import write_atomically

__all__ = ["vega_library"]

_SNIPPET: Final = "window.vegaEmbed = vegaEmbed;"


@cache
def vega_library() -> str:
    """The script. It takes seconds to make and is always the same: it is kept in the cache."""
    path = cache_folder() / f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeDecodeError):
        return path.read_bytes().decode()
    library: str = vl_convert.javascript_bundle(_SNIPPET)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, library.encode())
    return library
