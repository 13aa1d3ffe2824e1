"""What the published scale test had for its clients."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources
from typing import Final

MACHINES = 10
CORES_EACH = 16
"""Virtual processors of each of its generator machines."""
_TABLES: Final = ("1.1", "2.1")
"""Writes and reads of one copy at LOCAL_ONE."""


@dataclass(frozen=True)
class Published:
    """Its figure at so many clients."""

    operation: str
    ops_per_s: float

    @property
    def cpu_us_at_hand(self) -> float:
        """Processor time that its generators had for each operation, used or not."""
        return MACHINES * CORES_EACH / self.ops_per_s * 1e6


def published_at(clients: int) -> list[Published]:
    """The published figures at so many clients, where there are any."""
    file = resources.files("kvmark").joinpath("published", "hydra-cassandra-3.0.6.csv")
    return [
        Published(row["operation"], float(row["ops_per_s"]))
        for row in csv.DictReader(file.read_text("utf-8").splitlines())
        if row["table"] in _TABLES and int(row["clients"]) == clients
    ]
