"""A folder with runs of every state; the helpers are modules of this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
