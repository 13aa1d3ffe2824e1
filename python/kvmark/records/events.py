"""The log of events, to which the engine and the faults append."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvmark.records import files


def read_events(path: Path) -> tuple[dict[str, Any], ...]:
    """The events of a log, without what isn't a whole JSON object.

    Raises:
        RecordsError: the log can't be read.
    """
    events = []
    for line in files.whole_lines(path).splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return tuple(events)
