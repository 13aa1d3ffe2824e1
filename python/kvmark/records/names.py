"""Names that several models share."""

from __future__ import annotations

from typing import Literal

TimeName = Literal["service", "response", "wait"]
