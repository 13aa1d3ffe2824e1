"""The answers that these tests share, and the same examples on every machine."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

settings.register_profile("kvmark", derandomize=True, deadline=None)
settings.load_profile("kvmark")
sys.path.insert(0, str(Path(__file__).parent))
