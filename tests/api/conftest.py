"""Runs without an engine; the helpers are modules of tests/serve."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "serve"))
