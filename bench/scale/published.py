"""What the published scale test had for its clients."""

from __future__ import annotations

from dataclasses import dataclass

from kvmark.analysis.models.scaling_published import published_laws

MACHINES = 10
CORES_EACH = 16
"""Virtual processors of each of its generator machines."""
_TABLES = {"write": "1.1, write, RF 1, LOCAL_ONE", "read": "2.1, read, RF 1, LOCAL_ONE"}
_REPORT = "hydra-cassandra-3.0.6"


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
    laws = {law.title: law for law in published_laws(_REPORT)}
    return [
        Published(operation, point.throughput.value)
        for operation, title in _TABLES.items()
        for point in laws[title].points
        if point.level == clients
    ]
